package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// backedUp returns the objects of a deleted instance whose backup has not been restore-tested.
func backedUp(namespace, name string) []client.Object {
	instanceID := v1.Instance{Kind: v1.KindMySQL, Namespace: namespace, Name: name, XR: types.UID(namespace + "-" + name)}
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: instanceID.BackupPVCName(), UID: "claim-of-" + instanceID.XR,
			Labels: instanceID.Labels(), Annotations: map[string]string{}}}
	pvc.Labels[v1.LabelComponent] = v1.ComponentBackup
	pvc.Spec.VolumeName = "pv-" + string(instanceID.XR)
	pvc.Status.Phase = corev1.ClaimBound
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pvc.Spec.VolumeName}}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: pvc.Name, UID: pvc.UID}
	r := &v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: instanceID.RecordName(), Labels: instanceID.Labels()}}
	r.Spec = v1.BackupRecordSpec{
		Instance: v1.BackedUpInstance{Kind: instanceID.Kind, Namespace: namespace, NamespaceUID: types.UID("ns-" + namespace),
			Name: name, XR: instanceID.XR},
		Image: "mysql:8.4", Version: "8.4.6", CleanShutdown: true,
		Archive: &v1.Archive{PVCName: pvc.Name, Path: r.Name + "/data.tar.zst", SHA256: strings.Repeat("a", 64)},
	}
	r.Status.Phase = v1.BackupVerified
	return []client.Object{pvc, pv, r}
}

// A tester is the reconciler of restore tests with a fake API server that assigns UIDs.
type tester struct {
	*restoreTestReconciler

	kube client.WithWatch
}

func newTester(t *testing.T, namespaces []string, objects ...client.Object) *tester {
	t.Helper()
	for _, n := range namespaces {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n, UID: types.UID("ns-" + n)}})
	}
	made := 0
	kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(&v1.BackupRecord{}).
		WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			made++
			o.SetUID(types.UID(fmt.Sprintf("made-%d", made)))
			return k.Create(ctx, o, opts...)
		},
	}).Build()
	clock := func() time.Time { return time.Unix(1_000_000, 0) }
	return &tester{kube: kube, restoreTestReconciler: &restoreTestReconciler{
		kind: instance.Kinds()[0], gather: &instance.Gatherer{Reader: kube, Settings: instance.Settings{AgentImage: "agent"},
			Clock: clock}, writer: change.Writer{Client: kube},
		cache: kube, reader: kube, events: events.NewFakeRecorder(100), meter: newMeter(prometheus.NewRegistry()),
		atOnce: 2, clock: clock, turns: &sync.Mutex{}, failed: &sync.Map{},
	}}
}

// try reconciles until there is nothing more to do, and returns the running Job. It returns nil if the test must
// wait.
func (v *tester) try(t *testing.T, namespace, name string) *batchv1.Job {
	t.Helper()
	k := instance.Key{Kind: v1.KindMySQL, Namespace: namespace, Name: name}
	for range 5 {
		if _, err := v.Reconcile(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	r := v.record(t, namespace, name)
	if r.Status.RestoreTest == nil {
		return nil
	}
	j := &batchv1.Job{}
	if err := v.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: k.Instance("").Jobs().RestoreTest()},
		j); err != nil {
		t.Fatal(err)
	}
	if r.Status.RestoreTest.Job != j.UID {
		t.Fatalf("the record names Job %q, and there is %q", r.Status.RestoreTest.Job, j.UID)
	}
	return j
}

func (v *tester) record(t *testing.T, namespace, name string) *v1.BackupRecord {
	t.Helper()
	r := &v1.BackupRecord{}
	instanceID := v1.Instance{Kind: v1.KindMySQL, Namespace: namespace, Name: name, XR: types.UID(namespace + "-" + name)}
	if err := v.kube.Get(t.Context(), client.ObjectKey{Name: instanceID.RecordName()}, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// tenants returns a Job that a tenant has created, with all labels and annotations of the controller's Jobs.
func tenants(namespace, name string, instance v1.Instance) *batchv1.Job {
	labels := instance.Labels()
	labels[v1.LabelComponent] = v1.ComponentRestoreTest
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("tenants-" + name),
		Labels: labels, Annotations: map[string]string{
			v1.AnnotationClaimKind: instance.Kind, v1.AnnotationClaimNamespace: instance.Namespace,
			v1.AnnotationClaimName: instance.Name,
		}}}
}

// TestStrangersTakeNoTurn checks that a tenant's Jobs with the controller's labels are not counted. A tenant cannot
// hide the controller's Jobs by changing their labels.
func TestStrangersTakeNoTurn(t *testing.T) {
	victim := v1.Instance{Kind: v1.KindMySQL, Namespace: "a", Name: "one", XR: "a-one"}
	objects := []client.Object{ //nolint:prealloc // It lists all objects.
		tenants("evil", "x", v1.Instance{Kind: v1.KindMySQL, Namespace: "evil", Name: "x", XR: "x"}),
		tenants("evil", "y", v1.Instance{Kind: v1.KindMySQL, Namespace: "evil", Name: "y", XR: "y"}),
		tenants("evil", "z", victim), tenants("a", "another", victim),
	}
	for _, owner := range [][2]string{{"a", "one"}, {"a", "two"}, {"b", "one"}, {"c", "one"}} {
		objects = append(objects, backedUp(owner[0], owner[1])...)
	}
	v := newTester(t, []string{"a", "b", "c", "evil"}, objects...)
	one := v.try(t, "a", "one")
	if one == nil {
		t.Fatal("Jobs of a tenant have taken all turns")
	}
	if v.try(t, "a", "two") != nil {
		t.Error("a namespace has two turns")
	}
	if v.try(t, "b", "one") == nil {
		t.Error("another namespace has none")
	}
	one.Labels = nil
	if err := v.kube.Update(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if v.try(t, "c", "one") != nil || v.try(t, "a", "two") != nil {
		t.Error("a Job without labels is not counted")
	}
	if v.try(t, "a", "one") == nil {
		t.Error("nor is it looked after")
	}
}

// TestStrangersJobIsNotHeard checks a tenant's Job with the name of a restore test. The controller neither deletes it
// nor trusts its result, and the BackupRecord reports the name conflict.
func TestStrangersJobIsNotHeard(t *testing.T) {
	instance := v1.Instance{Kind: v1.KindMySQL, Namespace: "a", Name: "one", XR: "a-one"}
	cases := map[string]struct {
		reason string
		meta   func(*batchv1.Job)
	}{
		"Labelled": {reason: "The tenant's Job has the same labels and annotations as the controller's Job.",
			meta: func(*batchv1.Job) {}},
		"Unlabelled": {reason: "The tenant's Job has no labels and no annotations.",
			meta: func(j *batchv1.Job) { j.Labels, j.Annotations = nil, nil }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := tenants("a", instance.Jobs().RestoreTest(), instance)
			tc.meta(j)
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", Labels: j.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: "bootcheck", State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Message: `{"command":"bootcheck","ok":true,"tables":666}`}}}}
			v := newTester(t, []string{"a"}, append(backedUp("a", "one"), j, p)...)
			if v.try(t, "a", "one") != nil {
				t.Fatal("it has a turn")
			}
			c := v.record(t, "a", "one").Status.Conditions
			if len(c) != 1 || c[0].Status != metav1.ConditionUnknown ||
				!strings.Contains(c[0].Message, "kubectl delete job --namespace a "+instance.Jobs().RestoreTest()) {
				t.Errorf("%s The record says %+v", tc.reason, c)
			}
			if err := v.kube.Get(t.Context(), client.ObjectKeyFromObject(j), j); err != nil {
				t.Errorf("%s It is gone: %v", tc.reason, err)
			}
		})
	}
}

// TestTurnAfterCrash checks that a restore test continues after the controller crashes at any time, and is counted
// once.
func TestTurnAfterCrash(t *testing.T) {
	for name, undo := range map[string]func(*testing.T, *tester, *v1.BackupRecord, *batchv1.Job){
		"Reserved": func(t *testing.T, v *tester, r *v1.BackupRecord, j *batchv1.Job) {
			t.Helper()
			r.Status.RestoreTest.Job = ""
			if err := v.kube.Delete(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		},
		"Unnamed": func(_ *testing.T, _ *tester, r *v1.BackupRecord, _ *batchv1.Job) { r.Status.RestoreTest.Job = "" },
		"JobGone": func(t *testing.T, v *tester, _ *v1.BackupRecord, j *batchv1.Job) {
			t.Helper()
			if err := v.kube.Delete(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTester(t, []string{"a"}, backedUp("a", "one")...)
			j := v.try(t, "a", "one")
			r := v.record(t, "a", "one")
			undo(t, v, r, j)
			if err := v.kube.Status().Update(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if v.try(t, "a", "one") == nil {
				t.Error("it has no turn any more")
			}
		})
	}
}

// TestTurnIsRefused checks that another restore test can run if a quota or a policy refuses the Job. The BackupRecord
// reports the reason.
func TestTurnIsRefused(t *testing.T) {
	v := newTester(t, []string{"a"}, backedUp("a", "one")...)
	refusing := interceptor.NewClient(v.kube, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return kerrors.NewForbidden(batchv1.Resource("jobs"), o.GetName(), errors.New("exceeded quota: none"))
		},
	})
	v.writer = change.Writer{Client: refusing}
	if v.try(t, "a", "one") != nil {
		t.Error("it holds its turn")
	}
	c := v.record(t, "a", "one").Status.Conditions
	if len(c) != 1 || c[0].Status != metav1.ConditionUnknown || !strings.Contains(c[0].Message, "exceeded quota: none") {
		t.Errorf("The record says %+v", c)
	}
}

// TestTurnOfNoJob checks that another restore test can run if the Job cannot be created. The creation is retried
// after a delay, regardless of events.
func TestTurnOfNoJob(t *testing.T) {
	v := newTester(t, []string{"a"}, backedUp("a", "one")...)
	now, tries := v.clock(), 0
	v.clock = func() time.Time { return now }
	v.writer = change.Writer{Client: interceptor.NewClient(v.kube, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			tries++
			return errors.New("the API server is busy")
		},
	})}
	k := instance.Key{Kind: v1.KindMySQL, Namespace: "a", Name: "one"}
	for pass := range 2 {
		if _, err := v.Reconcile(t.Context(), k); err == nil || !strings.Contains(err.Error(), "is busy") {
			t.Errorf("pass %d: want it said, got %v", pass, err)
		}
		if r := v.record(t, "a", "one"); r.Status.RestoreTest != nil || len(r.Status.Conditions) > 0 {
			t.Errorf("pass %d: it holds its turn, or a verdict: %+v", pass, r.Status)
		}
		if got, err := v.Reconcile(t.Context(), k); err != nil || got.RequeueAfter != afterFailure || tries != pass+1 {
			t.Errorf("pass %d: want a pause, got %v, %v after %d tries", pass, got, err, tries)
		}
		now = now.Add(afterFailure)
	}
	v.writer = change.Writer{Client: v.kube}
	if v.try(t, "a", "one") == nil {
		t.Error("it has no turn once a Job can be made")
	}
}

// TestTurnWithoutKind checks restore tests after the XRD and the instances were uninstalled. A running test is
// finished, and a backup whose test failed is not tested again.
func TestTurnWithoutKind(t *testing.T) {
	v := newTester(t, []string{"a"}, backedUp("a", "one")...)
	j := v.try(t, "a", "one")
	if j == nil {
		t.Fatal("it has no turn")
	}
	uninstalled := interceptor.NewClient(v.kube, interceptor.Funcs{
		List: func(ctx context.Context, k client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if gvk := l.GetObjectKind().GroupVersionKind(); strings.HasPrefix(gvk.Kind, instance.XRKind.Kind) {
				return &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
			}
			return k.List(ctx, l, opts...)
		},
	})
	v.cache, v.reader, v.gather.Reader = uninstalled, uninstalled, uninstalled
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: v.clock()}}}
	if err := v.kube.Status().Update(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if v.try(t, "a", "one") != nil {
		t.Error("its turn has not ended")
	}
	if c := v.record(t, "a", "one").Status.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionUnknown {
		t.Errorf("the record says %+v", c)
	}
	if err := v.kube.Get(t.Context(), client.ObjectKeyFromObject(j), j); !kerrors.IsNotFound(err) {
		t.Errorf("its Job: %v", err)
	}
}

// A mysqlsOf lists only the MySQLs of a namespace.
type mysqlsOf struct {
	client.Reader

	namespace string
	items     []metav1.PartialObjectMetadata
}

func (r mysqlsOf) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	l, ok := list.(*metav1.PartialObjectMetadataList)
	if ok && asked.Namespace == r.namespace && asked.LabelSelector == nil {
		l.Items = r.items
	}
	return nil
}

// TestIsEndingWithoutClaim checks that an instance without a claim is reported as being deleted. Other instances of
// its namespace have no effect.
func TestIsEndingWithoutClaim(t *testing.T) {
	v := newTester(t, []string{"a"})
	v.reader = mysqlsOf{namespace: "a", items: []metav1.PartialObjectMetadata{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "lives"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "dies", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}},
	}}
	n := slices.IndexFunc(instance.Kinds(), func(k instance.Kind) bool { return !k.HasClaims() })
	v.kind = instance.Kinds()[n]
	for name, want := range map[string]bool{"lives": false, "dies": true, "gone": false} {
		got, err := v.isEnding(t.Context(), instance.Key{Kind: v.kind.InstanceKind(), Namespace: "a", Name: name})
		if err != nil || got != want {
			t.Errorf("%s: want %t, got %t, %v", name, want, got, err)
		}
	}
}
