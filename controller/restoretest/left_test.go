package restoretest

import (
	"testing"

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
			if got := LeftToDo(tc.records); got != tc.want {
				t.Errorf("%s\nwant %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}
