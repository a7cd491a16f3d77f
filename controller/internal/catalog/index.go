package catalog

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// The annotations of a backup volume are the index of its backups. The API server limits the annotations of an object
// to 256 KiB (k8s.io/apimachinery/pkg/api/validation). A backup that cannot be recorded is useless, so the controller
// checks for space in the index first. Some space is reserved for the final backup.
const (
	// MaxIndex is the maximum size of the index in bytes. The rest is for other annotations of the volume.
	MaxIndex = 256<<10 - 8<<10
	// IndexOfDeletion is the size in bytes that is reserved for the final backup.
	IndexOfDeletion = 24 << 10
	// PrunedForIndex is the number of backups that are deleted at a time to free space.
	PrunedForIndex = 10
)

// HasRoomInIndex reports whether the index of a volume has space for a backup, with the given number of bytes left
// after that.
func HasRoomInIndex(v *corev1.PersistentVolume, r *v1.BackupRecord, left int) bool {
	key := v1.AnnotationBackupPrefix + r.Name
	size := len(key) + len(EntryText(r))
	for k, text := range v.Annotations {
		if k != key {
			size += len(k) + len(text)
		}
	}
	return size+left <= MaxIndex
}

// Oldest returns the last backups of a list that is sorted newest first, but not more than the given number.
func Oldest(newestFirst []client.Object, most int) []client.Object {
	return newestFirst[max(0, len(newestFirst)-most):]
}

// FullIndex explains what a user can do if the index is full.
func FullIndex(s *instance.State) string {
	return fmt.Sprintf("The backup is verified, but PersistentVolume %s has no room to record it: its annotations "+
		"contain %d backups, and retention (spec.backup.retention) keeps all of them. Keep fewer, or delete "+
		"backups that are not needed together with their archives: kubectl annotate backuprecord NAME "+
		"%s=UID-OF-THE-RECORD, and then kubectl delete backuprecord NAME",
		s.BackupPV.Name, len(s.Entries), v1.AnnotationDeleteArchive)
}
