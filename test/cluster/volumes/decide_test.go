package volumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	testName = "local.example.test"
	testNode = "node1"
)

func testClass(name string) *storagev1.StorageClass {
	for _, c := range StorageClasses(testName) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func testClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(ClassLocal),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
	}
	asking("1Gi")(c)
	for _, f := range change {
		f(c)
	}
	return c
}

func asking(size string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
}

func selected(node string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Annotations[annotationSelectedNode] = node }
}

// known sets the annotation with which kube-controller-manager assigns a PVC to this provisioner.
func known(c *corev1.PersistentVolumeClaim) { c.Annotations[annotationProvisioner] = testName }

func node(name string, s corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}},
	}
}

func TestDecide(t *testing.T) {
	up, down := corev1.ConditionTrue, corev1.ConditionUnknown
	cases := map[string]struct {
		reason string
		claim  *corev1.PersistentVolumeClaim
		class  *storagev1.StorageClass
		nodes  []*corev1.Node
		want   verdict
	}{
		"SelectedHere": {"The scheduler has chosen this node.", testClaim(selected(testNode)), testClass(ClassLocal), nil,
			provision},
		"SelectedThere": {"The scheduler has chosen another node.", testClaim(selected("node2")), testClass(ClassLocal), nil,
			leave},
		"NoConsumerYet": {"The PVC waits for its first pod.", testClaim(), testClass(ClassLocal),
			[]*corev1.Node{node(testNode, up)}, leave},
		"AlreadyBound": {"The PVC already contains the name of its volume.",
			testClaim(selected(testNode), func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" }),
			testClass(ClassLocal), nil, leave},
		"NoClass": {"The StorageClass may be created later.", testClaim(selected(testNode)), nil, nil, leave},
		"OtherClass": {"The StorageClass belongs to another provisioner.",
			testClaim(selected(testNode)), class("x", "other.test"), nil,
			leave},
		"ImmediateSoon": {"The PVC has not been assigned to this provisioner yet.", testClaim(), testClass(ClassImmediate),
			[]*corev1.Node{node(testNode, up)}, leave},
		"ImmediateFirst": {"The ready node whose name sorts first must assign the PVC to itself.",
			testClaim(known), testClass(ClassImmediate),
			[]*corev1.Node{node("node2", up), node(testNode, up)}, take},
		"ImmediateLater": {"A node whose name sorts before this one is ready.", testClaim(known), testClass(ClassImmediate),
			[]*corev1.Node{node(testNode, up), node("node0", up)}, leave},
		"ImmediateDown": {"The node whose name sorts before this one is not ready.",
			testClaim(known), testClass(ClassImmediate),
			[]*corev1.Node{node(testNode, up), node("node0", down)}, take},
		"ImmediateNone": {"No node is ready.", testClaim(known), testClass(ClassImmediate),
			[]*corev1.Node{node(testNode, down)}, leave},
		"ImmediateTaken": {"This node has already assigned the PVC to itself.",
			testClaim(selected(testNode)), testClass(ClassImmediate),
			[]*corev1.Node{node("node0", up)}, provision},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := request{claim: tc.claim, class: tc.class, nodes: tc.nodes}.decide(testName, testNode)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	modes := func(ms ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = ms }
	}
	cases := map[string]struct {
		reason string
		claim  *corev1.PersistentVolumeClaim
		want   string
	}{
		"Fine":    {"The PVC has the usual fields.", testClaim(), ""},
		"OnePod":  {"ReadWriteOncePod is possible on a disk of one node.", testClaim(modes(corev1.ReadWriteOncePod)), ""},
		"Largest": {"The maximum size is allowed, even if the disk of the machine is smaller.", testClaim(asking("1Ti")), ""},
		"TooLarge": {"The unit of the size is probably a typo.", testClaim(asking("20Pi")),
			"a volume of 20Pi is larger than 1Ti, the largest there is"},
		"ManyNodes": {"A disk of one node cannot be used by several nodes.", testClaim(modes(corev1.ReadWriteMany)),
			"access mode ReadWriteMany is not supported: a volume is a disk of one node"},
		"Selector": {"A selector is not supported, as in the external-provisioner.",
			testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }),
			"claim Selector is not supported"},
		"DataSource": {"An empty volume must not be treated as a restored one.",
			testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSourceRef = &corev1.TypedObjectReference{} }),
			"a volume cannot be made from a data source: there are no snapshots and no clones"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := refusal(tc.claim); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRequested(t *testing.T) {
	for size, want := range map[string]int64{
		"1":             smallest,
		"64Mi":          64 * mebibyte,
		"67108865":      65 * mebibyte,
		"1Gi":           1024 * mebibyte,
		"1G":            954 * mebibyte,
		"1Ti":           largest,
		"1099511627777": largest + 1,
	} {
		if got := requested(testClaim(asking(size))); got != want {
			t.Errorf("%s: got %d, want %d", size, got, want)
		}
	}
}
