package finalize

import (
	"context"
	"encoding/json"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// A Performer does what Next says.
type Performer struct {
	// Client writes, and Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// AgentImage of the Jobs.
	AgentImage string
	// BackupClass of backup volumes; nil means that of the data.
	BackupClass *string
	// SystemNamespace is the controller's own namespace, which holds the passwords of
	// records.
	SystemNamespace string
}

// Perform a step.
func (p *Performer) Perform(ctx context.Context, s *instance.State, step Step) error {
	do, ok := p.actions()[step.Action]
	if !ok {
		return fmt.Errorf("cannot %s: no such action", step.Action)
	}
	if err := do(ctx, s, step); err != nil {
		return fmt.Errorf("cannot %s: %w", step.Action, err)
	}
	return nil
}

// Status of a claim or XR: these fields, and no others.
func (p *Performer) Status(ctx context.Context, c *instance.Composite, fields map[string]any) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": c.GetUID()}, "status": fields})
	if err != nil {
		return err
	}
	// What comes back is as the API server has it now, so that the next change of
	// the same pass is not refused for this one.
	now := c.DeepCopy()
	if err := p.Client.Status().Patch(ctx, now, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return err
	}
	c.Object = now.Object
	return nil
}

type action func(context.Context, *instance.State, Step) error

func (p *Performer) actions() map[Action]action {
	return map[Action]action{
		AddFinalizers:        p.addFinalizers,
		DeleteOrphanedXR:     p.deleteOrphanedXR,
		CreateBackupPVC:      p.createBackupPVC,
		RetainBackupPV:       p.retainBackupPV,
		ExpandBackupPVC:      p.expandBackupPVC,
		DeleteBackupPVC:      p.deleteBackupPVC,
		ReleaseBackupPV:      p.releaseBackupPV,
		AdoptBackupPV:        p.adoptBackupPV,
		RecordPreviousBackup: p.recordPreviousBackup,
		ReportPodFailure:     p.reportPodFailure,
		RetainDataPV:         p.retainDataPV,
		FenceServer:          p.fenceServer,
		UnfenceServer:        p.unfenceServer,
		DeletePVC:            p.deletePVC,
		ReserveDataPV:        p.reserveDataPV,
		CreatePVC:            p.createPVC,
		SetNodeAffinity:      p.setNodeAffinity,
		CreateBackup:         p.createBackup,
		StopServer:           p.stopServer,
		DeleteObjects:        p.deleteObjects,
		CreateBackupJob:      p.createBackupJob,
		MarkRunning:          p.markRunning,
		MarkFailed:           p.markFailed,
		MarkNoData:           p.markNoData,
		SavePassword:         p.savePassword,
		NoteBackup:           p.noteBackup,
		MarkProven:           p.markProven,
		RecreateBackup:       p.recreateBackup,
		DeleteUnprovenBackup: p.deleteUnprovenBackup,
		CreatePruneJob:       p.createPruneJob,
		DeleteOldBackups:     p.deleteOldBackups,
		CreateWipeJob:        p.createWipeJob,
		ReleaseDataPV:        p.releaseDataPV,
		ReleaseDataPVC:       p.releaseDataPVC,
		RemoveXRFinalizer:    p.removeXRFinalizer,
		RemoveClaimFinalizer: p.removeClaimFinalizer,
	}
}

// updateObject changes an object as it was read, and no other: the API server refuses the
// patch if somebody was faster.
func (p *Performer) updateObject(ctx context.Context, o client.Object, how func()) error {
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("cannot copy %T", o)
	}
	how()
	return p.Client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// deleteObject deletes this object, and no later one of its name.
func (p *Performer) deleteObject(ctx context.Context, o client.Object, policy metav1.DeletionPropagation) error {
	uid := o.GetUID()
	return client.IgnoreNotFound(p.Client.Delete(ctx, o, client.PropagationPolicy(policy), client.Preconditions{UID: &uid}))
}

// createObject makes an object; one that is there already is as good.
func (p *Performer) createObject(ctx context.Context, o client.Object) error {
	if err := p.Client.Create(ctx, o); err != nil && !kerrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// addFinalizers to the claim first: it has the name.
func (p *Performer) addFinalizers(ctx context.Context, s *instance.State, _ Step) error {
	for _, c := range []*instance.Composite{s.Claim, s.XR} {
		if c == nil || c.IsDeleting() || c.HasFinalizer() {
			continue
		}
		if err := p.updateObject(ctx, c.Unstructured, func() { controllerutil.AddFinalizer(c, v1.Finalizer) }); err != nil {
			return err
		}
	}
	return nil
}

// deleteOrphanedXR deletes it as a person would delete it.
func (p *Performer) deleteOrphanedXR(ctx context.Context, s *instance.State, _ Step) error {
	return p.deleteObject(ctx, s.XR.Unstructured, metav1.DeletePropagationBackground)
}

// recordPreviousBackup writes what the function waits for. The UID makes the patch one of this
// XR and of no later one of its name.
func (p *Performer) recordPreviousBackup(ctx context.Context, s *instance.State, _ Step) error {
	return p.Status(ctx, s.XR, map[string]any{"previousBackup": s.Latest()})
}

// reportPodFailure writes what the function makes a condition of.
func (p *Performer) reportPodFailure(ctx context.Context, s *instance.State, _ Step) error {
	return p.Status(ctx, s.XR, map[string]any{"blockedBy": blocker(s)})
}

// deleteObjects in the foreground: a Job or Deployment that is gone has left no pod behind
// that could still use a volume.
func (p *Performer) deleteObjects(ctx context.Context, _ *instance.State, step Step) error {
	for _, o := range step.Targets {
		if err := p.deleteObject(ctx, o, metav1.DeletePropagationForeground); err != nil {
			return err
		}
	}
	return nil
}

// stopServer the way that `kubectl scale` does.
func (p *Performer) stopServer(ctx context.Context, s *instance.State, _ Step) error {
	return p.updateObject(ctx, s.Deployment, func() { s.Deployment.Spec.Replicas = new(int32(0)) })
}

// markNoData writes down that there is nothing to lose, on what goes last. The Job, the PVC or
// the volume that showed it goes earlier, and after a crash nothing else would say so.
func (p *Performer) markNoData(ctx context.Context, s *instance.State, _ Step) error {
	var on client.Object = s.XR.Unstructured
	switch {
	case s.Orphaned && s.OriginalPVC != nil: // What is made up cannot be written to.
		on = s.OriginalPVC
	case s.Orphaned:
		on = s.DataPVC
	}
	return p.updateObject(ctx, on, func() { setAnnotation(on, v1.AnnotationNothingToLose, string(s.XR.GetUID())) })
}

func (p *Performer) createBackupJob(ctx context.Context, s *instance.State, _ Step) error {
	return p.createObject(ctx, backupJob(s, p.AgentImage))
}

func (p *Performer) createPruneJob(ctx context.Context, s *instance.State, step Step) error {
	return p.createObject(ctx, pruneJob(s, p.AgentImage, step.Targets))
}

func (p *Performer) createWipeJob(ctx context.Context, s *instance.State, _ Step) error {
	return p.createObject(ctx, wipeJob(s, p.AgentImage))
}

func (p *Performer) removeXRFinalizer(ctx context.Context, s *instance.State, _ Step) error {
	if s.Orphaned {
		return nil
	}
	return p.removeFinalizer(ctx, s.XR.Unstructured)
}

func (p *Performer) removeClaimFinalizer(ctx context.Context, s *instance.State, _ Step) error {
	return p.removeFinalizer(ctx, s.Claim.Unstructured)
}

// removeFinalizer of an object: what nothing else holds is gone now.
func (p *Performer) removeFinalizer(ctx context.Context, o client.Object) error {
	return client.IgnoreNotFound(p.updateObject(ctx, o, func() { controllerutil.RemoveFinalizer(o, v1.Finalizer) }))
}
