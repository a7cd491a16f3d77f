package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/admission"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

var errCrash = errors.New("crash")

// A world is a fake API server with one instance. It can crash the controller before or after any write.
type world struct {
	client.WithWatch

	// left is the number of writes before the crash, or a negative number for no crash.
	left int
	// after is true if the crash happens after the write, and false if it happens before.
	after bool
	// empty is true if there is no database on the volume.
	empty bool
	// off is the difference between the clocks of the controller and the cluster.
	off time.Duration
	// violated describes which object the controller has deleted too early. It is empty if there is none.
	violated string
}

func (w *world) write(run func() error) error {
	w.left--
	if w.left == 0 && !w.after {
		return errCrash
	}
	if err := run(); err != nil {
		return err
	}
	if w.left == 0 {
		return errCrash
	}
	return nil
}

// policies returns the admission policies of the installation. They apply in each world, as on a cluster.
var policies = sync.OnceValues(func() (*admission.Policies, error) {
	return admission.Read(context.Background(), "../../deploy/controller/admission.yaml")
})

// refusal returns the error if the admission policies refuse a write. old is nil for a creation, and o is nil for a
// deletion.
func refusal(ctx context.Context, old, o client.Object) error {
	p, err := policies()
	if err != nil {
		return err
	}
	return p.Refusal(ctx, admission.Write{Old: old, New: o})
}

// asItIs returns the current version of an object in the API server.
func asItIs(ctx context.Context, c client.Reader, o client.Object) (client.Object, error) {
	now, _ := o.DeepCopyObject().(client.Object)
	return now, c.Get(ctx, client.ObjectKeyFromObject(o), now)
}

func newWorld(t *testing.T, crashAt int, after bool, way way) *world {
	t.Helper()
	w := newWorldOf(t, crashAt, after, deleted(way))
	w.empty = way == noXREmpty
	return w
}

func newWorldOf(t *testing.T, crashAt int, after bool, objects []client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	// The fake client maps all types of the scheme at each write, so the scheme contains only the necessary types.
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	scheme.AddKnownTypes(v1.GroupVersion, &v1.BackupRecord{}, &v1.BackupRecordList{})
	metav1.AddToGroupVersion(scheme, v1.GroupVersion)
	w := &world{left: crashAt, after: after}
	w.WithWatch = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(objects...).WithStatusSubresource(&v1.BackupRecord{}, &batchv1.Job{}, ofKind(instance.ClaimKind),
		ofKind(instance.XRKind)).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetCreationTimestamp(metav1.NewTime(now))
			return w.write(func() error {
				if err := refusal(ctx, nil, o); err != nil {
					return err
				}
				return c.Create(ctx, o, opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return w.write(func() error {
				old, err := asItIs(ctx, c, o)
				if err != nil {
					return err
				}
				if err := c.Patch(ctx, o, p, opts...); err != nil {
					return err
				}
				return refusal(ctx, old, o)
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write(func() error {
				old, err := asItIs(ctx, c, o)
				if err != nil {
					return err
				}
				if err := refusal(ctx, old, nil); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			})
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption) error {
			update := func() error { return c.SubResource(sub).Update(ctx, o, opts...) }
			if sub != "scale" { // Kubernetes writes the other subresources.
				return update()
			}
			return w.write(update)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	return w
}

// A way is a method to delete an instance. Its value names what a user deleted or removed.
type way string

// home is the namespace of the tested instance.
const home = "default"

// The tested ways to delete an instance.
const (
	byClaim     way = "claim"
	onANode     way = "claim, hostPath"
	noDataPVC   way = "data PVC"
	noNamespace way = "namespace"
	noXR        way = "finalizers of claim and XR"
	noXREmpty   way = "finalizers, before the first start"
)

func ofKind(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// deleted returns an instance with all its objects, just after Crossplane has removed its finalizer.
func deleted(way way) []client.Object {
	onNode := way == onANode
	timestamp := metav1.NewTime(now)
	claim := &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"storageSize": "1Gi", "deletionPolicy": "Backup",
			"resourceRef": map[string]any{"name": "db-x"}}}}
	claim.SetGroupVersionKind(instance.ClaimKind)
	claim.SetNamespace(home)
	claim.SetName("db")
	xr := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"storageSize": "1Gi", "backup": map[string]any{"retention": map[string]any{"count": int64(1)}},
			"claimRef": map[string]any{"kind": "MySQL", "namespace": home, "name": "db"}},
		"status": map[string]any{"internal": map[string]any{"started": true}, "volume": volume1, "image": "mysql:8.4"},
	}}
	xr.SetGroupVersionKind(instance.XRKind)
	xr.SetName("db-x")
	xr.SetUID(xrUID)
	xr.SetLabels(map[string]string{"crossplane.io/claim-namespace": home, "crossplane.io/claim-name": "db"})
	for _, u := range []*unstructured.Unstructured{claim, xr} {
		u.SetFinalizers([]string{v1.Finalizer})
		u.SetDeletionTimestamp(&timestamp)
	}
	s := running(older(1))
	s.DataPVC.Labels = s.Instance.Labels()
	s.DataPVC.Annotations = agent.Annotations(s.Instance)
	if onNode {
		s.DataPV.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/x/y"}
		s.DataPV.Spec.NodeAffinity = onNodeAffinity()
	}
	s.BackupPVC.Namespace, s.BackupPVC.Annotations = home, nil
	old := &s.Records[0]
	old.Labels, old.CreationTimestamp = map[string]string{v1.LabelInstance: s.Instance.Key()}, metav1.NewTime(
		now.Add(-time.Hour))
	old.Spec.Instance.Kind, old.Spec.Instance.Namespace, old.Spec.Instance.Name = "MySQL", home, "db"
	meta := metav1.ObjectMeta{Namespace: home, Name: "db", Labels: s.Instance.Labels()}
	root := meta
	root.Name = s.Instance.RootSecretName()
	backups := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-2", Labels: steps.BackupLabels(s.Instance),
			Annotations: backup.PVAnnotations(s)}}
	backups.Spec.ClaimRef = steps.ReservedFor(home, s.Instance.BackupPVCName())
	data := []client.Object{s.DataPV, backups, old}
	switch way {
	case noDataPVC:
		s.DataPVC.DeletionTimestamp = &timestamp
	case noNamespace:
		s.DataPVC.DeletionTimestamp = &timestamp
		s.Namespace.DeletionTimestamp, s.Namespace.Finalizers = &timestamp, []string{"kubernetes"}
		claim.SetFinalizers([]string{v1.Finalizer})
		return append(data, claim, xr, s.DataPVC, s.Namespace) // All other objects are already deleted.
	case noXREmpty:
		// Kubernetes deletes the volume as soon as the finalizer is removed, because Crossplane composed it.
		s.DataPV.DeletionTimestamp = &timestamp
		return append(data, s.DataPVC, s.BackupPVC, s.Namespace)
	case noXR:
		return append(data, s.DataPVC, s.BackupPVC, s.Namespace)
	case byClaim, onANode:
	}
	return append(data, claim, xr, s.DataPVC, s.BackupPVC, s.Namespace,
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}},
		&corev1.Service{ObjectMeta: meta},
		&corev1.Secret{ObjectMeta: root, Data: map[string][]byte{v1.PasswordKey: []byte("secret")}},
	)
}

func onNodeAffinity() *corev1.VolumeNodeAffinity { return agent.OnNode("node1") }

// turn marks the Jobs that the controller created as complete, and adds the pods with their reports.
func (w *world) turn(ctx context.Context, t *testing.T) {
	t.Helper()
	l := &batchv1.JobList{}
	if err := w.List(ctx, l); err != nil {
		t.Fatal(err)
	}
	for i := range l.Items {
		j := &l.Items[i]
		if len(j.Status.Conditions) > 0 {
			continue
		}
		done := &instance.Job{Job: j}
		complete(done)
		j.Status.StartTime = &metav1.Time{Time: now}
		message := `{"command":"backup","ok":true,"archive":"` + catalog.ArchiveName + `","sha256":"` +
			strings.Repeat("a", 64) + `","version":"8.4.6"}`
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: new(true)}}}}
		if w.empty {
			message = `{"command":"backup","ok":true,"empty":true}`
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Message: message,
			}}}}
		held := w.left
		w.left = -1 // Only the controller crashes, and not the cluster.
		if err := w.Status().Update(ctx, j); err != nil {
			t.Fatal(err)
		}
		if err := w.Create(ctx, pod); err != nil && !kerrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		w.left = held
	}
}

// nothingOutside is a fake of change.Servers, whose server stores no data outside of its data directory.
type nothingOutside struct{ change.Servers }

func (nothingOutside) CheckData(context.Context, *change.Server) error { return nil }

// apply applies changes as the controller does.
func (w *world) apply(ctx context.Context, changes []change.Change) error {
	return change.Writer{Client: w, Servers: nothingOutside{}}.Apply(ctx, changes)
}

// check verifies that no data is deleted before its backup is verified.
func (w *world) check(ctx context.Context) {
	r, volume := &v1.BackupRecord{}, &corev1.PersistentVolume{}
	instanceID := running().Instance
	proof := w.Get(ctx, client.ObjectKey{Name: instanceID.RecordName()}, r) == nil && r.Status.Phase == v1.BackupVerified &&
		r.Spec.Archive != nil
	held := w.Get(ctx, client.ObjectKey{Name: volume1}, volume) == nil && instance.HasFinalizer(volume) &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	old := w.Get(ctx, client.ObjectKey{Name: "old-a"}, &v1.BackupRecord{}) == nil
	switch {
	case w.empty:
	case !proof && !held:
		w.violated = "the data is released before the proof"
	case !proof && !old:
		w.violated = "the older backup is gone before the newer is proven"
	}
}

// run runs the controller until it has nothing to do or crashes.
func (w *world) run(ctx context.Context, t *testing.T) (bool, error) {
	t.Helper()
	g := gathererFrom(w)
	g.Clock = func() time.Time { return now.Add(w.off) }
	for range 80 {
		w.turn(ctx, t)
		instances, err := g.Gather(ctx, instance.Key{Kind: "MySQL", Namespace: home, Name: "db"})
		if err != nil {
			return false, err
		}
		step := Next(instances[0])
		if step.Action == steps.NoOp {
			return true, nil
		}
		if step.Phase == v1.DeletionBlocked {
			return false, errors.New(step.Message)
		}
		err = w.apply(ctx, step.Changes)
		if w.check(ctx); w.violated != "" || err != nil {
			return false, err
		}
	}
	return false, errors.New("it comes to no end")
}

// TestCrash crashes the controller before and after each write of a deletion. After the next run, only the verified
// backup is left, and nothing was deleted too early.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, way := range []way{byClaim, onANode, noDataPVC, noNamespace, noXR, noXREmpty} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			for _, after := range []bool{false, true} {
				for step, crashed := 1, true; crashed; step++ {
					w := newWorld(t, step, after, way)
					ctx := context.Background()
					ended, err := w.run(ctx, t)
					if crashed = errors.Is(err, errCrash); crashed {
						ended, err = w.run(ctx, t)
					}
					if err != nil || !ended || w.violated != "" {
						t.Fatalf("crash at write %d (after it: %t): ended %t, %s, %v", step, after, ended, w.violated, err)
					}
					w.settled(ctx, t, step, way)
				}
			}
		})
	}
}

// TestClockIsOff checks that a deletion succeeds if the clock of the controller is an hour slow or fast.
func TestClockIsOff(t *testing.T) {
	for _, way := range []way{byClaim, onANode, noDataPVC, noNamespace, noXR, noXREmpty} {
		for _, off := range []time.Duration{-time.Hour, time.Hour} {
			t.Run(string(way)+" "+off.String(), func(t *testing.T) {
				w := newWorld(t, -1, false, way)
				w.off = off
				ended, err := w.run(context.Background(), t)
				if err != nil || !ended || w.violated != "" {
					t.Fatalf("ended %t, %s, %v", ended, w.violated, err)
				}
				w.settled(context.Background(), t, 0, way)
			})
		}
	}
}

// settled checks that the expected objects exist, and no others.
func (w *world) settled(ctx context.Context, t *testing.T, step int, way way) {
	t.Helper()
	records, jobs, claims, services :=
		&v1.BackupRecordList{}, &batchv1.JobList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}
	for _, l := range []client.ObjectList{records, jobs, claims, services} {
		if err := w.List(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	keep := 1
	if way == noXR {
		keep = 2 // Without the XR, the retention is unknown.
	}
	ok := len(records.Items) == keep &&
		!slices.ContainsFunc(records.Items, func(r v1.BackupRecord) bool { return r.Status.Phase != v1.BackupVerified }) &&
		len(jobs.Items) == 0 && len(services.Items) == 0 &&
		!slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
			return c.Name != "backup-db-pvc" || way == noNamespace
		})
	for _, kind := range []struct {
		object *unstructured.Unstructured
		name   client.ObjectKey
	}{{composite("MySQL", "db", "").Unstructured, client.ObjectKey{Namespace: home, Name: "db"}},
		{composite("XMySQL", "db-x", "").Unstructured, client.ObjectKey{Name: "db-x"}}} {
		kind.object.SetAPIVersion(v1.GroupVersionClaims.String())
		ok = ok && kerrors.IsNotFound(w.Get(ctx, kind.name, kind.object))
	}
	v := &corev1.PersistentVolume{}
	if err := w.Get(ctx, client.ObjectKey{Name: volume1}, v); way == noXREmpty {
		ok = ok && kerrors.IsNotFound(err)
	} else if err != nil || instance.HasFinalizer(
		v) || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("crash at write %d: the data volume is not released: %v, %v", step, v.Spec, err)
	}
	if err := w.Get(ctx, client.ObjectKey{Name: "pvc-2"}, v); way != noXREmpty &&
		(err != nil || !instance.HasFinalizer(v) ||
			v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain) {
		t.Errorf("crash at write %d: the backup volume is not kept: %v, %v", step, v.Spec, err)
	}
	if !ok {
		t.Errorf("crash at write %d: left are %d records, %d Jobs, %d claims", step, len(records.Items), len(jobs.Items),
			len(claims.Items))
	}
}
