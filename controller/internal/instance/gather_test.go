package instance

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

var (
	key        = Key{Kind: v1.KindMySQL, Namespace: "default", Name: "db"}
	instanceID = key.Instance("uid-1")
	errBoom    = errors.New("boom")
)

// otherName is the name of another instance in the same namespace.
const otherName = "other"

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func xr(name, uid, claim string, dying bool) *unstructured.Unstructured {
	u := newObject(XRKind)
	u.SetName(name)
	u.SetUID(types.UID(uid))
	u.SetLabels(map[string]string{labelClaimNamespace: "default", labelClaimName: "db"})
	u.SetFinalizers([]string{v1.Finalizer})
	if dying {
		u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	}
	u.Object["spec"] = map[string]any{
		"claimRef": map[string]any{"kind": v1.KindMySQL, "namespace": "default", "name": claim}}
	return u
}

func boundClaim(xr string) *unstructured.Unstructured {
	u := newObject(ClaimKind)
	u.SetNamespace("default")
	u.SetName("db")
	u.Object["spec"] = map[string]any{"resourceRef": map[string]any{"name": xr}}
	return u
}

func metaOf(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}
}

func dataPVC(labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("db-pvc", labels),
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
}

func volumeOf(pvcName string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: pvcName}},
	}
}

// unlabelled returns a volume without labels that is reserved for the PVC in the recovery namespace.
func unlabelled(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v.Labels = nil
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: v1.RecoveryNamespace, Name: instanceID.RecoveryName("data")}
	return v
}

// heldVolume returns a data volume with the controller's finalizer and the annotations of its instance.
func heldVolume(uid types.UID, namespace string) *corev1.PersistentVolume {
	v := volumeOf("db-pvc")
	v.Labels, v.Finalizers = key.Instance(uid).Labels(), []string{v1.Finalizer}
	v.Annotations = map[string]string{v1.AnnotationClaimKind: v1.KindMySQL, v1.AnnotationClaimNamespace: namespace,
		v1.AnnotationClaimName: "db", v1.AnnotationNamespaceUID: "ns"}
	return v
}

// protected returns a PVC with the finalizer and the annotations that the function adds.
func protected(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c.Finalizers = []string{v1.Finalizer}
	c.Annotations = map[string]string{v1.AnnotationClaimKind: v1.KindMySQL, v1.AnnotationClaimNamespace: "default",
		v1.AnnotationClaimName: "db"}
	return c
}

// marked adds the annotation with the object's own UID, as on the objects of an existing instance.
func marked[T client.Object](o T) T {
	o.SetUID("this")
	o.GetAnnotations()[v1.AnnotationMarkedUID] = "this"
	return o
}

// copied is a copied object that has the annotations of the original.
func copied[T client.Object](o T) T {
	marked(o).SetUID("another")
	return o
}

func takenOver[T client.Object](o T) T {
	o.GetAnnotations()[v1.AnnotationTakeOver] = string(o.GetUID())
	return o
}

func leftAlone[T client.Object](o T) T {
	o.GetAnnotations()[v1.AnnotationLeaveAlone] = string(o.GetUID())
	return o
}

func released(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v.Finalizers = nil
	return v
}

func onVolume(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.Object["status"] = map[string]any{"volume": "pv"}
	return u
}

func hidden(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetLabels(nil)
	return u
}

func pvcAt(namespace, name string, uid types.UID) *corev1.PersistentVolumeClaim {
	c := dataPVC(key.Instance(uid).Labels())
	c.Namespace, c.Name = namespace, name
	return c
}

func jobAt(namespace, name string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metaOf(name, instanceID.Labels())}
	j.Namespace, j.UID = namespace, types.UID(name)
	return j
}

func mounting(name, pvcName string, owner metav1.Object) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metaOf(name, nil),
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvcName},
		}}}}}
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", UID: owner.GetUID(), Controller: new(true)}}
	}
	return p
}

func record(name, instance string, second int64) *v1.BackupRecord {
	return &v1.BackupRecord{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelInstance: instanceID.Key()},
			CreationTimestamp: metav1.Time{Time: time.Unix(second, 0)}},
		Spec: v1.BackupRecordSpec{
			Instance: v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "default", Name: instance}},
		Status: v1.BackupRecordStatus{Phase: v1.BackupVerified},
	}
}

// A summary contains the parts of a State that tests compare.
type summary struct {
	XR, Claim, DataPVC, OriginalPVC, DataPV, Deployment, Backup string

	Orphan, PredecessorTerminating bool
	Copy, PredecessorCopy          string
	Left                           int
	OrphanedFromClaim              bool
	Pods, Records, MisplacedJobs   []string
}

func summarize(s *State) summary {
	out := summary{Orphan: s.Orphan != nil, PredecessorTerminating: s.PredecessorTerminating,
		OrphanedFromClaim: s.OrphanedFromClaim}
	if s.Orphan != nil && s.Orphan.Copy != nil {
		out.Copy = s.Orphan.Copy.GetName()
	}
	if s.Orphan != nil {
		out.Left = len(s.Orphan.Left)
	}
	if s.PredecessorCopy != nil {
		out.PredecessorCopy = s.PredecessorCopy.GetName()
	}
	if s.OriginalPVC != nil {
		out.OriginalPVC = s.OriginalPVC.Namespace + "/" + s.OriginalPVC.Name
	}
	for _, j := range s.MisplacedJobs {
		out.MisplacedJobs = append(out.MisplacedJobs, j.GetName())
	}
	if s.XR != nil {
		out.XR = s.XR.GetName()
	}
	if s.Claim != nil {
		out.Claim = s.Claim.GetName()
	}
	if s.DataPVC != nil {
		out.DataPVC = s.DataPVC.Name
	}
	if s.DataPV != nil {
		out.DataPV = s.DataPV.Name
	}
	if s.BackupJob != nil {
		out.Backup = s.BackupJob.Name
	}
	for _, p := range s.Pods {
		out.Pods = append(out.Pods, p.Name)
	}
	for _, r := range s.Records {
		out.Records = append(out.Records, r.Name)
	}
	return out
}

// gathered compares the summaries of the gathered instances with the expected ones.
func gathered(t *testing.T, reason string, instances []*State, err error, want []summary) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]summary, 0, len(instances))
	for _, s := range instances {
		got = append(got, summarize(s))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n-want, +got:\n%s", reason, diff)
	}
}

func TestGather(t *testing.T) {
	ours := instanceID.Labels()
	theirs := key.Instance("uid-2").Labels()
	job := &batchv1.Job{ObjectMeta: metaOf(instanceID.Jobs().Backup(), ours)}
	job.UID = "job"
	cases := map[string]struct {
		reason      string
		noNamespace bool
		objects     []client.Object
		want        []summary
	}{
		"Orphan": {reason: "An instance without an XR whose volume still holds data must be treated as an orphan.",
			objects: []client.Object{heldVolume("uid-1", "default"), pvcAt("default", "db-pvc", "uid-1"),
				jobAt("default", instanceID.RecoveryName("backup")), jobAt("default", "backup-db-job")},
			want: []summary{{Orphan: true, OriginalPVC: "default/db-pvc", DataPV: "pv", Backup: instanceID.RecoveryName("backup"),
				MisplacedJobs: []string{"backup-db-job"}}}},
		"OrphanAndNew": {reason: "The new instance must wait for the orphan, but the usual data PVC is its own.",
			objects: []client.Object{heldVolume("uid-0", "default"), xr("new", "uid-1", "db", false), boundClaim("new"),
				dataPVC(ours)},
			want: []summary{{Orphan: true, DataPV: "pv"},
				{XR: "new", Claim: "db", DataPVC: "db-pvc", PredecessorTerminating: true}}},
		"Copy": {reason: "A volume that was restored with its labels is a copy, and the new instance must wait for a user.",
			objects: []client.Object{copied(heldVolume("uid-0", "default")), xr("new", "uid-1", "db", false), boundClaim("new")},
			want: []summary{{Orphan: true, Copy: "pv", DataPV: "pv"},
				{XR: "new", Claim: "db", PredecessorTerminating: true, PredecessorCopy: "pv"}}},
		"CopiedPVC": {reason: "A restored PVC is also a copy, because its volume may be new.",
			objects: []client.Object{copied(protected(pvcAt("default", "db-pvc", "uid-1")))},
			want:    []summary{{Orphan: true, Copy: "db-pvc", OriginalPVC: "default/db-pvc"}}},
		"TakenOver": {reason: "If a user annotates the volume or its PVC for adoption, both must be adopted.",
			objects: []client.Object{takenOver(copied(heldVolume("uid-1", "default"))),
				copied(protected(pvcAt("default", "db-pvc", "uid-1")))},
			want: []summary{{Orphan: true, OriginalPVC: "default/db-pvc", DataPV: "pv"}}},
		"LeftAlone": {reason: "If a user annotates the volume or its PVC to be ignored, both must be ignored.",
			objects: []client.Object{leftAlone(copied(heldVolume("uid-1", "default"))),
				copied(protected(pvcAt("default", "db-pvc", "uid-1")))},
			want: []summary{{Orphan: true, Copy: "pv", Left: 2, OriginalPVC: "default/db-pvc", DataPV: "pv"}}},
		"LeftOriginal": {reason: "The annotation to ignore an object must have no effect if the object is not a copy.",
			objects: []client.Object{leftAlone(marked(heldVolume("uid-1", "default")))},
			want:    []summary{{Orphan: true, DataPV: "pv"}}},
		"Marked": {reason: "An object whose annotation contains its own UID is not a copy.",
			objects: []client.Object{marked(heldVolume("uid-1", "default"))}, want: []summary{{Orphan: true, DataPV: "pv"}}},
		"NoOrphan": {reason: "An XR without labels still exists, so its volume is not an orphan.",
			objects: []client.Object{heldVolume("uid-1", "default"), hidden(xr("x", "uid-1", "db", false))},
			want:    []summary{{}}},
		"NotHeld": {reason: "A volume without the finalizer holds no data, so there is no orphan.",
			objects: []client.Object{released(heldVolume("uid-1", "default"))}, want: []summary{{}}},
		"NotKnown": {reason: "The annotations of the volume name another namespace, so the volume must be ignored.",
			objects: []client.Object{heldVolume("uid-1", "other")}, want: []summary{{}}},
		"NamespaceGone": {reason: "Without its namespace, the PVC and the Job of the deletion are in the recovery namespace.",
			noNamespace: true,
			objects: []client.Object{onVolume(xr("x", "uid-1", "db", true)), heldVolume("uid-1", "default"),
				pvcAt(v1.RecoveryNamespace, instanceID.RecoveryName("data"), "uid-1"), jobAt(v1.RecoveryNamespace, instanceID.RecoveryName("backup"))},
			want: []summary{{XR: "x", DataPVC: instanceID.RecoveryName("data"), DataPV: "pv", Backup: instanceID.RecoveryName("backup")}}},
		"Unlabelled": {reason: "A volume without labels must be found if it is reserved for this instance's recovery PVC.",
			noNamespace: true,
			objects:     []client.Object{onVolume(xr("x", "uid-1", "db", true)), unlabelled(heldVolume("uid-1", "default"))},
			want:        []summary{{XR: "x", DataPV: "pv"}}},
		"Beside": {reason: "If the XR was lost before the namespace, an earlier Job used a PVC with this name there.", noNamespace: true,
			objects: []client.Object{heldVolume("uid-1", "default"), pvcAt("default", instanceID.RecoveryName("data"), "uid-1")},
			want:    []summary{{Orphan: true, OriginalPVC: "default/" + instanceID.RecoveryName("data"), DataPV: "pv"}}},
		"Nothing": {reason: "An event may concern an instance of which no object exists.", want: []summary{{}}},
		"Claim": {reason: "A claim without an XR must still be found.", objects: []client.Object{boundClaim("")},
			want: []summary{{Claim: "db"}}},
		"Lives": {reason: "Two instances have this name: the one that is being deleted must come first.",
			objects: []client.Object{xr("new", "uid-2", "db", false), xr("old", "uid-1", "db", true), boundClaim("new")},
			want:    []summary{{XR: "old"}, {XR: "new", Claim: "db", PredecessorTerminating: true}}},
		"OrphanedFromClaim": {reason: "The claim is bound to another XR, so the first XR has lost its claim and must come first.",
			objects: []client.Object{xr("new", "uid-2", "db", false), xr("old", "uid-1", "db", false), boundClaim("new")},
			want:    []summary{{XR: "old", OrphanedFromClaim: true}, {XR: "new", Claim: "db", PredecessorTerminating: true}}},
		"Bereft": {reason: "An XR without a claim has lost it permanently if its namespace does not exist.", noNamespace: true,
			objects: []client.Object{xr("x", "uid-1", "db", false)}, want: []summary{{XR: "x", OrphanedFromClaim: true}}},
		"Unbound": {reason: "An XR must not be treated as orphaned if its claim is not bound to any XR.",
			objects: []client.Object{xr("x", "uid-1", "db", false), boundClaim("")}, want: []summary{{XR: "x"}}},
		"Liar": {reason: "The labels of the XR match, but its spec names another claim.",
			objects: []client.Object{xr("x", "uid-1", "another", false)}, want: []summary{{}}},
		"Volumes": {reason: "The PVC and the volume are bound to each other, so both must be found.",
			objects: []client.Object{xr("x", "uid-1", "db", false), dataPVC(ours), volumeOf("db-pvc")},
			want:    []summary{{XR: "x", DataPVC: "db-pvc", DataPV: "pv"}}},
		"OtherLife": {reason: "A PVC of another instance must be ignored.",
			objects: []client.Object{xr("x", "uid-1", "db", false), dataPVC(theirs)}, want: []summary{{XR: "x"}}},
		"OtherVolume": {reason: "A volume that is reserved for another PVC must be ignored.",
			objects: []client.Object{xr("x", "uid-1", "db", false), dataPVC(ours), volumeOf("other")},
			want:    []summary{{XR: "x", DataPVC: "db-pvc"}}},
		"Pods": {reason: "All pods that mount the data PVC must be found, except pods of the controller's own Jobs.",
			objects: []client.Object{xr("x", "uid-1", "db", true), job, mounting("agent", "db-pvc", job),
				mounting("server", "db-pvc", nil), mounting("other", "else", nil)},
			want: []summary{{XR: "x", Backup: instanceID.Jobs().Backup(), Pods: []string{"server"}}}},
		"Records": {reason: "BackupRecords must be selected by spec, not by label, and be sorted newest first.",
			objects: []client.Object{xr("x", "uid-1", "db", false), record("a", "db", 1), record("c", "db", 3),
				record("b", "db", 3), record("d", "another", 4)},
			want: []summary{{XR: "x", Records: []string{"c", "b", "a"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if !tc.noNamespace {
				tc.objects = append(tc.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}})
			}
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(tc.objects...).Build(),
				Clock: time.Now}
			instances, err := g.Gather(context.Background(), key)
			gathered(t, tc.reason, instances, err, tc.want)
		})
	}
}

// withoutXRs returns a cluster with a claim in which the kind of the XRs is not served.
func withoutXRs(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}})
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind() == XRKind {
				return kerrors.NewNotFound(schema.GroupResource{}, k.Name)
			}
			return c.Get(ctx, k, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			// On lists of complete objects, the fake client sets the kind of the items.
			if strings.TrimSuffix(l.GetObjectKind().GroupVersionKind().Kind, "List") == XRKind.Kind {
				return kerrors.NewNotFound(schema.GroupResource{}, "")
			}
			return c.List(ctx, l, opts...)
		},
	}).Build()
}

func crdOfXRs() *unstructured.Unstructured {
	crd := newObject(crdKind)
	crd.SetName("xmysqls.otus.homework")
	return crd
}

// TestGatherWithoutXRs checks a cluster without the kind of the XRs. Crossplane deletes that kind after the last XR,
// and the kind of the claims after the last claim.
func TestGatherWithoutXRs(t *testing.T) {
	dying := func() *unstructured.Unstructured {
		c := boundClaim("x")
		c.SetFinalizers([]string{v1.Finalizer})
		c.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		return c
	}
	for name, tc := range map[string]struct {
		reason  string
		objects []client.Object
		want    []summary // It is nil if the state cannot be determined.
		served  bool      // The error shows that the kind may be installed.
	}{
		"Dying": {reason: "If the kind of XRs is not installed, a claim that is being deleted has no XR.",
			objects: []client.Object{dying()},
			want:    []summary{{Claim: "db"}}},
		"Orphan": {reason: "An orphaned volume must be found even if the kind of XRs is not installed.",
			objects: []client.Object{dying(), heldVolume("uid-1", "default")}, want: []summary{{Orphan: true, DataPV: "pv"}}},
		"Doubt": {reason: "The CRD of the XRs exists, so there may be XRs although the API server does not serve them.",
			objects: []client.Object{dying(), crdOfXRs()},
			served:  true},
		"Lives": {reason: "A claim that is not being deleted must wait until the kind of XRs is installed again.",
			objects: []client.Object{boundClaim("x")}},
		"Server": {reason: "Without the kind of XRs, a server may still run, so its volume must not become an orphan.",
			objects: []client.Object{heldVolume("uid-1", "default")}},
	} {
		t.Run(name, func(t *testing.T) {
			instances, err := (&Gatherer{Reader: withoutXRs(t, tc.objects...), Clock: time.Now}).Gather(t.Context(), key)
			if tc.want == nil {
				if err == nil || IsNotInstalled(err) == tc.served {
					t.Errorf("%s Got %d lives, %v", tc.reason, len(instances), err)
				}
				return
			}
			gathered(t, tc.reason, instances, err, tc.want)
		})
	}
}

// TestGatherInstalled checks that a kind is treated as not installed only if this is certain.
func TestGatherInstalled(t *testing.T) {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: instanceID.BackupPVCName(), Labels: instanceID.Labels()}}
	gone := &Gatherer{Reader: withoutXRs(t, pvc), Clock: time.Now}
	instances, err := gone.GatherInstalled(t.Context(), key)
	gathered(t, "Uninstalled: nobody lives.", instances, err, []summary{{}})
	if instances[0].BackupPVC == nil {
		t.Error("want the backups to be there all the same")
	}
	if got, err := restoring(t.Context(), gone.Reader, "default", nil); len(got) > 0 || err != nil {
		t.Errorf("want nobody to restore, got %v, %v", got, err)
	}
	unserved := &Gatherer{Reader: withoutXRs(t, pvc, crdOfXRs()), Clock: time.Now}
	if instances, err := unserved.GatherInstalled(t.Context(), key); err == nil || IsNotInstalled(err) {
		t.Errorf("want a kind that is installed to be waited for, got %d lives, %v", len(instances), err)
	}
	if got, err := restoring(t.Context(), unserved.Reader, "default", nil); err == nil {
		t.Errorf("want who restores not to be known, got %v", got)
	}
}

// TestGatherKinds checks that a Database and a MySQL with the same name do not affect each other.
func TestGatherKinds(t *testing.T) {
	databases, _ := kindOf(v1.KindDatabase)
	claim := newObject(databases.Object)
	claim.SetNamespace("default")
	claim.SetName("db")
	claim.Object["spec"] = map[string]any{"type": "mysql", "storageSize": "2Gi",
		"resourceRef": map[string]any{"name": "y"}}
	database := newObject(databases.XR)
	database.SetName("y")
	database.SetUID("uid-y")
	database.SetLabels(map[string]string{labelClaimNamespace: "default", labelClaimName: "db"})
	database.Object["spec"] = map[string]any{"type": "mysql", "storageSize": "2Gi",
		"claimRef": map[string]any{"kind": v1.KindDatabase, "namespace": "default", "name": "db"}}
	pvc := dataPVC(Key{Kind: v1.KindDatabase, Namespace: "default", Name: "db"}.Instance("uid-y").Labels())
	pvc.Name = "db.database-pvc"
	objects := []client.Object{boundClaim("x"), xr("x", "uid-1", "db", false), dataPVC(instanceID.Labels()), claim, database,
		pvc, record("a", "db", 1)}
	g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build(), Clock: time.Now}
	for kind, want := range map[string]summary{
		v1.KindMySQL:    {XR: "x", Claim: "db", DataPVC: "db-pvc", Records: []string{"a"}},
		v1.KindDatabase: {XR: "y", Claim: "db", DataPVC: "db.database-pvc"},
	} {
		instances, err := g.Gather(context.Background(), Key{Kind: kind, Namespace: "default", Name: "db"})
		if err != nil || len(instances) != 1 {
			t.Fatalf("%d lives of the %s, %v", len(instances), kind, err)
		}
		if diff := cmp.Diff(want, summarize(instances[0])); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", kind, diff)
		}
		size, _ := instances[0].XR.Spec.Size()
		password := instances[0].XR.Spec.Password
		if kind == v1.KindDatabase && (size != "2Gi" || password != nil || instances[0].XR.Type != v1.TypeMySQL) {
			t.Errorf("the Database is read as %+v", instances[0].XR.Spec)
		}
	}
	if _, err := g.Gather(context.Background(), Key{Kind: "Postgres", Namespace: "default", Name: "db"}); err == nil {
		t.Error("want an error for a kind that nobody knows")
	}
}

// TestStale checks that the status of a previous XR with the same name is ignored. The status of a claim is copied
// from its XR.
func TestStale(t *testing.T) {
	owned := func(u *unstructured.Unstructured, uid string) *unstructured.Unstructured {
		u.Object["status"] = map[string]any{"internal": map[string]any{"started": true, "uid": uid},
			"conditions": []any{map[string]any{"type": "Serving", "status": "True"}}}
		return u
	}
	for name, tc := range map[string]struct {
		from  *unstructured.Unstructured
		stale bool
	}{
		"Own":     {from: owned(xr("x", "uid-1", "db", false), "uid-1")},
		"Earlier": {from: owned(xr("x", "uid-1", "db", false), "uid-0"), stale: true},
		"Unsaid":  {from: owned(xr("x", "uid-1", "db", false), "")},
		"Claim":   {from: owned(boundClaim("x"), "uid-1")},
	} {
		c := Decode(tc.from)
		if len(c.Unreadable) > 0 || c.Stale != tc.stale || c.Status.Started == tc.stale || c.IsServing() == tc.stale {
			t.Errorf("%s: want stale %t, got %+v", name, tc.stale, c)
		}
	}
}

// TestBeginning checks IsBeginning, which returns true until the server accepts clients. For a suspended instance, it
// returns true only during a restore.
func TestBeginning(t *testing.T) {
	restoring := &v1.RestoreStatus{Phase: v1.RestoreRunning}
	cases := map[string]struct {
		spec      bool
		reason    string
		restore   *v1.RestoreStatus
		suspended bool
		beginning bool
	}{
		"Starts":           {reason: v1.ReasonStarting, beginning: true},
		"Suspended":        {spec: true, reason: v1.ReasonSuspended, suspended: true},
		"SuspendedRestore": {spec: true, reason: v1.ReasonSuspended, restore: restoring, suspended: true, beginning: true},
		"NotYet":           {spec: true, reason: v1.ReasonStarting, beginning: true},
		"NoMore":           {reason: v1.ReasonSuspended, beginning: true}, // A refused spec keeps the condition.
	}
	for name, tc := range cases {
		u := xr("x", "uid-1", "db", false)
		u.Object["status"] = map[string]any{"internal": map[string]any{"started": true, "uid": "uid-1"},
			"conditions": []any{map[string]any{"type": "Serving", "status": "False", "reason": tc.reason}}}
		c := Decode(u)
		c.Spec.Suspend, c.Status.Restore = tc.spec, tc.restore
		if c.IsSuspended() != tc.suspended || c.IsBeginning() != tc.beginning {
			t.Errorf("%s: suspended: %t, beginning: %t", name, c.IsSuspended(), c.IsBeginning())
		}
	}
}

// TestKeys checks that the controller of each kind reconciles only its own instances.
func TestKeys(t *testing.T) {
	pvc := &corev1.PersistentVolumeClaim{}
	pvc.Annotations = map[string]string{v1.AnnotationClaimKind: v1.KindDatabase, v1.AnnotationClaimNamespace: "default",
		v1.AnnotationClaimName: "db"}
	r := record("a", "db", 1)
	for _, k := range Kinds() {
		want := []Key{{Kind: k.InstanceKind(), Namespace: "default", Name: "db"}}
		composite := client.Object(xr("x", "uid-1", "db", false))
		if !k.HasClaims() { // A user has created the XR.
			composite = boundClaim("x")
		}
		if diff := cmp.Diff(want, k.OfXR(composite)); diff != "" {
			t.Errorf("OfXR: -want, +got:\n%s", diff)
		}
		if diff := cmp.Diff(want, k.OfObject(boundClaim("x"))); diff != "" {
			t.Errorf("OfClaim: -want, +got:\n%s", diff)
		}
		if got := k.OfAnnotated(pvc); (len(got) == 1) != (k.InstanceKind() == v1.KindDatabase) {
			t.Errorf("%s: OfAnnotated a Database's volume: %v", k.InstanceKind(), got)
		}
		for in, want := range map[string]bool{"": true, "default": true, v1.RecoveryNamespace: true, "theirs": false} {
			lies := pvc.DeepCopy()
			if lies.Namespace = in; k.InstanceKind() == v1.KindDatabase && (len(k.OfAnnotated(lies)) == 1) != want {
				t.Errorf("OfAnnotated what lies in %q: %v", in, k.OfAnnotated(lies))
			}
		}
		if got := k.OfRecord(r); (len(got) == 1) != (k.InstanceKind() == v1.KindMySQL) {
			t.Errorf("%s: OfRecord of a MySQL: %v", k.InstanceKind(), got)
		}
	}
}

// TestDoubt checks that a failed read results in an error. It must never be treated as a missing object.
func TestDoubt(t *testing.T) {
	objects := []client.Object{xr("x", "uid-1", "db", true), boundClaim("x"), dataPVC(instanceID.Labels()), volumeOf("db-pvc"),
		record("a", "db", 1)}
	for reads := range 15 {
		left := reads
		fails := func() error {
			if left--; left < 0 {
				return errBoom
			}
			return nil
		}
		c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
				opts ...client.GetOption) error {
				if err := fails(); err != nil {
					return err
				}
				return c.Get(ctx, k, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if err := fails(); err != nil {
					return err
				}
				return c.List(ctx, l, opts...)
			},
		}).Build()
		g := &Gatherer{Reader: c, Clock: time.Now}
		if _, err := g.Gather(context.Background(), key); !errors.Is(err, errBoom) {
			t.Errorf("read %d failed, and Gather says %v", reads, err)
		}
	}
}

// TestSecretsOfAClosedNamespace checks that a deletion continues if the controller may not read the Secrets of the
// namespace, for example because the namespace is being deleted.
func TestSecretsOfAClosedNamespace(t *testing.T) {
	xr := xr("x", "uid-1", "db", true)
	secret := &corev1.Secret{ObjectMeta: metaOf(key.Instance("uid-1").ConnectionSecretName(), key.Instance("uid-1").Labels())}
	for _, closed := range []bool{false, true} {
		c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(xr, secret,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
				opts ...client.GetOption) error {
				if closed && o.GetObjectKind().GroupVersionKind().Kind == "Secret" {
					return kerrors.NewForbidden(corev1.Resource("secrets"), k.Name, nil)
				}
				return c.Get(ctx, k, o, opts...)
			},
		}).Build()
		instances, err := (&Gatherer{Reader: c, Clock: time.Now}).Gather(t.Context(), key)
		if err != nil || len(instances) != 1 || len(instances[0].Leftovers) == 1 == closed {
			t.Errorf("closed: %t, %d lives, %v", closed, len(instances), err)
		}
	}
}

// TestCertificatesLeft checks that the certificates of an instance are deleted with its other objects, even without
// an owner reference. Certificates of another instance are kept.
func TestCertificatesLeft(t *testing.T) {
	own, other := key.Instance("uid-1"), key.Instance("uid-2")
	secret := func(namespace, name string, instance v1.Instance) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name),
			Labels: instance.Labels()}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(
		xr("x", "uid-1", "db", true), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}},
		secret("default", own.TLSSecretName(), own), secret("system", own.AuthorityName(1), own),
		secret("system", own.AuthorityName(2), other),
	).Build()
	instances, err := (&Gatherer{Reader: c, Clock: time.Now, Settings: Settings{Namespace: "system"}}).Gather(t.Context(), key)
	if err != nil || len(instances) != 1 {
		t.Fatalf("%d lives, %v", len(instances), err)
	}
	got := make([]string, 0, len(instances[0].Leftovers))
	for _, o := range instances[0].Leftovers {
		got = append(got, o.GetNamespace()+"/"+o.GetName())
	}
	if diff := cmp.Diff([]string{"default/" + own.TLSSecretName(), "system/" + own.AuthorityName(1)}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestMeanwhile checks that objects are not treated as deleted if they are created between two reads.
func TestMeanwhile(t *testing.T) {
	naming := func() *corev1.PersistentVolume {
		v := volumeOf("db-pvc")
		v.Spec.ClaimRef.UID = "bound"
		return v
	}
	bound := dataPVC(instanceID.Labels())
	bound.UID = "bound"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
	cases := map[string]struct {
		reason              string
		objects, gone, come []client.Object
		want                summary
		stale               bool
	}{
		"Bound": {reason: "The PVC was created and bound after the first read, so it must be read again.",
			objects: []client.Object{onVolume(xr("x", "uid-1", "db", false))}, come: []client.Object{bound, naming()},
			want: summary{XR: "x", DataPVC: "db-pvc", DataPV: "pv"}},
		"Unbound": {reason: "The PVC that the volume names does not exist in both reads.",
			objects: []client.Object{onVolume(xr("x", "uid-1", "db", false))}, come: []client.Object{naming()},
			want: summary{XR: "x", DataPV: "pv"}, stale: true},
		"Named": {reason: "The claim was created again and names a new XR, which must be found.",
			objects: []client.Object{boundClaim("w")}, gone: []client.Object{boundClaim("w")},
			come: []client.Object{xr("x", "uid-1", "db", false), boundClaim("x")}, want: summary{XR: "x", Claim: "db"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// The objects change after the first read of the data PVC. If the claim of the instance is deleted, they
			// change before the XRs are listed.
			turned := false
			turn := func(ctx context.Context, c client.Client) {
				for _, o := range tc.gone {
					if err := c.Delete(ctx, o); err != nil {
						t.Error(err)
					}
				}
				for _, o := range tc.come {
					if err := c.Create(ctx, o); err != nil {
						t.Error(err)
					}
				}
				turned = true
			}
			c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(tc.objects, namespace)...).
				WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
						opts ...client.GetOption) error {
						err := c.Get(ctx, k, o, opts...)
						if _, ok := o.(*corev1.PersistentVolumeClaim); ok && !turned && tc.gone == nil {
							turn(ctx, c)
						}
						return err
					},
					List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
						if _, ok := l.(*unstructured.UnstructuredList); ok && !turned && tc.gone != nil {
							turn(ctx, c)
						}
						return c.List(ctx, l, opts...)
					},
				}).Build()
			g := &Gatherer{Reader: c, Clock: time.Now}
			instances, err := g.Gather(context.Background(), key)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, summarize(instances[0])); diff != "" || instances[0].IsDataPVReservedElsewhere() != tc.stale {
				t.Errorf("%s Stale: %t\n-want, +got:\n%s", tc.reason, instances[0].IsDataPVReservedElsewhere(), diff)
			}
		})
	}
}

// logs is the log of every container.
type logs string

func (l logs) OfEnded(ctx context.Context, namespace, pod, container string, _ bool) (io.ReadCloser, error) {
	return l.Tail(ctx, namespace, pod, container)
}

func (l logs) Tail(context.Context, string, string, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(l))), nil
}

func TestListen(t *testing.T) {
	pod := func(s corev1.ContainerState) *Job {
		return &Job{Job: &batchv1.Job{},
			Pods: []corev1.Pod{{ObjectMeta: metaOf("p", nil),
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: s}}}}}}
	}
	cases := map[string]struct {
		reason string
		job    *Job
		want   func(*Job) bool
	}{
		"Report": {reason: "The termination message of the container is the report of the Job.",
			job: pod(corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Message: `{"command":"backup","ok":true}`}}),
			want: func(j *Job) bool { return j.Report != nil && j.Report.OK }},
		"NoReport": {reason: "The output of a crash must not be read as a report.",
			job:  pod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "panic: …"}}),
			want: func(j *Job) bool { return j.Report == nil }},
		"Empty": {reason: "An empty JSON object must not be read as a report.",
			job:  pod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "{}"}}),
			want: func(j *Job) bool { return j.Report == nil }},
		"Waiting": {reason: "The failure must contain the kubelet's reason and message.",
			job: pod(corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}),
			want: func(j *Job) bool { return j.PodFailure == "pod p: ImagePullBackOff: no such image" }},
		"Foreign": {reason: "Another program may have written the report, so the text must be made printable.",
			job: pod(corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{
					Message: `{"command":"bootcheck","error":"\u001b[2Jbad\u202eworse","version":"8\u0000"}`}}),
			want: func(j *Job) bool { return j.Report.Error == "[2Jbad worse" && j.Report.Version == "8" }},
		"Registry": {reason: "The kubelet's message may contain text from a registry, so it must be printable and short.",
			job: pod(corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull",
					Message: "no\x1b[2J\nimage\xff" + strings.Repeat("x", 4096)}}),
			want: func(j *Job) bool {
				return strings.HasPrefix(j.PodFailure, "pod p: ErrImagePull: no [2J image xxx") &&
					len(j.PodFailure) <= maxPodFailure+len("pod p: ")
			}},
		"Progress": {reason: "The last progress line in the log must be used.",
			job:  pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			want: func(j *Job) bool { return j.Progress != nil && j.Progress.Percent == 42 }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := podReader{
				logs: logs("copy: 7% (7 of 100 MiB, 9 MiB/s)\ncopy: 42% (42 of 100 MiB, 9 MiB/s)\nother\n"),
			}
			if readReports(context.Background(), l, &Basis{}, nil, tc.job); !tc.want(tc.job) {
				t.Error(tc.reason)
			}
		})
	}
}

// TestGrownIdentity checks that backups and the backup volume follow the size to which a volume has grown. A backup of
// the volume would otherwise be restored into a smaller one.
func TestGrownIdentity(t *testing.T) {
	for grown, want := range map[string]string{"": "2Gi", "1Gi": "2Gi", "3Gi": "3Gi", "1e999999": "2Gi"} {
		xr := &Composite{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}}
		xr.Spec.StorageSize = new("2Gi")
		xr.Status.StorageGrowth = &v1.StorageGrowthStatus{Size: grown}
		s := NewState(Subject{XR: xr})
		if got := s.Identity().Size; got != want {
			t.Errorf("grown to %q: want %s, got %s", grown, want, got)
		}
	}
}
