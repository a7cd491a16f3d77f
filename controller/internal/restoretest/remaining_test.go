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
		"None": {reason: "A Job whose record somebody deleted is named by nobody.", want: LeftJob},
		"Unproven": {reason: "A backup is tested once it is proven.",
			records: []v1.BackupRecord{record(v1.BackupRunning, "", nil)}, want: LeftNothing},
		"Untested": {reason: "It is proven.", records: []v1.BackupRecord{record(v1.BackupVerified, "", nil)}, want: LeftTest},
		"Restorable": {reason: "There is nothing better to hear.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionTrue, nil)}, want: LeftNothing},
		"InLife": {reason: "What was taken in a life is known as well.",
			records: []v1.BackupRecord{*verified(inInstance, verdict(metav1.ConditionTrue, time.Hour)).Record}, want: LeftNothing},
		"Unknown": {reason: "A deletion that requires it tries again.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionUnknown, nil)}, want: LeftVerdict},
		"Refused": {reason: "So it does where a server has refused it.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionFalse, nil)}, want: LeftVerdict},
		"TurnIsTaken": {reason: "A turn ends, whatever is known by then.",
			records: []v1.BackupRecord{record(v1.BackupVerified, metav1.ConditionTrue, &v1.RestoreTest{})}, want: LeftTest},
		"OfAnother": {reason: "So does that of an older backup.",
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
		"Requested": {reason: "It is its turn.", state: verified(inInstance), atOnce: 2},
		"NotDue": {reason: "Another one was tried of late.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour)), atOnce: 2, want: true, after: daily - time.Hour},
		"Due": {reason: "That was yesterday.", state: verified(inInstance, planned(metav1.ConditionTrue, 24*time.Hour)),
			atOnce: 2},
		"Queued": {reason: "Others have all turns.", state: verified(inInstance), others: busyElsewhere, atOnce: 2, want: true,
			after: pollInterval},
		"Off":     {reason: "The platform does not want it.", state: verified(inInstance), want: true},
		"HasTurn": {reason: "It goes on.", state: verified(inInstance, turn("job")), others: busyElsewhere, atOnce: 2},
		"SiblingHas": {reason: "That turn is to end.", state: verified(inInstance, sibling("job")), others: busyElsewhere,
			atOnce: 2},
		"OfDeletion": {reason: "Somebody may wait for it.", state: verified(inStore), others: busyElsewhere, atOnce: 2},
		"OnVolume": {reason: "It cannot be tried, which is to be said.",
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
