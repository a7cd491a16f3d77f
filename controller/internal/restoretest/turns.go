package restoretest

import (
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Turns are the restore tests that are under way, as records tell. A Job has no
// say in it: whoever may make Jobs can give them any name and label.
type Turns struct {
	// all that no deletion waits for.
	all int
	// free are those by namespace, and awaited those that a deletion waits for.
	free, awaited map[string]int
}

// forgotten is a turn whose Job must have ended long ago, whatever its record
// says.
const forgotten = longest + time.Hour

// fair is how long a test keeps its turn from other namespaces. One of much data goes on after that, and its namespace has no other: a tenant whose
// archive says that it holds much data would hold up everybody for a day.
const fair = time.Hour

// TurnsOf records, but for those of one instance.
func TurnsOf(records []v1.MySQLBackup, but v1.Instance, now time.Time) Turns {
	out := Turns{free: map[string]int{}, awaited: map[string]int{}}
	for i := range records {
		of, t := records[i].Spec.Instance, records[i].Status.RestoreTest
		switch {
		case t == nil, now.Sub(t.StartedAt.Time) > forgotten:
		case of.Kind == but.Kind && of.Namespace == but.Namespace && of.Name == but.Name:
		case t.Awaited:
			out.awaited[of.Namespace]++
		case now.Sub(t.StartedAt.Time) > fair:
			out.free[of.Namespace]++
		default:
			out.all++
			out.free[of.Namespace]++
		}
	}
	return out
}

// mayRun is true if one more may run. A namespace has one at a time, and beside it
// one that a deletion waits for: that one takes no turn of others, and no others
// take its turn.
func (t Turns) mayRun(namespace string, awaited bool, atOnce int) bool {
	if awaited {
		return t.awaited[namespace] == 0
	}
	return t.all < atOnce && t.free[namespace] == 0
}
