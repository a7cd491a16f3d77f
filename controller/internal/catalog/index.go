package catalog

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// The annotations of a backup volume are the index of the backups on it, and the API server refuses more than 256 KiB of them
// (k8s.io/apimachinery/pkg/api/validation). A backup that cannot be recorded is none, so the room in the index is looked
// at before that, and the last of it is for the deletion of the instance.
const (
	// MaxIndex in bytes, without room for what else is written on the volume.
	MaxIndex = 256<<10 - 8<<10
	// IndexOfDeletion in bytes is kept free for the backup of a deletion.
	IndexOfDeletion = 24 << 10
	// PrunedForIndex is how many backups are removed at a time to make room.
	PrunedForIndex = 10
)

// HasRoomInIndex reports whether a volume can record a backup and has so many bytes left after that.
func HasRoomInIndex(v *corev1.PersistentVolume, r *v1.MySQLBackup, left int) bool {
	key := v1.AnnotationBackupPrefix + r.Name
	size := len(key) + len(NoteText(r))
	for k, text := range v.Annotations {
		if k != key {
			size += len(k) + len(text)
		}
	}
	return size+left <= MaxIndex
}

// Oldest of backups that are sorted newest first.
func Oldest(newestFirst []client.Object, most int) []client.Object {
	return newestFirst[max(0, len(newestFirst)-most):]
}

// FullIndex says what a person can do.
func FullIndex(s *instance.State) string {
	return fmt.Sprintf("The backup is verified, and PersistentVolume %s has no room to record it: its annotations have %d backups, and retention (spec.backup.keep and keepFor) keeps all of them. "+
		"Keep fewer, or remove backups that are not needed, with their archives: kubectl annotate mysqlbackup NAME %s=UID-OF-IT, and then kubectl delete mysqlbackup NAME",
		s.BackupPV.Name, len(s.Notes), v1.AnnotationDeleteArchive)
}
