package lifecycle

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A rebirth describes an instance whose namespace was deleted and created again. The controller has not reconciled
// the instance yet.
type rebirth struct {
	// chosen is true if the function chose the backup of the previous namespace.
	chosen bool
	// inTheWay is the name of an empty backup volume of this namespace, or "" if there is none. onNode is true if the
	// data volume is a hostPath volume.
	inTheWay string
	onNode   bool
}

// objects returns the objects of the rebirth. Volume pvc-0 contains the backup. It was last bound to a PVC in the
// recovery namespace.
func (b rebirth) objects() []client.Object {
	s := running(reborn)
	claim := &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"storageSize": "1Gi", "resourceRef": map[string]any{"name": "db-x"}}}}
	claim.SetGroupVersionKind(instance.ClaimKind)
	claim.SetNamespace(home)
	claim.SetName("db")
	status := map[string]any{"volume": volume1}
	if b.chosen {
		status["restore"] = map[string]any{"backup": "old-a", "phase": "Failed"}
	}
	xr := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"storageSize": "1Gi",
			"claimRef": map[string]any{"kind": "MySQL", "namespace": home, "name": "db"}}, "status": status,
	}}
	xr.SetGroupVersionKind(instance.XRKind)
	xr.SetName("db-x")
	xr.SetUID(xrUID)
	xr.SetLabels(map[string]string{"crossplane.io/claim-namespace": home, "crossplane.io/claim-name": "db"})
	s.DataPVC.Labels, s.DataPV.Annotations = s.Instance.Labels(), nil
	if b.onNode {
		s.DataPV.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/x/y"}
		s.DataPV.Spec.NodeAffinity = onNodeAffinity()
	}
	old := &s.Records[0]
	old.Labels, old.CreationTimestamp = map[string]string{v1.LabelInstance: s.Instance.Key()}, metav1.NewTime(
		now.Add(-time.Hour))
	old.Spec.Instance.Kind, old.Spec.Instance.Namespace, old.Spec.Instance.Name = "MySQL", home, "db"
	out := append(make([]client.Object, 0, 11), claim, xr, s.Namespace, s.DataPVC, s.DataPV, old,
		leftBehind("pvc-0", earlierUID), leftBehind("pvc-other", "other"))
	if b.inTheWay == "" {
		return out
	}
	empty := leftBehind(b.inTheWay, "ns")
	empty.Spec.ClaimRef = steps.ReservedFor(home, s.Instance.BackupPVCName())
	empty.Annotations[v1.AnnotationReclaimPolicy] = string(corev1.PersistentVolumeReclaimDelete)
	place := running().BackupPVC
	place.Spec.VolumeName, place.Annotations = b.inTheWay, map[string]string{v1.AnnotationRetainedPV: b.inTheWay}
	job := &instance.Job{Job: &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: s.Instance.Jobs().Restore(), Labels: s.Instance.Labels()}}}
	failedAt(0, "")(job)
	return append(out, empty, place, job.Job)
}

// leftBehind returns a backup volume of a previous namespace. It was last bound to a PVC in the recovery namespace.
func leftBehind(name, namespace string) *corev1.PersistentVolume {
	v := backupsOn(name, namespace)
	v.Labels = steps.BackupLabels(running().Instance)
	maps.Copy(v.Annotations, agent.Annotations(running().Instance))
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	v.Spec.ClaimRef = steps.ReservedFor(v1.RecoveryNamespace, "backups-"+name)
	v.Spec.ClaimRef.UID = "gone"
	return v
}

// live runs the controller until it waits for the function.
func (w *world) live(ctx context.Context, t *testing.T) error {
	t.Helper()
	g := gathererFrom(w)
	for range 40 {
		w.bind(ctx, t)
		instances, err := g.Gather(ctx, instance.Key{Kind: "MySQL", Namespace: home, Name: "db"})
		if err != nil {
			return err
		}
		step := Next(instances[0])
		if step.Action == steps.NoOp || step.Action == steps.Wait {
			return nil
		}
		if err := w.apply(ctx, step.Changes); err != nil {
			return err
		}
		kept := &corev1.PersistentVolume{}
		if err := w.Get(ctx, client.ObjectKey{Name: "pvc-0"}, kept); err != nil || !instance.HasFinalizer(kept) ||
			kept.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			t.Fatalf("the volume of the backups is not kept after %s: %v", step.Action, err)
		}
	}
	return errors.New("it comes to no end")
}

// bind binds the backup PVC to the volume that is reserved for it.
func (w *world) bind(ctx context.Context, t *testing.T) {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: home, Name: running().Instance.BackupPVCName()}, c); err != nil ||
		c.Status.Phase == corev1.ClaimBound {
		return
	}
	c.Status.Phase = corev1.ClaimBound
	if err := w.Status().Update(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// TestCrashReborn crashes the controller before and after each write for an instance in a recreated namespace. If the
// function chose the backup of the previous namespace, the instance adopts its volume, and the empty volume is
// released. Otherwise no object of the previous namespace is changed.
func TestCrashReborn(t *testing.T) {
	dir := running().Instance.BackupPVName("ns")
	for name, b := range map[string]rebirth{
		"Chosen":         {chosen: true},
		"ChosenOnNode":   {chosen: true, onNode: true},
		"InTheWay":       {chosen: true, inTheWay: "pvc-2"},
		"InTheWayOnNode": {chosen: true, inTheWay: dir, onNode: true},
		"Refused":        {},
		"RefusedOnNode":  {onNode: true},
		"RefusedBefore":  {inTheWay: "pvc-2"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []bool{false, true} {
				for step, crashed := 1, true; crashed; step++ {
					w := newWorldOf(t, step, after, b.objects())
					ctx := context.Background()
					err := w.live(ctx, t)
					if crashed = errors.Is(err, errCrash); crashed {
						err = w.live(ctx, t)
					}
					if err != nil {
						t.Fatalf("crash at write %d (after it: %t): %v", step, after, err)
					}
					b.settled(ctx, t, w)
					if t.Failed() {
						t.Fatalf("crash at write %d (after it: %t)", step, after)
					}
				}
			}
		})
	}
}

// settled checks the objects of a rebirth after the last reconcile.
func (b rebirth) settled(ctx context.Context, t *testing.T, w *world) {
	t.Helper()
	get := func(o client.Object, namespace, name string) bool {
		err := w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	strangers := []string{"pvc-other"}
	if !b.chosen {
		strangers = append(strangers, "pvc-0")
	}
	for _, name := range strangers {
		v := &corev1.PersistentVolume{}
		get(v, "", name)
		if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Namespace == home || instance.NamespaceOf(v) == "ns" {
			t.Errorf("volume %s of an earlier namespace is reserved for %v, of namespace %q", name, v.Spec.ClaimRef,
				instance.NamespaceOf(v))
		}
	}
	c, v, e := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.PersistentVolume{}
	made := get(c, home, running().Instance.BackupPVCName())
	if !b.chosen {
		if made != (b.inTheWay != "") || c.Spec.VolumeName != b.inTheWay {
			t.Errorf("the backup PVC is on volume %q", c.Spec.VolumeName)
		}
		return
	}
	get(v, "", "pvc-0")
	got := []any{c.Spec.VolumeName, c.Annotations[v1.AnnotationRetainedPV], v.Spec.ClaimRef.Namespace,
		v.Spec.ClaimRef.Name, v.Annotations[v1.AnnotationNamespaceUID], v.Annotations[v1.AnnotationEarlierNamespaces]}
	if diff := cmp.Diff([]any{"pvc-0", "pvc-0", home, c.Name, "ns", earlierUID}, got); diff != "" {
		t.Errorf("the volume of the backup is not this namespace's: -want, +got:\n%s", diff)
	}
	if get(&batchv1.Job{}, home, running().Instance.Jobs().Restore()) {
		t.Error("the restore that found nothing is not tried again")
	}
	switch exists := b.inTheWay != "" && get(e, "", b.inTheWay); {
	case b.inTheWay == "":
	case b.onNode && (!exists || len(e.OwnerReferences) == 0 || e.OwnerReferences[0].UID != running().XR.GetUID()):
		t.Errorf("the empty volume in a folder goes with nothing: %v", e.OwnerReferences)
	case !b.onNode && (!exists || instance.HasFinalizer(e) ||
		e.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || instance.NamespaceOf(e) != ""):
		t.Errorf("the volume without an index is not set aside: %v, %v", e.ObjectMeta, e.Spec)
	}
}

// TestInheritTwice checks that a volume lists all namespaces whose backups it contains.
func TestInheritTwice(t *testing.T) {
	ctx := context.Background()
	w := newWorldOf(t, -1, false, rebirth{}.objects())
	v := &corev1.PersistentVolume{}
	if err := w.Get(ctx, client.ObjectKey{Name: "pvc-0"}, v); err != nil {
		t.Fatal(err)
	}
	steps.SetAnnotation(v, v1.AnnotationEarlierNamespaces, "first")
	stale := v.DeepCopy()
	if err := w.Update(ctx, v); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		volume   *corev1.PersistentVolume
		conflict bool
	}{"AsRead": {volume: v}, "ChangedSince": {volume: stale, conflict: true}} {
		err := w.apply(ctx, adoptBackupPV(running(func(s *instance.State) { s.EarlierBackupPV = tc.volume.DeepCopy() }),
			steps.Step{}))
		if kerrors.IsConflict(err) != tc.conflict {
			t.Errorf("%s: want a conflict: %t, got %v", name, tc.conflict, err)
		}
	}
	if err := w.Get(ctx, client.ObjectKey{Name: "pvc-0"}, v); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("first,earlier", v.Annotations[v1.AnnotationEarlierNamespaces]); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestBackupVolumeIsNotDeletedByItsIndex checks that a volume with an empty catalog is retained, even if its
// StorageClass specifies the reclaim policy Delete. Any user with permission to update volumes can remove the
// catalog.
func TestBackupVolumeIsNotDeletedByItsIndex(t *testing.T) {
	for name, s := range map[string]*instance.State{
		"InTheWay":  running(reborn, left, inTheWay),
		"Elsewhere": running(beginning, earlierPlace),
	} {
		s.BackupPV.Annotations[v1.AnnotationReclaimPolicy] = string(corev1.PersistentVolumeReclaimDelete)
		step := Next(s)
		if step.Action != steps.ReleaseBackupPV || !strings.Contains(step.Message, "kubectl delete pv "+s.BackupPV.Name) {
			t.Errorf("%s: %s, %q", name, step.Action, step.Message)
		}
		for _, c := range step.Changes {
			v, ok := c.Object.(*corev1.PersistentVolume)
			if ok && (v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || instance.HasFinalizer(v) ||
				instance.NamespaceOf(v) != "") {
				t.Errorf("%s: the volume is left with %+v, %+v", name, v.ObjectMeta, v.Spec)
			}
		}
	}
}

// TestReleaseBackupPV checks that the volume of the PVC is retained again if the release is interrupted.
func TestReleaseBackupPV(t *testing.T) {
	ctx := context.Background()
	w := newWorldOf(t, -1, false, rebirth{inTheWay: "pvc-2"}.objects())
	s := running()
	for _, o := range []client.Object{s.BackupPVC, backupsOn("pvc-2", "ns")} {
		if err := w.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if v, ok := o.(*corev1.PersistentVolume); ok {
			s.BackupPV = v
		}
	}
	if !s.IsBackupPVRetained() {
		t.Fatal("the volume is not kept")
	}
	if err := w.apply(ctx, releaseBackupPV(s, steps.Step{})); err != nil {
		t.Fatal(err)
	}
	if err := w.Get(ctx, client.ObjectKeyFromObject(s.BackupPVC), s.BackupPVC); err != nil || s.IsBackupPVRetained() {
		t.Errorf("the claim says that its volume is kept, %v", err)
	}
}
