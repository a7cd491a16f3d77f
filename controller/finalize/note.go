package finalize

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// A record is an index that anybody may delete who may delete records. What is
// proven stands on the volume first, which holds the archive:
//
//	the Job's report ─▶ the password is kept ─▶ the note on the volume ─▶ the record is Proven
//
// From the note on nothing but the note is asked: a record that is gone is made again.

// writeIndex makes the record say what the volume knows already: the backup of this dying
// life is proven.
func writeIndex(s *instance.State) Step {
	step := Step{Action: MarkProven, Phase: PhaseBackingUp, Percent: 100, Message: "The backup is proven"}
	if s.Record() == nil {
		step.Action = RecreateBackup
	}
	return step
}

// noteBackup on the volume that the Job's PVC is bound to.
func (p *Performer) noteBackup(ctx context.Context, s *instance.State, _ Step) error {
	c, v := s.BackupPVC, &corev1.PersistentVolume{}
	if err := p.Reader.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, v); err != nil {
		return err
	}
	if !instance.Bound(v, c) {
		return fmt.Errorf("volume %q is not bound to PersistentVolumeClaim %s/%s, which names it", v.Name, c.Namespace, c.Name)
	}
	r := s.Record().DeepCopy()
	r.Spec = provenSpec(s)
	return p.writeNote(ctx, v, r)
}

// provenSpec is what the record will say, by the Job's report.
func provenSpec(s *instance.State) v1.MySQLBackupSpec {
	spec, report := *s.Record().Spec.DeepCopy(), s.Backup.Report
	spec.Archive = &v1.Archive{
		PVCName:   s.Life.BackupPVCName(),
		Path:      s.Life.RecordName() + "/" + archiveName,
		SHA256:    report.SHA256,
		Size:      resource.NewQuantity(report.Size, resource.BinarySI).String(),
		DataBytes: report.DataBytes,
	}
	spec.Version, spec.CleanShutdown = report.Version, report.CleanShutdown
	return spec
}

// writeNote of a record. What was to be forgotten has a record now.
func (p *Performer) writeNote(ctx context.Context, v *corev1.PersistentVolume, r *v1.MySQLBackup) error {
	text, err := noteText(r)
	if err != nil {
		return err
	}
	return p.updateObject(ctx, v, func() {
		setAnnotation(v, v1.AnnotationBackupPrefix+r.Name, text)
		delete(v.Annotations, v1.AnnotationForgetPrefix+r.Name)
	})
}

func noteText(r *v1.MySQLBackup) (string, error) {
	text, err := json.Marshal(r.Note())
	return string(text), err
}

// removeNote of an archive that is gone.
func (p *Performer) removeNote(ctx context.Context, notes []instance.Note, name string) error {
	for i := range notes {
		n, v := &notes[i], &corev1.PersistentVolume{}
		if n.Name != name {
			continue
		}
		if err := p.Reader.Get(ctx, client.ObjectKey{Name: n.Volume}, v); err != nil {
			return client.IgnoreNotFound(err)
		}
		err := p.updateObject(ctx, v, func() {
			delete(v.Annotations, v1.AnnotationBackupPrefix+name)
			delete(v.Annotations, v1.AnnotationForgetPrefix+name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// markProven writes the record of a dying life, as the note says.
func (p *Performer) markProven(ctx context.Context, s *instance.State, _ Step) error {
	return p.proveAsNoted(ctx, s.Record(), s.OwnNote(), s.Now)
}

// proveAsNoted writes first what is proven, then that it is. Who reads it in between
// sees an unfinished one.
func (p *Performer) proveAsNoted(ctx context.Context, r *v1.MySQLBackup, n *instance.Note, now time.Time) error {
	err := p.updateObject(ctx, r, func() {
		r.Spec = *n.Spec.DeepCopy()
		if !r.CreationTimestamp.Equal(&n.AnnouncedAt) {
			r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
		}
		controllerutil.AddFinalizer(r, v1.Finalizer)
	})
	if err != nil {
		return err
	}
	return p.phase(ctx, r, func(st *v1.MySQLBackupStatus) {
		st.Phase, st.Message, st.ProvenAt = v1.BackupProven, "", &metav1.Time{Time: now}
	})
}

func (p *Performer) recreateBackup(ctx context.Context, s *instance.State, _ Step) error {
	return p.makeRecord(ctx, s.OwnNote())
}

// makeRecord again, from what a note says. The next look proves it.
func (p *Performer) makeRecord(ctx context.Context, n *instance.Note) error {
	i := n.Spec.Instance
	life := v1.Instance{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, XR: i.XR}
	r := &v1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: life.Labels(), Finalizers: []string{v1.Finalizer}}, Spec: *n.Spec.DeepCopy()}
	r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
	return p.createObject(ctx, r)
}

// deleteUnprovenBackup deletes a record that was announced and will never be proven. Its
// finalizer goes at the next look, so that a crash in between leaves only that to do.
func (p *Performer) deleteUnprovenBackup(ctx context.Context, _ *instance.State, step Step) error {
	for _, r := range step.Targets {
		if err := p.dropRecord(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (p *Performer) dropRecord(ctx context.Context, r client.Object) error {
	if r.GetDeletionTimestamp() == nil {
		return p.deleteObject(ctx, r, metav1.DeletePropagationBackground)
	}
	return p.removeFinalizer(ctx, r)
}

// deleteOldBackups deletes records whose archives were removed, with their notes and passwords. Each
// says first that its archive may go, so that whoever comes after a crash knows.
func (p *Performer) deleteOldBackups(ctx context.Context, s *instance.State, step Step) error {
	for _, r := range step.Targets {
		prepare := p.condemn
		if r.GetDeletionTimestamp() != nil {
			prepare = func(ctx context.Context, r client.Object) error { return p.removeKept(ctx, s.Notes, r.GetName()) }
		}
		if err := prepare(ctx, r); err != nil {
			return err
		}
		if err := p.dropRecord(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// condemn an archive. Records of earlier releases have no finalizer.
func (p *Performer) condemn(ctx context.Context, r client.Object) error {
	return p.updateObject(ctx, r, func() {
		setAnnotation(r, v1.AnnotationDeleteArchive, string(r.GetUID()))
		controllerutil.AddFinalizer(r, v1.Finalizer)
	})
}

// removeKept removes what was kept for an archive that is gone: its note and its password.
func (p *Performer) removeKept(ctx context.Context, notes []instance.Note, name string) error {
	if err := p.removeNote(ctx, notes, name); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.SystemNamespace, Name: name}}
	return client.IgnoreNotFound(p.Client.Delete(ctx, secret))
}
