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
