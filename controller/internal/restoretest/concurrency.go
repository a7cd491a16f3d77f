package restoretest

import (
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Turns counts the running restore tests, to limit their number. A test is running if status.restoreTest of its
// BackupRecord is set. Jobs are not counted, because users can create Jobs with any name and label.
type Turns struct {
	// all is the number of running tests that no deletion waits for.
	all int
	// free counts, by namespace, the running tests that no deletion waits for. awaited counts the tests that a
	// deletion waits for.
	free, awaited map[string]int
}

// forgotten is the age at which a restore test is no longer counted as running. Its Job must have terminated by then,
// even if its BackupRecord does not show it.
const forgotten = longest + time.Hour

// fair is the time for which a running test blocks tests in other namespaces. A test of a large backup continues
// after that, but then blocks only its own namespace. Otherwise a tenant could block all tenants for a day with an
// archive that claims to be large.
const fair = time.Hour

// TurnsOf counts the running restore tests in BackupRecords, except for the tests of one instance.
func TurnsOf(records []v1.BackupRecord, but v1.Instance, now time.Time) Turns {
	out := Turns{free: map[string]int{}, awaited: map[string]int{}}
	for i := range records {
		origin, t := records[i].Spec.Instance, records[i].Status.RestoreTest
		switch {
		case t == nil, now.Sub(t.StartTime.Time) > forgotten:
		case origin.Kind == but.Kind && origin.Namespace == but.Namespace && origin.Name == but.Name:
		case t.Awaited:
			out.awaited[origin.Namespace]++
		case now.Sub(t.StartTime.Time) > fair:
			out.free[origin.Namespace]++
		default:
			out.all++
			out.free[origin.Namespace]++
		}
	}
	return out
}

// mayRun reports whether one more test may run. A namespace can have one test at a time, and one more that a deletion
// waits for. The two limits are independent of each other.
func (t Turns) mayRun(namespace string, awaited bool, atOnce int) bool {
	if awaited {
		return t.awaited[namespace] == 0
	}
	return t.all < atOnce && t.free[namespace] == 0
}
