package restoretest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Remaining is the work for restore tests that is left according to the BackupRecords of an instance. Usually there is
// none, and the controller need not read any other object.
type Remaining string

// Kinds of work for the restore tests of an instance.
const (
	// LeftNothing means that there is no work.
	LeftNothing Remaining = "Nothing"
	// LeftJob means that a Job may have to be deleted, because no BackupRecord exists for it.
	LeftJob Remaining = "Job"
	// LeftVerdict means that a deletion may wait for a positive result.
	LeftVerdict Remaining = "Verdict"
	// LeftTest means that a test must be started or finished.
	LeftTest Remaining = "Test"
)

// MustWait reports whether the only work left is a test that must wait, and for how long. A duration of zero means
// that it waits for an event. All instances of a cluster may wait at the same time. The result therefore depends only
// on the BackupRecords of the instance and on the tests of other instances.
func MustWait(records []v1.BackupRecord, others Turns, atOnce int, now time.Time) (after time.Duration, waits bool) {
	newest := newestVerified(records)
	if hasTurn(records) || !newest.InStore() || !isOfInstance(newest) {
		return 0, false
	}
	return waitForTurn(newest, records, others, atOnce, false, now)
}

func hasTurn(records []v1.BackupRecord) bool {
	return slices.ContainsFunc(records, func(x v1.BackupRecord) bool { return x.Status.RestoreTest != nil })
}

// LeftToDo returns the remaining work from the BackupRecords of one instance.
func LeftToDo(records []v1.BackupRecord) Remaining {
	newest := newestVerified(records)
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
