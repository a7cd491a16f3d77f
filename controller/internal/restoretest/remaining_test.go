package restoretest

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func TestLeftToDo(t *testing.T) {
	record := func(phase v1.BackupPhase, verdict metav1.ConditionStatus, test *v1.RestoreTest) v1.BackupRecord {
		r := v1.BackupRecord{Status: v1.BackupRecordStatus{Phase: phase, RestoreTest: test}}
		if verdict != "" {
			r.Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: verdict}}
		}
		return r
	}
	cases := map[string]struct {
		reason  string
		records []v1.BackupRecord
		want    Remaining
	}{
		"None": {reason: "A Job may still exist without a BackupRecord, so the controller must look for it.", want: LeftJob},
		"Unproven": {reason: "A backup that is not verified must not be tested.",
			records: []v1.BackupRecord{record(v1.BackupRunning, "", nil)}, want: LeftNothing},
		"Untested": {reason: "A verified backup without a result must be tested.",
			records: []v1.BackupRecord{record(v1.BackupVerified, "", nil)}, want: LeftTest},
		"Restorable": {reason: "A backup that was tested successfully needs no other restore test.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionTrue, nil)}, want: LeftNothing},
		"InLife": {reason: "The result of a backup that was taken while its instance existed must also be used.",
			records: []v1.BackupRecord{*verified(inInstance, verdict(metav1.ConditionTrue, time.Hour)).Record}, want: LeftNothing},
		"Unknown": {reason: "A deletion that requires a successful restore test retries one without a result.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionUnknown, nil)}, want: LeftVerdict},
		"Refused": {reason: "A deletion that requires a successful restore test also retries a failed one.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionFalse, nil)}, want: LeftVerdict},
		"TurnIsTaken": {reason: "A restore test in the BackupRecord must be finished even if the backup has a result.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionTrue, &v1.RestoreTest{})}, want: LeftTest},
		"OfAnother": {reason: "A restore test in the BackupRecord of another backup must be finished as well.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionTrue, nil),
				record(v1.BackupRunning, "", &v1.RestoreTest{})}, want: LeftTest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := LeftToDo(tc.records); got != tc.want {
				t.Errorf("%s\nwant %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}

// TestMustWait checks that the controller reads nothing for an instance that must wait. All instances of a cluster
// can have a scheduled backup at the same time.
func TestMustWait(t *testing.T) {
	busyElsewhere := verified(busy([]string{"a", "b"}, nil)).Others
	cases := map[string]struct {
		reason string
		state  *State
		others Turns
		atOnce int
		want   bool
		after  time.Duration
	}{
		"Requested": {reason: "Fewer restore tests are running than allowed, so another one need not wait.",
			state: verified(inInstance), atOnce: 2},
		"NotDue": {reason: "Another scheduled backup was tested an hour ago, so the restore test must wait.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour)), atOnce: 2, want: true, after: daily - time.Hour},
		"Due": {reason: "The last restore test of a scheduled backup was a day ago, so the next one need not wait.",
			state:  verified(inInstance, planned(metav1.ConditionTrue, 24*time.Hour)),
			atOnce: 2},
		"Queued": {reason: "The maximum number of restore tests is running elsewhere, so another one must wait.",
			state: verified(inInstance), others: busyElsewhere, atOnce: 2, want: true,
			after: pollInterval},
		"Off": {reason: "The platform team has disabled restore tests.", state: verified(inInstance), want: true},
		"HasTurn": {reason: "The BackupRecord already contains the restore test, so it need not wait.",
			state: verified(inInstance, turn("job")), others: busyElsewhere, atOnce: 2},
		"SiblingHas": {reason: "The restore test of the earlier backup must end, so the controller must read its objects.",
			state: verified(inInstance, sibling("job")), others: busyElsewhere,
			atOnce: 2},
		"OfDeletion": {reason: "A deletion may require the result, so the controller must read the instance.",
			state: verified(inStore), others: busyElsewhere, atOnce: 2},
		"OnVolume": {reason: "The backup cannot be tested, and its BackupRecord must report this.",
			state:  verified(inInstance, func(s *State) { s.Record.Spec.Archive = &v1.Archive{PVCName: "backup"} }),
			others: busyElsewhere, atOnce: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			records := slices.Concat(tc.state.Siblings, []v1.BackupRecord{*tc.state.Record})
			if left := LeftToDo(records); left != LeftTest {
				t.Fatalf("there is %s to do", left)
			}
			if after, waits := MustWait(records, tc.others, tc.atOnce, now); waits != tc.want || after != tc.after {
				t.Errorf("%s Want %t after %s, got %t after %s", tc.reason, tc.want, tc.after, waits, after)
			}
		})
	}
}
