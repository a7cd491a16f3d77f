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
	// Client that writes, and reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// AgentImage of the Jobs.
	AgentImage string
	// BackupClass of backup volumes; nil means that of the data.
	BackupClass *string
	// Keeper is the controller's own namespace, which holds the passwords of
	// records.
	Keeper string
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
		Protect:         p.protect,
		Supersede:       p.supersede,
		MakeBackupPV:    p.makeBackupPV,
		LatchBackupPV:   p.latchBackupPV,
		GrowBackupPV:    p.growBackupPV,
		DropBackupPVC:   p.dropBackupPVC,
		ReleaseBackupPV: p.releaseBackupPV,
		Inherit:         p.inherit,
		Look:            p.look,
		Tell:            p.tell,
		Latch:           p.latch,
		Fence:           p.fence,
		Unfence:         p.unfence,
		ReleaseHandle:   p.releaseHandle,
		Rebind:          p.rebind,
		MakeHandle:      p.makeHandle,
		Pin:             p.pin,
		Announce:        p.announce,
		Stop:            p.stop,
		Delete:          p.delete,
		StartBackup:     p.startBackup,
		MarkRunning:     p.markRunning,
		MarkFailed:      p.markFailed,
		MarkEmpty:       p.markEmpty,
		KeepPassword:    p.keepPassword,
		NoteBackup:      p.noteBackup,
		Prove:           p.prove,
		MakeRecord:      p.makeOwnRecord,
		Withdraw:        p.withdraw,
		StartPrune:      p.startPrune,
		Forget:          p.forget,
		StartWipe:       p.startWipe,
		ReleaseVolume:   p.releaseVolume,
		ReleaseClaim:    p.releaseClaim,
		ReleaseXR:       p.releaseXR,
		FreeName:        p.freeName,
	}
}

// change an object as it was read, and no other: the API server refuses the
// patch if somebody was faster.
func (p *Performer) change(ctx context.Context, o client.Object, how func()) error {
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("cannot copy %T", o)
	}
	how()
	return p.Client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// remove an object, and no later one of its name.
func (p *Performer) remove(ctx context.Context, o client.Object, policy metav1.DeletionPropagation) error {
	uid := o.GetUID()
	return client.IgnoreNotFound(p.Client.Delete(ctx, o, client.PropagationPolicy(policy), client.Preconditions{UID: &uid}))
}

// create an object; one that is there already is as good.
func (p *Performer) create(ctx context.Context, o client.Object) error {
	if err := p.Client.Create(ctx, o); err != nil && !kerrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// protect the claim first: it has the name.
func (p *Performer) protect(ctx context.Context, s *instance.State, _ Step) error {
	for _, c := range []*instance.Composite{s.Claim, s.XR} {
		if c == nil || c.Dying() || c.Protected() {
			continue
		}
		if err := p.change(ctx, c.Unstructured, func() { controllerutil.AddFinalizer(c, v1.Finalizer) }); err != nil {
			return err
		}
	}
	return nil
}

// supersede an XR, as a person would delete it.
func (p *Performer) supersede(ctx context.Context, s *instance.State, _ Step) error {
	return p.remove(ctx, s.XR.Unstructured, metav1.DeletePropagationBackground)
}

// look writes what the function waits for. The UID makes the patch one of this
// XR and of no later one of its name.
func (p *Performer) look(ctx context.Context, s *instance.State, _ Step) error {
	return p.Status(ctx, s.XR, map[string]any{"previous": s.Latest()})
}

// tell writes what the function adds to its message.
func (p *Performer) tell(ctx context.Context, s *instance.State, _ Step) error {
	return p.Status(ctx, s.XR, map[string]any{"trouble": s.Trouble})
}

func (p *Performer) delete(ctx context.Context, _ *instance.State, step Step) error {
	for _, o := range step.Targets {
		if err := p.remove(ctx, o, metav1.DeletePropagationForeground); err != nil {
			return err
		}
	}
	return nil
}

// stop the server the way that `kubectl scale` does.
func (p *Performer) stop(ctx context.Context, s *instance.State, _ Step) error {
	return p.change(ctx, s.Deployment, func() { s.Deployment.Spec.Replicas = new(int32(0)) })
}

func (p *Performer) markEmpty(ctx context.Context, s *instance.State, _ Step) error {
	var on client.Object = s.XR.Unstructured
	switch {
	case s.Lost && s.Origin != nil: // What is made up cannot be written to.
		on = s.Origin
	case s.Lost:
		on = s.DataPVC
	}
	return p.change(ctx, on, func() { annotate(on, v1.AnnotationNothingToLose, string(s.XR.GetUID())) })
}

func (p *Performer) startBackup(ctx context.Context, s *instance.State, _ Step) error {
	return p.create(ctx, backupJob(s, p.AgentImage))
}

func (p *Performer) startPrune(ctx context.Context, s *instance.State, step Step) error {
	return p.create(ctx, pruneJob(s, p.AgentImage, step.Targets))
}

func (p *Performer) startWipe(ctx context.Context, s *instance.State, _ Step) error {
	return p.create(ctx, wipeJob(s, p.AgentImage))
}

func (p *Performer) releaseXR(ctx context.Context, s *instance.State, _ Step) error {
	if s.Lost {
		return nil
	}
	return p.letGo(ctx, s.XR.Unstructured)
}

func (p *Performer) freeName(ctx context.Context, s *instance.State, _ Step) error {
	return p.letGo(ctx, s.Claim.Unstructured)
}

// letGo of an object: what nothing else holds is gone now.
func (p *Performer) letGo(ctx context.Context, o client.Object) error {
	return client.IgnoreNotFound(p.change(ctx, o, func() { controllerutil.RemoveFinalizer(o, v1.Finalizer) }))
}
