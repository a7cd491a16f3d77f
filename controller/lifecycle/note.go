package lifecycle

import (
	"encoding/json"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/version"
)

// A record is an index that anybody may delete who may delete records. What is
// proven stands on the volume first, which holds the archive:
//
//	the Job's report ─▶ the note on the volume ─▶ the record is Proven
//
// From the note on the backup is proven: a record that is gone is made again from it, and the data
// is let go when the record, too, says Proven.

// writeIndex makes the record say what the volume knows already: the backup of this dying
// life is proven.
func writeIndex(s *instance.State) Step {
	step := Step{Action: MarkProven, Attempt: AttemptRunning, Percent: 100, Message: "The backup is proven"}
	if s.Record() == nil {
		step.Action = RecreateBackup
	}
	return step
}

// noteBackup on the volume that the Job's PVC is bound to, or in the store.
func noteBackup(s *instance.State, _ Step) []change.Change {
	r := s.Record().DeepCopy()
	r.Spec = provenSpec(s)
	if s.Store() != "" {
		return append(writePublished(s, r.Note()), publishNote(s, r))
	}
	return []change.Change{writeNote(s.BackupPV, r)}
}

// provenSpec is what the record will say, by the Job's report.
func provenSpec(s *instance.State) v1.MySQLBackupSpec {
	spec, report := *s.Record().Spec.DeepCopy(), s.Backup.Report
	spec.Archive = &v1.Archive{
		SHA256:    report.SHA256,
		Size:      resource.NewQuantity(report.Size, resource.BinarySI).String(),
		DataBytes: report.DataBytes,
	}
	if store := s.Store(); store != "" {
		spec.Archive.Store, spec.Archive.Path = store, path.Join(storeFolder(s), report.Archive)
	} else {
		spec.Archive.PVCName, spec.Archive.Path = s.Life.BackupPVCName(), path.Join(s.Attempt().Record, ArchiveName)
	}
	spec.Version, spec.CleanShutdown = report.Version, report.CleanShutdown
	return spec
}

// writeNote of a record. What was to be forgotten has a record now.
func writeNote(v *corev1.PersistentVolume, r *v1.MySQLBackup) change.Change {
	return change.PatchObject(v, func(v *corev1.PersistentVolume) {
		setAnnotation(v, v1.AnnotationBackupPrefix+r.Name, noteText(r))
		delete(v.Annotations, v1.AnnotationForgetPrefix+r.Name)
	})
}

func noteText(r *v1.MySQLBackup) string {
	text, _ := json.Marshal(r.Note()) //nolint:errchkjson // It has no type that could fail.
	return string(text)
}

// removeNotes of an archive that is gone.
func removeNotes(volumes []corev1.PersistentVolume, name string) []change.Change {
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

// markProven writes the record of a dying life, as the note says.
func markProven(s *instance.State, _ Step) []change.Change {
	proven := proveAsNoted(s.Record(), s.OwnNote(), s.Now)
	if n := s.OwnNote(); n.Store != "" {
		return append([]change.Change{tidyStore(s, n)}, proven...)
	}
	return proven
}

// proveAsNoted writes first what is proven, then that it is. Who reads it in between
// sees an unfinished one.
func proveAsNoted(r *v1.MySQLBackup, n *instance.Note, now time.Time) []change.Change {
	what := change.PatchObject(r, func(r *v1.MySQLBackup) {
		r.Spec = *n.Spec.DeepCopy()
		if !r.CreationTimestamp.Equal(&n.AnnouncedAt) {
			r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
		}
		addFinalizer(r)
	})
	return []change.Change{what, patchRecordStatus(r, func(st *v1.MySQLBackupStatus) {
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

func recreateBackup(s *instance.State, _ Step) []change.Change {
	return []change.Change{MakeRecordAgain(s.OwnNote())}
}

// MakeRecordAgain from what a note says. The next look proves it.
func MakeRecordAgain(n *instance.Note) change.Change {
	r := &v1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Spec.Instance.Life().Labels(), Finalizers: []string{v1.Finalizer}}, Spec: *n.Spec.DeepCopy()}
	r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
	return change.NewObject(r)
}

// deleteUnprovenBackup deletes records that were announced and will never be proven, and what lies in a store of them. Their
// finalizer goes at the next look, so that a crash in between leaves only that to do.
func deleteUnprovenBackup(s *instance.State, step Step) []change.Change {
	out := make([]change.Change, 0, 2*len(step.Targets))
	for _, r := range step.Targets {
		if s.Store() != "" && r.GetDeletionTimestamp() != nil {
			out = append(out, discardAttempts(s, r))
		}
		out = append(out, deleteOrRelease(r))
	}
	return out
}

// deleteOldBackups deletes records whose archives were removed, with their notes. Each
// says first that its archive may go, so that whoever comes after a crash knows.
func deleteOldBackups(s *instance.State, step Step) []change.Change {
	var out []change.Change
	for _, r := range step.Targets {
		if r.GetDeletionTimestamp() == nil {
			out = append(out, condemnRecord(r))
		} else {
			out = append(out, removeNotes(s.BackupPVs, r.GetName())...)
		}
		out = append(out, deleteOrRelease(r))
	}
	return out
}

// condemnRecord says that its archive may go. Records of earlier releases have no finalizer.
func condemnRecord(r client.Object) change.Change {
	return change.PatchObject(r, func(r client.Object) {
		setAnnotation(r, v1.AnnotationDeleteArchive, string(r.GetUID()))
		addFinalizer(r)
	})
}
