package catalog

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// ArchiveName is the name of the archive in the directory of its backup.
const ArchiveName = "data.tar.zst"

// WriteEntry writes the catalog entry of a BackupRecord to its volume. It also removes the annotation with which a
// user has allowed instances to start without this backup.
func WriteEntry(v *corev1.PersistentVolume, r *v1.BackupRecord) change.Change {
	return change.PatchObject(v, func(v *corev1.PersistentVolume) {
		steps.SetAnnotation(v, v1.AnnotationBackupPrefix+r.Name, EntryText(r))
		delete(v.Annotations, v1.AnnotationForgetPrefix+r.Name)
	})
}

// EntryText returns the catalog entry of a BackupRecord in the format of the index on a volume.
func EntryText(r *v1.BackupRecord) string {
	text, _ := json.Marshal(r.Entry()) //nolint:errchkjson // All of its types can be encoded.
	return string(text)
}

// RemoveEntries removes the catalog entries of a deleted archive.
func RemoveEntries(volumes []corev1.PersistentVolume, name string) []change.Change {
	var out []change.Change
	for i := range volumes {
		v := &volumes[i]
		if _, noted := v.Annotations[v1.AnnotationBackupPrefix+name]; noted {
			out = append(out, change.PatchObject(v, func(v *corev1.PersistentVolume) {
				delete(v.Annotations, v1.AnnotationBackupPrefix+name)
				delete(v.Annotations, v1.AnnotationForgetPrefix+name)
			}).OrGone())
		}
	}
	return out
}

// VerifyAsRecorded marks a BackupRecord as verified and copies its content from the catalog entry. It writes the spec
// first and then the phase, so that clients never read a verified BackupRecord with an incomplete spec.
func VerifyAsRecorded(r *v1.BackupRecord, n *instance.Entry, now time.Time) []change.Change {
	text := change.PatchObject(r, func(r *v1.BackupRecord) {
		r.Spec = *n.Spec.DeepCopy()
		if !r.CreationTimestamp.Equal(&n.AnnouncedAt) {
			r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
		}
		steps.AddFinalizer(r)
	})
	return []change.Change{text, PatchRecordStatus(r, func(st *v1.BackupRecordStatus) {
		st.Phase, st.Message, st.CompletionTime = v1.BackupVerified, limitsOf(n.Spec), &metav1.Time{Time: now}
	})}
}

// limitsOf describes what limits a restore from a verified backup, or returns "". Users should know it early, because
// the image that a restore needs may be deleted later.
func limitsOf(b v1.BackupRecordSpec) string {
	_, err := version.Parse(b.Version)
	switch {
	case err != nil:
		return "The version of the server that wrote it is unknown, so it can only be restored manually"
	case !b.CleanShutdown:
		return "Its server did not stop cleanly, so it can only be restored with the same server version, " + b.Version
	}
	return ""
}

// MakeRecordAgain creates a BackupRecord from its catalog entry. The next reconcile marks it as verified.
func MakeRecordAgain(n *instance.Entry) change.Change {
	r := &v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Finalizers: []string{v1.Finalizer}}, Spec: *n.Spec.DeepCopy()}
	r.Labels = r.DefaultLabels()
	r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
	return change.NewObject(r)
}

// PatchRecordStatus changes the status of a BackupRecord.
func PatchRecordStatus(r *v1.BackupRecord, edit func(*v1.BackupRecordStatus)) change.Change {
	return change.PatchObjectStatus(r, func(r *v1.BackupRecord) { edit(&r.Status) })
}
