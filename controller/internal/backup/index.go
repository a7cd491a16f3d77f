package backup

import (
	"fmt"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// makeRoomInIndex frees space before a backup is recorded on a volume whose index is full. It deletes the oldest
// expired backups. If retention keeps all backups, a user must decide.
func makeRoomInIndex(s *instance.State) (step steps.Step, full bool) {
	if s.Store() != "" || s.BackupPV == nil {
		return steps.Step{}, false
	}
	r, left := s.Record().DeepCopy(), 0
	if r.Spec = verifiedSpec(s); !s.IsDeleting() {
		left = catalog.IndexOfDeletion
	}
	if catalog.HasRoomInIndex(s.BackupPV, r, left) {
		return steps.Step{}, false
	}
	old := catalog.Expired(s, catalog.VerifiedBackupsHere(s), func(b *v1.BackupRecord) bool {
		return b.Name != r.Name && !b.IsRivalOf(r) && s.Restoring[b.Name] == "" && !b.IsBeingTried()
	})
	going := len(old) - len(steps.WithoutDeleted(old))
	switch {
	case going > 0:
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater, Attempt: steps.AttemptRunning, Message: fmt.Sprintf(
			"The backup is verified, but PersistentVolume %s has no room to record it. Waiting until %d older "+
				"backups are deleted",
			s.BackupPV.Name, going)}, true
	case len(old) > 0:
		return steps.Step{Action: steps.MarkForRemoval, Attempt: steps.AttemptRunning,
			Targets: catalog.Oldest(old, catalog.PrunedForIndex), Message: fmt.Sprintf(
				"Deleting older backups, because PersistentVolume %s has no room to record another one", s.BackupPV.Name)}, true
	}
	return waitForPerson(s, catalog.FullIndex(s)), true
}
