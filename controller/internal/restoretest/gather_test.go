package restoretest

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// testedInstance is the instance whose backup is tested.
var testedInstance = v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: "uid-1"}

func kinds(t *testing.T) *runtime.Scheme {
	t.Helper()
	s, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func objectMeta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}
}

// xrOf returns an XR of the claim "db".
func xrOf(name, uid string, deleting bool) *unstructured.Unstructured {
	u := &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{
			"claimRef": map[string]any{"kind": v1.KindMySQL, "namespace": "default", "name": "db"}}}}
	u.SetGroupVersionKind(instance.XRKind)
	u.SetName(name)
	u.SetUID(types.UID(uid))
	u.SetLabels(map[string]string{"crossplane.io/claim-namespace": "default", "crossplane.io/claim-name": "db"})
	u.SetFinalizers([]string{v1.Finalizer})
	if deleting {
		u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	}
	return u
}

// boundClaim returns a claim that is bound to an XR, or to none.
func boundClaim(xr string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"resourceRef": map[string]any{"name": xr}}}}
	u.SetGroupVersionKind(instance.ClaimKind)
	u.SetNamespace("default")
	u.SetName("db")
	return u
}

// restoreTestJob returns the Job of testedInstance with a pod in which the server has reported its result.
func restoreTestJob() []client.Object {
	labels := testedInstance.Labels()
	labels[v1.LabelComponent] = v1.ComponentRestoreTest
	j := &batchv1.Job{ObjectMeta: objectMeta(testedInstance.Jobs().RestoreTest(), labels)}
	j.UID = "job"
	p := &corev1.Pod{ObjectMeta: objectMeta("p", nil)}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "tools", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "bootcheck", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: `{"command":"bootcheck","ok":true,"tables":7}`}}},
	}
	stranger := &corev1.Pod{ObjectMeta: objectMeta("stranger", labels)} // A tenant can use any labels.
	stranger.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "bootcheck", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: `{"command":"bootcheck","ok":true,"tables":666}`}}},
	}
	return []client.Object{j, p, stranger}
}

// TestReadAttempt checks which instance has the name now, and which result the Job has reported.
func TestReadAttempt(t *testing.T) {
	backups := &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(testedInstance.BackupPVCName(), nil),
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-backup"}}
	backups.UID = "claim"
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-backup"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: testedInstance.BackupPVCName(), UID: "claim"},
	}}
	noKind := &apimeta.NoKindMatchError{GroupKind: instance.XRKind.GroupKind()}
	cases := map[string]struct {
		reason   string
		existing []client.Object
		refuse   error
		home     bool
		// instances is true if the instance with this name has an XR.
		instances, inInstance, inStore bool
	}{
		"Gone": {reason: "No instance with this name exists, so the restore test may use the backup volume.", home: true},
		"Dying": {reason: "This is the final backup of the deleted instance, so the restore test uses its volumes.",
			existing: []client.Object{xrOf("x", "uid-1", true)},
			home:     true, instances: true},
		"Earlier": {reason: "The backup is not the final one, and the deletion needs the volumes for its final backup.",
			existing: []client.Object{xrOf("x", "uid-1", true)}, inInstance: true},
		"InStore": {reason: "A backup in a store needs no volume, so it can be tested while its instance exists.",
			existing: []client.Object{xrOf("x", "uid-1", false), boundClaim("x")}, inInstance: true, inStore: true, home: true,
			instances: true},
		"BackInStore": {reason: "A backup in a store needs no volume, so it can be tested while another instance exists.",
			existing: []client.Object{xrOf("y", "uid-2", false), boundClaim("y")}, inStore: true, home: true, instances: true},
		"NewInStore": {reason: "The claim has no XR yet, and a backup in a store needs no volume of the claim.",
			existing: []client.Object{boundClaim("")}, inStore: true, home: true},
		"Back": {reason: "Another instance with this name needs the volumes.",
			existing: []client.Object{xrOf("y", "uid-2", false), boundClaim("y")}},
		"BackAlready": {reason: "The earlier instance is still being deleted, so its final backup must be tested first.",
			existing: []client.Object{xrOf("x", "uid-1", true), xrOf("y", "uid-2", false), boundClaim("y")}, home: true,
			instances: true},
		"NewClaim": {reason: "The claim has no XR yet, but the new instance will need the volumes.",
			existing: []client.Object{boundClaim("")}},
		"Uninstalled": {reason: "If the XRD is not installed, there are no instances, but their backups still exist.", refuse: noKind,
			home: true},
		"UninstalledNow": {
			reason: "The API server may already answer with 404 while the client still knows the kind.",
			refuse: kerrors.NewNotFound(schema.GroupResource{Group: v1.GroupClaims, Resource: "xmysqls"}, ""), home: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
			objects := append(append(restoreTestJob(), ns, backups.DeepCopy(), volume.DeepCopy()), tc.existing...)
			c := fake.NewClientBuilder().WithScheme(kinds(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if k := l.GetObjectKind().GroupVersionKind().Kind; tc.refuse != nil && k == instance.XRKind.Kind {
						return tc.refuse
					}
					return c.List(ctx, l, opts...)
				},
			}).Build()
			g := &instance.Gatherer{Reader: c, Clock: time.Now}
			instanceID := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: "uid-1"}
			record := &v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: instanceID.RecordName()}}
			if record.Spec.Instance.XR = instanceID.XR; tc.inInstance {
				record.Name = instanceID.NumberedRecordName(1)
			}
			if tc.inStore {
				record.Spec.Archive = &v1.Archive{Store: "offsite"}
			}
			v, err := readAttempt(t.Context(), g, instance.Key{Kind: instanceID.Kind, Namespace: instanceID.Namespace, Name: instanceID.Name},
				record)
			if err != nil {
				t.Fatal(err)
			}
			if (v.Home != nil) != tc.home || tc.home && (v.Home.XR != nil) != tc.instances {
				t.Errorf("%s Home is %+v", tc.reason, v.Home)
			}
			if tc.home && (v.Volume == nil) != tc.inStore {
				t.Errorf("%s The volume of the backups is %v", tc.reason, v.Volume)
			}
			if v.Job == nil || v.Reports["bootcheck"].Tables != 7 {
				t.Errorf("the Job's word is not heard: %+v", v.Reports)
			}
		})
	}
}

// A entriesRead counts the reads of catalog entries in a store.
type entriesRead struct {
	instance.Stores

	times int
}

func (n *entriesRead) ReadEntry(context.Context, string, v1.BackedUpInstance, string) (*v1.StoreEntry, error) {
	n.times++
	return nil, nil //nolint:nilnil // There is no entry, which is not an error.
}

// TestReadEntry checks that a store is read only if the backup is about to be tested.
func TestReadEntry(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		state  *State
		times  int
	}{
		"Gone": {reason: "The backup is about to be tested, so the store must be read.", state: verified(inStore), times: 1},
		"InLife": {reason: "A backup of a running instance is about to be tested, so the store must be read.",
			state: verified(inInstance), times: 1},
		"HasTurn": {reason: "The Job of the restore test is created next, so the store must be read.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour), turn("")), times: 1},
		"Due": {reason: "The last restore test was a day ago, so the next one is due.",
			state: verified(inInstance, planned(metav1.ConditionTrue, 24*time.Hour)),
			times: 1},
		"NotDue": {reason: "The last restore test was an hour ago, so the next one is not due.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour))},
		"Away": {reason: "The server does not accept clients, so the restore test must wait.", state: verified(inInstance, away(0))},
		"Queued": {reason: "The maximum number of restore tests is running, so another one must wait.",
			state: verified(inInstance, busy([]string{"a", "b"}, nil))},
		"Off": {reason: "The platform team has disabled restore tests.",
			state: verified(inInstance, func(s *State) { s.AtOnce = 0 })},
		"Running": {reason: "The Job of the restore test already exists, so the store need not be read.",
			state: verified(inInstance, jobFrom(0))},
		"Known":    {reason: "The backup already has a test result.", state: verified(inInstance, verdict(metav1.ConditionTrue, 0))},
		"OnVolume": {reason: "The backup is on a volume, so there is no store to read.", state: verified()},
		"Elsewhere": {reason: "An existing instance with this name has priority, so the backup cannot be tested.",
			state: verified(inStore, func(s *State) { s.Home = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			n := &entriesRead{}
			if tc.state.readEntry(t.Context(), n); n.times != tc.times {
				t.Errorf("%s Want it asked %d times, got %d", tc.reason, tc.times, n.times)
			}
		})
	}
}
