package finalize

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// annotationErases of a Job names the PVC that it mounts and the volume that this
// was bound to: its end counts for no other.
const annotationErases = v1.Group + "/erases"

func whatItErases(c *corev1.PersistentVolumeClaim) string {
	if c == nil {
		return ""
	}
	return string(c.UID) + "/" + c.Spec.VolumeName
}

// eraseJob removes the folder of one record, and nothing else.
func eraseJob(a *instance.Archives, r *v1.MySQLBackup, v *corev1.PersistentVolume, image string) *batchv1.Job {
	life, onNode := a.Life, v.Spec.HostPath != nil
	life.XR = r.Spec.Instance.XR
	c := agent.Container(v1.ComponentErase, image, agent.Memory, agent.FileSecurity(onNode), []corev1.VolumeMount{{Name: "backup", MountPath: backupPath}},
		agent.Program, "prune", "--volume="+backupPath, "--folder="+r.Name)
	j := agent.NewJob(life, life.Namespace, life.EraseJobName(), v1.ComponentErase, corev1.PodSpec{
		SecurityContext: agent.PodSecurity(onNode),
		Containers:      []corev1.Container{c},
		Volumes:         []corev1.Volume{agent.PVCVolume("backup", a.PVC.Name)},
	})
	j.Annotations[annotationErases] = whatItErases(a.PVC)
	return j
}

// PerformOnArchive does what NextOfArchives says.
func (p *Performer) PerformOnArchive(ctx context.Context, a *instance.Archives, step ArchiveStep) error {
	do := map[Action]func(context.Context, *instance.Archives, ArchiveStep) error{
		NoteRecord:   p.noteRecord,
		HoldRecord:   p.holdRecord,
		LetRecordGo:  p.letRecordGo,
		RemakeRecord: p.remakeRecord,
		ProveRecord:  p.proveRecord,
		AnswerAsked:  p.answerAsked,
		StartErase:   p.startErase,
		RetryErase:   p.retryErase,
		Erased:       p.erased,
		TellRecord:   p.tellRecord,
	}[step.Action]
	if do == nil {
		return fmt.Errorf("cannot %s: no such action", step.Action)
	}
	if err := do(ctx, a, step); err != nil {
		return fmt.Errorf("cannot %s: %w", step.Action, err)
	}
	return nil
}

func (p *Performer) noteRecord(ctx context.Context, _ *instance.Archives, step ArchiveStep) error {
	return p.writeNote(ctx, step.Volume, step.Record)
}

func (p *Performer) holdRecord(ctx context.Context, _ *instance.Archives, step ArchiveStep) error {
	return p.updateObject(ctx, step.Record, func() { controllerutil.AddFinalizer(step.Record, v1.Finalizer) })
}

func (p *Performer) letRecordGo(ctx context.Context, _ *instance.Archives, step ArchiveStep) error {
	return p.removeFinalizer(ctx, step.Record)
}

func (p *Performer) remakeRecord(ctx context.Context, _ *instance.Archives, step ArchiveStep) error {
	return p.makeRecord(ctx, step.Note)
}

func (p *Performer) proveRecord(ctx context.Context, a *instance.Archives, step ArchiveStep) error {
	return p.proveAsNoted(ctx, step.Record, step.Note, a.Now)
}

func (p *Performer) answerAsked(ctx context.Context, _ *instance.Archives, step ArchiveStep) error {
	return p.updateObject(ctx, step.Volume, func() { delete(step.Volume.Annotations, v1.AnnotationMakeRecord) })
}

func (p *Performer) startErase(ctx context.Context, a *instance.Archives, step ArchiveStep) error {
	return p.createObject(ctx, eraseJob(a, step.Record, step.Volume, p.AgentImage))
}

func (p *Performer) retryErase(ctx context.Context, a *instance.Archives, step ArchiveStep) error {
	return p.deleteObject(ctx, a.Erasing[step.Record.Name].Job, metav1.DeletePropagationForeground)
}

// erased lets go all that was kept for an archive that is gone, and the record last: the rest
// is found by it after a crash.
func (p *Performer) erased(ctx context.Context, a *instance.Archives, step ArchiveStep) error {
	if err := p.removeKept(ctx, a.Notes, step.Record.Name); err != nil {
		return err
	}
	if err := p.retryErase(ctx, a, step); err != nil {
		return err
	}
	return p.removeFinalizer(ctx, step.Record)
}

func (p *Performer) tellRecord(ctx context.Context, _ *instance.Archives, step ArchiveStep) error {
	return client.IgnoreNotFound(p.phase(ctx, step.Record, func(st *v1.MySQLBackupStatus) { st.Message = step.Message }))
}

// objectMeta of the record that a note was made from.
func objectMeta(n *instance.Note) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: n.Name, UID: n.Record, CreationTimestamp: n.AnnouncedAt}
}
