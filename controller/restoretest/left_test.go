package restoretest

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func TestLeftToDo(t *testing.T) {
	record := func(phase v1.BackupPhase, verdict metav1.ConditionStatus, test *v1.RestoreTest) v1.MySQLBackup {
		r := v1.MySQLBackup{Status: v1.MySQLBackupStatus{Phase: phase, RestoreTest: test}}
		if verdict != "" {
			r.Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: verdict}}
		}
		return r
	}
	cases := map[string]struct {
		reason  string
		records []v1.MySQLBackup
		want    Left
	}{
		"None":        {reason: "A Job whose record somebody deleted is named by nobody.", want: LeftJob},
		"Unproven":    {reason: "A backup is tested once it is proven.", records: []v1.MySQLBackup{record(v1.BackupRunning, "", nil)}, want: LeftNothing},
		"Untested":    {reason: "It is proven.", records: []v1.MySQLBackup{record(v1.BackupProven, "", nil)}, want: LeftTest},
		"Restorable":  {reason: "There is nothing better to hear.", records: []v1.MySQLBackup{record(v1.BackupProven, metav1.ConditionTrue, nil)}, want: LeftNothing},
		"Unknown":     {reason: "A deletion that requires it tries again.", records: []v1.MySQLBackup{record(v1.BackupProven, metav1.ConditionUnknown, nil)}, want: LeftVerdict},
		"Refused":     {reason: "So it does where a server has refused it.", records: []v1.MySQLBackup{record(v1.BackupProven, metav1.ConditionFalse, nil)}, want: LeftVerdict},
		"TurnIsTaken": {reason: "A turn ends, whatever is known by then.", records: []v1.MySQLBackup{record(v1.BackupProven, metav1.ConditionTrue, &v1.RestoreTest{})}, want: LeftTest},
		"OfAnother":   {reason: "So does that of an older backup.", records: []v1.MySQLBackup{record(v1.BackupProven, metav1.ConditionTrue, nil), record(v1.BackupRunning, "", &v1.RestoreTest{})}, want: LeftTest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, _ := LeftToDo(tc.records, Turns{}, 2, now); got != tc.want {
				t.Errorf("%s\nwant %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}

// TestLeftLater: all instances of a cluster may have a planned backup at the same time: nothing is read of one that waits.
func TestLeftLater(t *testing.T) {
	busyElsewhere := proven(busy([]string{"a", "b"}, nil)).Others
	cases := map[string]struct {
		reason string
		state  *State
		others Turns
		atOnce int
		want   Left
		after  time.Duration
	}{
		"Requested":   {reason: "It is its turn.", state: proven(inLife), atOnce: 2, want: LeftTest},
		"NotDue":      {reason: "Another one was tried of late.", state: proven(inLife, planned(metav1.ConditionTrue, time.Hour)), atOnce: 2, want: LeftLater, after: daily - time.Hour},
		"Due":         {reason: "That was yesterday.", state: proven(inLife, planned(metav1.ConditionTrue, 24*time.Hour)), atOnce: 2, want: LeftTest},
		"Queued":      {reason: "Others have all turns.", state: proven(inLife), others: busyElsewhere, atOnce: 2, want: LeftLater, after: look},
		"Off":         {reason: "The platform does not want it.", state: proven(inLife), want: LeftLater},
		"HasTurn":     {reason: "It goes on.", state: proven(inLife, turn("job")), others: busyElsewhere, atOnce: 2, want: LeftTest},
		"SiblingHas":  {reason: "That turn is to end.", state: proven(inLife, sibling("job")), others: busyElsewhere, atOnce: 2, want: LeftTest},
		"OfDeletion":  {reason: "Somebody may wait for it.", state: proven(inStore), others: busyElsewhere, atOnce: 2, want: LeftTest},
		"OnVolume":    {reason: "It cannot be tried, which is to be said.", state: proven(inLife, func(s *State) { s.Record.Spec.Archive = &v1.Archive{PVCName: "backup"} }), others: busyElsewhere, atOnce: 2, want: LeftTest},
		"KnownBefore": {reason: "A verdict is one.", state: proven(inLife, verdict(metav1.ConditionTrue, time.Hour)), others: busyElsewhere, atOnce: 2, want: LeftNothing},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, after := LeftToDo(append(tc.state.Siblings, *tc.state.Record), tc.others, tc.atOnce, now)
			if got != tc.want || after != tc.after {
				t.Errorf("%s Want %s after %s, got %s after %s", tc.reason, tc.want, tc.after, got, after)
			}
		})
	}
}
