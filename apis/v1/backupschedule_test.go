package v1

import (
	"math"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // As in the controller's program.

	"github.com/robfig/cron/v3"
)

// TestSchedule checks that schedules of CronJobs are accepted, except @every and schedules with a time zone.
func TestSchedule(t *testing.T) {
	for name, tc := range map[string]struct {
		schedule, zone string
		after          string
		want           string
		says           string
	}{
		"Daily": {schedule: "0 3 * * *", after: "2026-11-26T02:59:59Z", want: "2026-11-26T03:00Z"},
		"Next":  {schedule: "0 3 * * *", after: "2026-11-26T03:00:00Z", want: "2026-11-27T03:00Z"},
		"Macro": {schedule: "@daily", after: "2026-11-26T03:00:00Z", want: "2026-11-27T00:00Z"},
		"Zone": {schedule: "0 3 * * *", zone: "Europe/Berlin", after: "2026-11-26T00:00:00Z",
			want: "2026-11-26T02:00Z"},
		"Summer": {schedule: "0 3 * * *", zone: "Europe/Berlin", after: "2026-07-26T00:00:00Z",
			want: "2026-07-26T01:00Z"},
		"NoSuchHour": {schedule: "30 2 * * *", zone: "Europe/Berlin", after: "2026-03-28T12:00:00Z",
			want: "2026-03-30T00:30Z"},
		"TwiceHour": {schedule: "30 2 * * *", zone: "Europe/Berlin", after: "2026-10-25T00:31:00Z",
			want: "2026-10-25T01:30Z"},
		"Never":     {schedule: "0 0 30 2 *", says: "matches no existing date"},
		"Leap":      {schedule: "0 0 29 2 *", after: "2026-11-26T00:00:00Z", want: "2028-02-29T00:00Z"},
		"Every":     {schedule: "@every 1h", says: "must not use @every"},
		"Inside":    {schedule: "CRON_TZ=Europe/Berlin 0 3 * * *", says: "timeZone"},
		"Seconds":   {schedule: "0 0 3 * * *", says: "minute, hour"},
		"Text":      {schedule: "at night", says: "minute, hour"},
		"Empty":     {schedule: "", says: "minute, hour"},
		"Long":      {schedule: "0" + strings.Repeat(",0", 60) + " 3 * * *", says: "at most 100"},
		"ZoneNone":  {schedule: "0 3 * * *", zone: "Europe/Atlantis", says: `backup.schedule.timeZone "Europe/Atlantis"`},
		"ZoneFile":  {schedule: "0 3 * * *", zone: "../../etc/passwd", says: "IANA"},
		"ZoneLocal": {schedule: "0 3 * * *", zone: "Local", says: "IANA"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ParseSchedule(tc.schedule, tc.zone)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("want %q, got %v", tc.says, err)
			}
			if err != nil {
				return
			}
			after, err := time.Parse(time.RFC3339, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if got := PlannedName(s.Next(after)); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

// TestLastOf checks that LastOf returns only the last minute if several were missed.
func TestLastOf(t *testing.T) {
	s, err := ParseSchedule("*/10 * * * *", "")
	if err != nil {
		t.Fatal(err)
	}
	from := PlannedAt("2026-11-26T03:00Z")
	for until, want := range map[string]string{"03:00": "03:00", "03:09": "03:00", "03:10": "03:10", "05:55": "05:50",
		"02:00": "03:00"} {
		if got := PlannedName(s.LastOf(from, PlannedAt("2026-11-26T"+until+"Z"))); got != "2026-11-26T"+want+"Z" {
			t.Errorf("until %s: want %s, got %s", until, want, got)
		}
	}
	if got := s.LastOf(from, from.Add(100*365*24*time.Hour)); got.Before(from) {
		t.Errorf("a clock that is wrong gives %s", got)
	}
	if !PlannedAt("one").IsZero() {
		t.Error("a text is no minute")
	}
}

// A countedSchedule is a schedule that counts the calls of Next.
type countedSchedule struct {
	cron.Schedule

	asked int
}

// Next returns the next minute of the schedule.
func (s *countedSchedule) Next(after time.Time) time.Time {
	s.asked++
	return s.Schedule.Next(after)
}

// TestLastOfIsCheap checks that LastOf needs few steps, even if the first missed minute is years ago. The result must
// be the same as that of a loop over all minutes.
func TestLastOfIsCheap(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for _, text := range []string{"* * * * *", "*/7 * * * *", "* * * 1 *", "0 3 * * *", "30 2 * * *", "0 0 29 2 *",
		"0 0 1 1 *", "15,45 9-17 * * 1-5"} {
		for _, ago := range []time.Duration{0, time.Minute, 90 * time.Minute, 40 * 24 * time.Hour, 365 * 24 * time.Hour,
			40 * 365 * 24 * time.Hour} {
			s, err := ParseSchedule(text, "Europe/Berlin")
			if err != nil {
				t.Fatal(err)
			}
			counted := &countedSchedule{Schedule: s.cron}
			from := s.Next(now.Add(-ago))
			s.cron = counted
			got := s.LastOf(from, now)
			if counted.asked > 40 {
				t.Errorf("%q, due %s ago: the schedule was asked %d times", text, ago, counted.asked)
			}
			if ago > 400*24*time.Hour {
				continue // The loop below would take seconds.
			}
			want := from
			for {
				next := s.Next(want)
				if next.IsZero() || next.After(now) {
					break
				}
				want = next
			}
			if !got.Equal(want) {
				t.Errorf("%q, due %s ago: want %s, got %s", text, ago, want, got)
			}
		}
	}
}

// TestIsPlanned checks that IsPlanned is true only for minutes of the schedule.
func TestIsPlanned(t *testing.T) {
	s, err := ParseSchedule("0 3 * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"2026-11-20T02:00Z": true, "2026-11-20T03:00Z": false,
		"2030-07-20T01:00Z": true} {
		if got := s.IsPlanned(PlannedAt(text)); got != want {
			t.Errorf("%s: want %t, got %t", text, want, got)
		}
	}
}

// TestKeepFor checks ParseMinAge with all units and with invalid values.
func TestKeepFor(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "48h": 48 * time.Hour, "30d": 720 * time.Hour,
		"4w": 672 * time.Hour, "5": 0, "d": 0, "-1d": 0, "1m": 0, "99999999999d": 0, "99999w": math.MaxInt64} {
		if got := ParseMinAge(text); got != want {
			t.Errorf("%q is %s, and not %s", text, got, want)
		}
	}
}

// TestMostBackupsOfSchedule checks the maximum number of backups that a schedule takes within a duration, and the
// shortest time between two backups.
func TestMostBackupsOfSchedule(t *testing.T) {
	for name, tc := range map[string]struct {
		schedule, keepFor string
		most              int64
		least             time.Duration
	}{
		"Daily":     {schedule: "0 3 * * *", keepFor: "30d", most: 30, least: 24 * time.Hour},
		"Hourly":    {schedule: "@hourly", keepFor: "30d", most: 720, least: time.Hour},
		"Minutely":  {schedule: "* * * * *", keepFor: "48h", most: 2880, least: time.Minute},
		"HalfADay":  {schedule: "0 * * * *", keepFor: "12h", most: 12, least: time.Hour},
		"Clustered": {schedule: "0,1,2 23,0 * * *", keepFor: "2h", most: 6, least: time.Minute},
		"Weekly":    {schedule: "0 3 * * 0", keepFor: "104w", most: 104, least: 24 * time.Hour},
		"Monthly":   {schedule: "0 3 1 * *", keepFor: "365d", most: 12, least: 24 * time.Hour},
		"Leap":      {schedule: "0 3 29 2 *", keepFor: "52w", most: 1, least: 24 * time.Hour},
		"Workdays":  {schedule: "0 3 * * 1-5", keepFor: "4w", most: 20, least: 24 * time.Hour},
		"Unkept":    {schedule: "* * * * *", most: 0, least: time.Minute},
	} {
		s, err := ParseSchedule(tc.schedule, "Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.MostWithin(ParseMinAge(tc.keepFor)); got != tc.most {
			t.Errorf("%s: want %d at most, got %d", name, tc.most, got)
		}
		if got := s.LeastInterval(); got != tc.least {
			t.Errorf("%s: want %s between two, got %s", name, tc.least, got)
		}
		if got := s.MostWithin(ParseMinAge("99999w")); got < tc.most {
			t.Errorf("%s: within centuries it plans %d", name, got)
		}
	}
}
