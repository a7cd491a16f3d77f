package instance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestReadRequested checks that Backup objects without a result are used one after the other, the oldest first.
func TestReadRequested(t *testing.T) {
	minuteAt := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 30, 3, minute, 0, 0, time.UTC))
	}
	backup := func(name string, minute int, vary ...func(*v1.Backup)) *v1.Backup {
		b := &v1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			CreationTimestamp: minuteAt(minute)},
			Spec: v1.BackupObjectSpec{Instance: v1.InstanceReference{Kind: v1.KindMySQL, Name: "db"}}}
		for _, v := range vary {
			v(b)
		}
		return b
	}
	answered := func(reason string) func(*v1.Backup) {
		return func(b *v1.Backup) {
			b.Status.Conditions = []metav1.Condition{{Type: v1.ConditionComplete, Reason: reason}}
		}
	}
	last := func(name, uid string, phase v1.LastBackupPhase) *v1.LastBackupStatus {
		return &v1.LastBackupStatus{Request: name, UID: types.UID(uid), Phase: phase}
	}
	cases := map[string]struct {
		reason string
		cached []client.Object
		stored []client.Object // If it is nil, it is the same as cached.
		last   *v1.LastBackupStatus
		method v1.BackupMethod
		want   Request
	}{
		"None": {reason: "There is no Backup object, so no backup is requested."},
		"Oldest": {reason: "The oldest Backup object must be used first.",
			cached: []client.Object{backup("b", 2), backup("a", 3), backup("c", 1)},
			want:   Request{Name: "c", UID: "c", Method: v1.MethodOnline}},
		"Answered": {reason: "A Backup object with a result must not be used again.", cached: []client.Object{
			backup("a", 1, answered(v1.ReasonBackupVerified)), backup("b", 2, answered(v1.ReasonBackupFailed)),
			backup("c", 3, answered(v1.ReasonBackupWaiting))},
			want: Request{Name: "c", UID: "c", Method: v1.MethodOnline}},
		"Stale": {reason: "The cache may be outdated, and a failed backup must not be taken again.",
			cached: []client.Object{backup("a", 1)}, stored: []client.Object{backup("a", 1, answered(v1.ReasonBackupFailed))}},
		"Gone": {reason: "The Backup object was deleted after the cache was filled.",
			cached: []client.Object{backup("a", 1)}, stored: []client.Object{}},
		"Untold": {reason: "The last Backup object has no result yet, so no other backup must be started.",
			cached: []client.Object{backup("a", 1), backup("b", 2)}, last: last("a", "a", v1.LastBackupFailed)},
		"SameName": {reason: "The last backup was requested by a Backup object with the same name but another UID.",
			cached: []client.Object{backup("a", 1)},
			last:   last("a", "before", v1.LastBackupFailed), want: Request{Name: "a", UID: "a", Method: v1.MethodOnline}},
		"UnderWay": {reason: "A backup is running, so no other backup must be started.", cached: []client.Object{backup("b", 2)},
			last: last("a", "a", v1.LastBackupRunning)},
		"OfOthers": {reason: "Backup objects of other instances must be ignored.", cached: []client.Object{
			backup("a", 1, func(b *v1.Backup) { b.Spec.Instance.Name = "other" }),
			backup("b", 1, func(b *v1.Backup) { b.Spec.Instance.Kind = v1.KindDatabase }),
			backup("c", 1, func(b *v1.Backup) { b.Namespace = "elsewhere" })}},
		"Method": {reason: "The method of the Backup object takes precedence over the method of the instance.", cached: []client.Object{
			backup("a", 1, func(b *v1.Backup) { b.Spec.Method = v1.MethodOnline })}, method: v1.MethodCold,
			want: Request{Name: "a", UID: "a", Method: v1.MethodOnline}},
		"InstancesMethod": {reason: "If the Backup object specifies no method, the method of the instance must be used.",
			cached: []client.Object{backup("a", 1)},
			method: v1.MethodCold, want: Request{Name: "a", UID: "a", Method: v1.MethodCold}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stored := tc.stored
			if stored == nil {
				stored = tc.cached
			}
			readerOf := func(all []client.Object) client.Reader {
				return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(all...).Build()
			}
			g := &Gatherer{Reader: readerOf(stored), Cache: readerOf(tc.cached)}
			x := Decode(xr("x", "uid-1", "db", false))
			x.Status.Started, x.Status.RequestedBackup = true, tc.last
			if tc.method != "" {
				x.Spec.Backup.Schedule = &v1.BackupSchedule{Cron: "@daily", Method: tc.method}
			}
			s := &Subject{XR: x, Instance: key.Instance("uid-1")}
			got, err := g.readRequested(t.Context(), s)
			if err != nil || got != tc.want {
				t.Errorf("%s: want %+v, got %+v, %v", tc.reason, tc.want, got, err)
			}
			x.Status.Started = false
			if got, err := g.readRequested(t.Context(), s); err != nil || got.Name != "" {
				t.Errorf("before the server has started: %+v, %v", got, err)
			}
		})
	}
}
