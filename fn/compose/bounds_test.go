package compose

import (
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestScheduleIsBounded checks that a schedule and a retention that keep too many backups are refused for a new
// instance. A running server is not affected.
func TestScheduleIsBounded(t *testing.T) {
	planned := func(schedule, keepFor string) func(*Input) {
		return func(in *Input) {
			in.XR.Spec.Backup.Schedule = &v1.BackupSchedule{Cron: schedule, Method: v1.MethodOnline}
			in.XR.Spec.Backup.Retention.MinAge = keepFor
		}
	}
	inStore := func(in *Input) {
		platform(func(s *v1.PlatformSpec) { s.AllowedBackupStores = []string{"offsite"} })(in)
		in.XR.Spec.Backup.StoreRef = &v1.BackupStoreReference{Name: "offsite"}
	}
	started := func(in *Input) { in.XR.Status.Started = true }
	for name, tc := range map[string]struct {
		in   Input
		want []string
	}{
		"Daily": {in: given(planned("0 3 * * *", "30d"))},
		"Many": {in: given(planned("0 * * * *", "30d")),
			want: []string{"spec.backup.retention.minAge", "retains up to 720 backups", "at most 250", "on a volume", "maxBackups"}},
		"InStore": {in: given(planned("0 * * * *", "30d"), inStore)},
		"ManyInStore": {in: given(planned("*/20 * * * *", "30d"), inStore),
			want: []string{"retains up to 2160 backups", "at most 1000", "in BackupStore offsite"}},
		"ByPlatform": {in: given(planned("0 3 * * *", "30d"),
			platform(func(s *v1.PlatformSpec) { s.MaxBackups = 20 })), want: []string{"up to 30 backups", "at most 20"}},
		"Interval": {in: given(planned("* * * * *", "")),
			want: []string{"spec.backup.schedule", "1 minutes apart", "at least 15 minutes"}},
		"IntervalKept": {in: given(planned("*/15 * * * *", ""))},
		"LongInterval": {in: given(planned("*/15 * * * *", ""),
			platform(func(s *v1.PlatformSpec) { s.MinBackupInterval = 60 })), want: []string{"15 minutes apart",
			"at least 60 minutes"}},
		"Unkept": {in: given(planned("* * * * *", ""),
			platform(func(s *v1.PlatformSpec) { s.MinBackupInterval = 1 }))},
		"Centuries":     {in: given(planned("@daily", "99999w")), want: []string{"at most 250"}},
		"Unreadable":    {in: given(planned("* * *", "99999w")), want: []string{"spec.backup.schedule"}},
		"RunsAlready":   {in: given(planned("0 * * * *", "30d"), started)},
		"KeptUnplanned": {in: given(func(in *Input) { in.XR.Spec.Backup.Retention.MinAge = "99999w" })},
	} {
		_, err := resolve(tc.in)
		if (err != nil) != (tc.want != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q in %v", name, want, err)
			}
		}
	}
}
