package v1

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A Schedule specifies the minutes in which a backup is taken.
//
// +kubebuilder:object:generate=false
type Schedule struct {
	in   *time.Location
	cron cron.Schedule
}

// maxSchedule is the maximum length of a schedule, in bytes.
const maxSchedule = 100

// CheckSchedule validates a schedule in the format of a CronJob. It refuses @every, which specifies no minutes, and a
// time zone, which has its own field.
func CheckSchedule(text string) error {
	_, err := parseSchedule(text)
	return err
}

func parseSchedule(text string) (cron.Schedule, error) {
	switch {
	case len(text) > maxSchedule:
		return nil, fmt.Errorf("must have at most %d characters", maxSchedule)
	case strings.Contains(text, "TZ"):
		return nil, errors.New("must not contain a time zone. Set backup.schedule.timeZone instead")
	case strings.HasPrefix(text, "@every"):
		return nil, errors.New("must not use @every. Use a cron expression instead, such as 0 */6 * * *")
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression with the fields minute, hour, day of the month, month and day "+
			"of the week, such as 0 3 * * *: %w", err)
	}
	if parsed.Next(time.Unix(0, 0)).IsZero() {
		return nil, errors.New("matches no existing date, so no backup would ever be taken. Change the day or the month")
	}
	return parsed, nil
}

// CheckTimeZone validates the time zone of a schedule. An empty time zone is UTC.
func CheckTimeZone(zone string) error {
	_, err := parseTimeZone(zone)
	return err
}

func parseTimeZone(zone string) (*time.Location, error) {
	in, err := time.LoadLocation(zone)
	if err != nil || strings.EqualFold(zone, "Local") { // Local depends on the machine that reads it.
		return nil, errors.New("must be a name in the IANA time zone database, such as Europe/Berlin")
	}
	return in, nil
}

// ParseSchedule parses a schedule in cron format. An empty time zone means UTC.
func ParseSchedule(text, zone string) (*Schedule, error) {
	parsed, err := parseSchedule(text)
	if err != nil {
		return nil, fmt.Errorf("backup.schedule.cron %w", err)
	}
	in, err := parseTimeZone(zone)
	if err != nil {
		return nil, fmt.Errorf("backup.schedule.timeZone %q %w", zone, err)
	}
	return &Schedule{in: in, cron: parsed}, nil
}

// Next returns the first scheduled minute after the given time. It is zero if there is none.
func (s *Schedule) Next(after time.Time) time.Time {
	next := s.cron.Next(after.In(s.in))
	if next.IsZero() {
		return next
	}
	return next.UTC()
}

// LastOf returns the last scheduled minute that is not after until. The minute from must be scheduled, and is
// returned if no other scheduled minute follows. LastOf uses bisection, because a schedule can have half a million
// minutes a year.
func (s *Schedule) LastOf(from, until time.Time) time.Time {
	isFollowed := func(timestamp time.Time) bool {
		next := s.Next(timestamp)
		return !next.IsZero() && !next.After(until)
	}
	if !isFollowed(from) {
		return from
	}
	for end := until; end.Sub(from) > time.Minute; {
		middle := from.Add(end.Sub(from) / 2)
		if isFollowed(middle) {
			from = middle
			continue
		}
		end = middle
	}
	return s.Next(from)
}

// IsPlanned reports whether a time is a minute of the schedule.
func (s *Schedule) IsPlanned(timestamp time.Time) bool {
	return s.Next(timestamp.Add(-time.Nanosecond)).Equal(timestamp)
}

// Schedules are evaluated for a period of five years. It includes a leap year, and each date falls on several days of
// the week.
const (
	daysOfSchedule = 5 * 366
	minutesOfDay   = 24 * 60
)

// firstDay is the day on which the calculations start. It is fixed, so that they do not depend on a clock.
var firstDay = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)

// MostWithin returns an upper bound for the number of backups that a schedule takes within a duration. The number of
// days is exact. The rest of the duration, which is shorter than a day, is assumed to be on a scheduled day.
func (s *Schedule) MostWithin(d time.Duration) int64 {
	minutes, days := s.minutes(), s.days()
	const day = minutesOfDay * time.Minute
	whole, rest := d/day, int((d%day+time.Minute-1)/time.Minute)
	return int64(len(minutes))*mostDays(days, whole) + mostMinutes(minutes, rest)
}

// LeastInterval returns the shortest time between two backups of a schedule. It is at least one minute.
func (s *Schedule) LeastInterval() time.Duration {
	minutes := s.minutes()
	least := minutesOfDay
	for i := range minutes {
		next := minutesOfDay + minutes[0]
		if i+1 < len(minutes) {
			next = minutes[i+1]
		}
		least = min(least, next-minutes[i])
	}
	return time.Duration(least) * time.Minute
}

// minutes returns the scheduled minutes of a day.
func (s *Schedule) minutes() []int {
	spec, ok := s.cron.(*cron.SpecSchedule)
	if !ok {
		return nil
	}
	var out []int
	for m := range minutesOfDay {
		if spec.Hour&(1<<(m/60)) != 0 && spec.Minute&(1<<(m%60)) != 0 {
			out = append(out, m)
		}
	}
	return out
}

// days returns the scheduled days, counted from firstDay.
func (s *Schedule) days() []int64 {
	spec, ok := s.cron.(*cron.SpecSchedule)
	if !ok {
		return nil
	}
	midnights := *spec
	midnights.Second, midnights.Minute, midnights.Hour, midnights.Location = 1, 1, 1, time.UTC
	var out []int64
	for midnight := midnights.Next(firstDay.Add(-time.Second)); !midnight.IsZero(); midnight = midnights.Next(midnight) {
		day := int64(midnight.Sub(firstDay) / (minutesOfDay * time.Minute))
		if day >= daysOfSchedule {
			break
		}
		out = append(out, day)
	}
	return out
}

// mostDays returns the maximum number of scheduled days in any period of the given number of days.
func mostDays(days []int64, within time.Duration) int64 {
	most, first := 0, 0
	for last := range days {
		for days[last]-days[first] >= int64(within) && first < last {
			first++
		}
		most = max(most, last-first+1)
	}
	switch {
	case within == 0:
		return 0
	case int64(within) > daysOfSchedule: // A longer period has at most the same density.
		return int64(most) * (int64(within)/daysOfSchedule + 1)
	}
	return int64(most)
}

// mostMinutes returns the maximum number of scheduled minutes in any period of the given number of minutes. The
// period may include midnight.
func mostMinutes(minutes []int, within int) int64 {
	most := 0
	for i, from := range minutes {
		n := 0
		for k := range minutes {
			minute := minutes[(i+k)%len(minutes)]
			if minute < from {
				minute += minutesOfDay
			}
			if minute-from >= within {
				break
			}
			n++
		}
		most = max(most, n)
	}
	return int64(most)
}

// PlannedName returns the name of the backup that is scheduled for the given minute. It depends only on the minute,
// so that every controller replica uses the same name.
func PlannedName(minute time.Time) string { return minute.UTC().Format(plannedFormat) }

const plannedFormat = "2006-01-02T15:04Z"

// PlannedAt returns the scheduled minute of the backup with the given name. It is zero if the name is invalid.
func PlannedAt(name string) time.Time {
	planned, _ := time.Parse(plannedFormat, name) // The time is zero if parsing fails.
	return planned
}

// ParseMinAge parses the minimum age at which a backup is deleted, such as 30d. It is zero for an empty or invalid
// value.
func ParseMinAge(text string) time.Duration {
	if text == "" {
		return 0
	}
	unit := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[text[len(text)-1]]
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
	switch {
	case err != nil || n < 0 || unit == 0:
		return 0
	case n > int64(math.MaxInt64/unit): // A duration cannot be longer than some centuries.
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
