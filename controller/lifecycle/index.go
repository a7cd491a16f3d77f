package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// The annotations of a backup volume are the index of the backups on it, and the API server refuses more than 256 KiB of them
// (k8s.io/apimachinery/pkg/api/validation). A backup that cannot be recorded is none, so the room in the index is looked
// at before that, and the last of it is for the deletion of the instance.
const (
	// maxIndex in bytes, without room for what else is written on the volume.
	maxIndex = 256<<10 - 8<<10
	// indexOfDeletion in bytes is kept free for the backup of a deletion.
	indexOfDeletion = 24 << 10
	// prunedForIndex is how many backups are removed at a time to make room.
	prunedForIndex = 10
)

// hasRoomInIndex reports whether a volume can record a backup and has so many bytes left after that.
func hasRoomInIndex(v *corev1.PersistentVolume, r *v1.MySQLBackup, left int) bool {
	key := v1.AnnotationBackupPrefix + r.Name
	size := len(key) + len(noteText(r))
	for k, text := range v.Annotations {
		if k != key {
			size += len(k) + len(text)
		}
	}
	return size+left <= maxIndex
}

// makeRoomInIndex is what to do before a backup is recorded on a volume whose index is full: the oldest backups go that are beyond
// those to keep. What retention keeps stays, and then a person decides.
func makeRoomInIndex(s *instance.State) (step Step, full bool) {
	if s.Store() != "" || s.BackupPV == nil {
		return Step{}, false
	}
	r, left := s.Record().DeepCopy(), 0
	if r.Spec = provenSpec(s); !s.IsDeleting() {
		left = indexOfDeletion
	}
	if hasRoomInIndex(s.BackupPV, r, left) {
		return Step{}, false
	}
	old := expired(s, provenBackupsHere(s), func(b *v1.MySQLBackup) bool {
		return b.Name != r.Name && !b.IsRivalOf(r) && s.Restoring[b.Name] == "" && !b.IsBeingTried()
	})
	going := len(old) - len(withoutDeleted(old))
	switch {
	case going > 0:
		return Step{Action: Wait, After: requeueLater, Attempt: AttemptRunning, Message: fmt.Sprintf(
			"The backup is verified. PersistentVolume %s has no room to record it: waiting for the removal of %d older backups", s.BackupPV.Name, going)}, true
	case len(old) > 0:
		return Step{Action: CondemnBackups, Attempt: AttemptRunning, Targets: oldest(old, prunedForIndex), Message: fmt.Sprintf(
			"Removing older backups: PersistentVolume %s has no room to record another one", s.BackupPV.Name)}, true
	}
	return waitForPerson(s, fullIndex(s)), true
}

// oldest of backups that are sorted newest first.
func oldest(newestFirst []client.Object, most int) []client.Object {
	return newestFirst[max(0, len(newestFirst)-most):]
}

// fullIndex says what a person can do.
func fullIndex(s *instance.State) string {
	return fmt.Sprintf("The backup is verified, and PersistentVolume %s has no room to record it: its annotations have %d backups, and retention (spec.backup.keep and keepFor) keeps all of them. "+
		"Keep fewer, or remove backups that are not needed, with their archives: kubectl annotate mysqlbackup NAME %s=UID-OF-IT, and then kubectl delete mysqlbackup NAME",
		s.BackupPV.Name, len(s.Notes), v1.AnnotationDeleteArchive)
}
