package catalog

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// ArchiveName of a backup, in its record's folder.
const ArchiveName = "data.tar.zst"

// WriteNote of a record. What was to be forgotten has a record now.
func WriteNote(v *corev1.PersistentVolume, r *v1.MySQLBackup) change.Change {
	return change.PatchObject(v, func(v *corev1.PersistentVolume) {
		steps.SetAnnotation(v, v1.AnnotationBackupPrefix+r.Name, NoteText(r))
		delete(v.Annotations, v1.AnnotationForgetPrefix+r.Name)
	})
}

// NoteText is the note of a record as the index of a volume has it.
func NoteText(r *v1.MySQLBackup) string {
	text, _ := json.Marshal(r.Note()) //nolint:errchkjson // It has no type that could fail.
	return string(text)
}

// RemoveNotes of an archive that is gone.
func RemoveNotes(volumes []corev1.PersistentVolume, name string) []change.Change {
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

// ProveAsNoted writes first what is proven, then that it is. Who reads it in between
// sees an unfinished one.
func ProveAsNoted(r *v1.MySQLBackup, n *instance.Note, now time.Time) []change.Change {
	what := change.PatchObject(r, func(r *v1.MySQLBackup) {
		r.Spec = *n.Spec.DeepCopy()
		if !r.CreationTimestamp.Equal(&n.AnnouncedAt) {
			r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
		}
		steps.AddFinalizer(r)
	})
	return []change.Change{what, PatchRecordStatus(r, func(st *v1.MySQLBackupStatus) {
		st.Phase, st.Message, st.ProvenAt = v1.BackupProven, limitsOf(n.Spec), &metav1.Time{Time: now}
	})}
}

// limitsOf what can be made of a proven backup, for people; empty where there are none. Who reads it at
// the restore may have deleted the image that it needs.
func limitsOf(b v1.MySQLBackupSpec) string {
	_, err := version.Parse(b.Version)
	switch {
	case err != nil:
		return "Nobody knows of which version its server was: no server is restored from it but by hand"
	case !b.CleanShutdown:
		return fmt.Sprintf("Its server did not stop cleanly: only one of the same version, %s, is restored from it", b.Version)
	}
	return ""
}

// MakeRecordAgain from what a note says. The next look proves it.
func MakeRecordAgain(n *instance.Note) change.Change {
	r := &v1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Spec.Instance.Life().Labels(), Finalizers: []string{v1.Finalizer}}, Spec: *n.Spec.DeepCopy()}
	r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
	return change.NewObject(r)
}

// PatchRecordStatus changes the status of a record.
func PatchRecordStatus(r *v1.MySQLBackup, how func(*v1.MySQLBackupStatus)) change.Change {
	return change.PatchObjectStatus(r, func(r *v1.MySQLBackup) { how(&r.Status) })
}
