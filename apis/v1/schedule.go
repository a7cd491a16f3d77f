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

// A Schedule says in which minutes a backup is taken.
//
// +kubebuilder:object:generate=false
type Schedule struct {
	in *time.Location
	of cron.Schedule
}

// maxSchedule in bytes.
const maxSchedule = 100

// CheckSchedule of backups, as CronJobs have it, but for @every, which has no minute of its own. Its zone is
// another field.
func CheckSchedule(text string) error {
	_, err := parseSchedule(text)
	return err
}

func parseSchedule(text string) (cron.Schedule, error) {
	switch {
	case len(text) > maxSchedule:
		return nil, fmt.Errorf("has more than %d characters", maxSchedule)
	case strings.Contains(text, "TZ"):
		return nil, errors.New("has a time zone, which is said in timeZone")
	case strings.HasPrefix(text, "@every"):
		return nil, errors.New("has no minute that it is planned for: say which, such as 0 */6 * * *")
	}
	of, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("is not minute, hour, day of the month, month and day of the week, such as 0 3 * * *: %w", err)
	}
	if of.Next(time.Unix(0, 0)).IsZero() {
		return nil, errors.New("names no minute that ever comes")
	}
	return of, nil
}

// CheckTimeZone of a schedule; an empty one is UTC.
func CheckTimeZone(zone string) error {
	_, err := parseTimeZone(zone)
	return err
}

func parseTimeZone(zone string) (*time.Location, error) {
	in, err := time.LoadLocation(zone)
	if err != nil || strings.EqualFold(zone, "Local") { // That is the one of whoever reads it.
		return nil, errors.New("is not one of the IANA time zone database, such as Europe/Berlin")
	}
	return in, nil
}

// ParseSchedule of backups in a time zone; an empty one is UTC.
func ParseSchedule(text, zone string) (*Schedule, error) {
	of, err := parseSchedule(text)
	if err != nil {
		return nil, fmt.Errorf("backup.schedule %w", err)
	}
	in, err := parseTimeZone(zone)
	if err != nil {
		return nil, fmt.Errorf("backup.timeZone %q %w", zone, err)
	}
	return &Schedule{in: in, of: of}, nil
}

// Next minute after a time; zero where there is none.
func (s *Schedule) Next(after time.Time) time.Time {
	next := s.of.Next(after.In(s.in))
	if next.IsZero() {
		return next
	}
	return next.UTC()
}

// LastOf returns the last planned minute that is not after until. It returns from, which is a planned minute itself, if no later one is due. It
// bisects the time between the two, because a minutely schedule that was due a year ago has half a million minutes to step through.
func (s *Schedule) LastOf(from, until time.Time) time.Time {
	isFollowed := func(at time.Time) bool {
		next := s.Next(at)
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
func (s *Schedule) IsPlanned(at time.Time) bool { return s.Next(at.Add(-time.Nanosecond)).Equal(at) }

// Days that the arithmetic of schedules goes through: a leap year is among them, and each date falls on several days of the week.
const (
	daysOfSchedule = 5 * 366
	minutesOfDay   = 24 * 60
)

// firstDay of that arithmetic, which no clock is asked for.
var firstDay = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)

// MostWithin returns how many backups a schedule plans at most within a duration. It is a bound: the days of a schedule
// are exact, and within a part of a day it is taken for planned on each day.
func (s *Schedule) MostWithin(d time.Duration) int64 {
	minutes, days := s.minutes(), s.days()
	const day = minutesOfDay * time.Minute
	whole, rest := d/day, int((d%day+time.Minute-1)/time.Minute)
	return int64(len(minutes))*mostDays(days, whole) + mostMinutes(minutes, rest)
}

// LeastInterval returns the shortest time between two backups of a schedule, at least a minute.
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

// minutes of a day that backups are planned for.
func (s *Schedule) minutes() []int {
	of, ok := s.of.(*cron.SpecSchedule)
	if !ok {
		return nil
	}
	var out []int
	for m := range minutesOfDay {
		if of.Hour&(1<<(m/60)) != 0 && of.Minute&(1<<(m%60)) != 0 {
			out = append(out, m)
		}
	}
	return out
}

// days that backups are planned on, counted from firstDay.
func (s *Schedule) days() []int64 {
	of, ok := s.of.(*cron.SpecSchedule)
	if !ok {
		return nil
	}
	midnights := *of
	midnights.Second, midnights.Minute, midnights.Hour, midnights.Location = 1, 1, 1, time.UTC
	var out []int64
	for at := midnights.Next(firstDay.Add(-time.Second)); !at.IsZero(); at = midnights.Next(at) {
		day := int64(at.Sub(firstDay) / (minutesOfDay * time.Minute))
		if day >= daysOfSchedule {
			break
		}
		out = append(out, day)
	}
	return out
}

// mostDays of a schedule within so many days in a row.
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
	case int64(within) > daysOfSchedule: // Decades, at most as dense.
		return int64(most) * (int64(within)/daysOfSchedule + 1)
	}
	return int64(most)
}

// mostMinutes of a day within so many minutes, which may be around midnight.
func mostMinutes(minutes []int, within int) int64 {
	most := 0
	for i, from := range minutes {
		n := 0
		for k := range minutes {
			at := minutes[(i+k)%len(minutes)]
			if at < from {
				at += minutesOfDay
			}
			if at-from >= within {
				break
			}
			n++
		}
		most = max(most, n)
	}
	return int64(most)
}

// PlannedName of the backup that is planned for a minute: the same for whoever takes it.
func PlannedName(at time.Time) string { return at.UTC().Format(plannedFormat) }

const plannedFormat = "2006-01-02T15:04Z"

// PlannedAt is the minute of that name; zero where it is none.
func PlannedAt(name string) time.Time {
	at, _ := time.Parse(plannedFormat, name) // It is zero then.
	return at
}

// ParseKeepFor is how long a backup is kept at least; zero where that is not said.
func ParseKeepFor(text string) time.Duration {
	if text == "" {
		return 0
	}
	unit := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[text[len(text)-1]]
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
	switch {
	case err != nil || n < 0 || unit == 0:
		return 0
	case n > int64(math.MaxInt64/unit): // Centuries.
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
