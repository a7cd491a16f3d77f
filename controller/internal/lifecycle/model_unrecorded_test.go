package lifecycle

import (
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/restoretest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// refusesEntry changes a decision so that no backup of a running instance is ever recorded, because the volume or the
// store refuses the catalog entry.
func refusesEntry(next decision) decision {
	return func(s *instance.State) steps.Step {
		if s.IsDeleting() {
			return next(s)
		}
		refusedAs(steps.RecordBackup, instance.Refusal{Message: "the note is refused", Passing: true})(s)
		step := next(s)
		if step.Action == steps.RecordBackup {
			step.Changes = nil
		}
		return step
	}
}

// manyEntries fills an index, except for the space that is reserved for the final backup.
var manyEntries = strings.Repeat("x", catalog.MaxIndex-catalog.IndexOfDeletion-200)

// hasFullIndex changes a decision so that the index of the backup volume has no space for backups of a running
// instance.
func hasFullIndex(next decision) decision {
	return func(s *instance.State) steps.Step {
		if !s.IsDeleting() && s.BackupPV != nil {
			steps.SetAnnotation(s.BackupPV, "example.org/others", manyEntries)
		}
		return next(s)
	}
}

// TestModelUnrecorded checks backups that are never recorded, because the catalog entry is refused or the index is
// full. No row is lost, the server does not stay stopped, and no deletion is blocked.
func TestModelUnrecorded(t *testing.T) {
	t.Parallel()
	for name, world := range map[string]func(decision) decision{"note refused": refusesEntry, "index full": hasFullIndex} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, held, trace := explore(t, world(Next), restoretest.Next, catalog.NextOfArchives, modelStarts()["request"])
			if trace != nil || held > 0 {
				t.Errorf("after %d states, of which %d wait for a person:\n%s", states, held, strings.Join(trace, "\n"))
			}
			off := func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.ResumeServer {
					return step
				}
				return steps.Step{Action: steps.Wait}
			}
			if states, _, trace := explore(t, world(off), restoretest.Next, catalog.NextOfArchives,
				modelStarts()["request"]); trace == nil {
				t.Errorf("a server that stays off is not found in %d states", states)
			}
		})
	}
}
