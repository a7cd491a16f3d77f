package restoretest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Left is what the records of an instance alone tell of whether there is anything
// to do: most of the time there is not, and nothing more has to be read.
type Left string

// What may be left.
const (
	// LeftNothing is to be done.
	LeftNothing Left = "Nothing"
	// LeftJob is to be removed where there is one: no record is there that could
	// name it.
	LeftJob Left = "Job"
	// LeftVerdict that a deletion may wait for, as there is no good one.
	LeftVerdict Left = "Verdict"
	// LeftTest is to be begun or ended.
	LeftTest Left = "Test"
)

// MustWait is true where the test that is left waits, as the records of the instance and the restore tests of others tell, and nothing of
// another is left; and how long, zero for until something changes. All instances of a cluster may wait like that.
func MustWait(records []v1.MySQLBackup, others Turns, atOnce int, now time.Time) (after time.Duration, waits bool) {
	newest := newestProven(records)
	if hasTurn(records) || !newest.InStore() || !isOfLife(newest) {
		return 0, false
	}
	return waitForTurn(newest, records, others, atOnce, false, now)
}

func hasTurn(records []v1.MySQLBackup) bool {
	return slices.ContainsFunc(records, func(x v1.MySQLBackup) bool { return x.Status.RestoreTest != nil })
}

// LeftToDo by the records of one instance.
func LeftToDo(records []v1.MySQLBackup) Left {
	newest := newestProven(records)
	switch {
	case hasTurn(records):
		return LeftTest
	case len(records) == 0:
		return LeftJob
	case newest == nil:
		return LeftNothing
	}
	switch verdict := meta.FindStatusCondition(newest.Status.Conditions, v1.ConditionRestorable); {
	case verdict == nil:
		return LeftTest
	case verdict.Status == metav1.ConditionTrue:
		return LeftNothing
	}
	return LeftVerdict
}
