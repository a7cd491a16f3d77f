package volumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStorageClasses(t *testing.T) {
	type row struct {
		Default bool
		Reclaim corev1.PersistentVolumeReclaimPolicy
		Grows   bool
		Binding storagev1.VolumeBindingMode
	}
	want := map[string]row{
		"local":           {true, corev1.PersistentVolumeReclaimDelete, true, storagev1.VolumeBindingWaitForFirstConsumer},
		"local-retain":    {false, corev1.PersistentVolumeReclaimRetain, true, storagev1.VolumeBindingWaitForFirstConsumer},
		"local-fixed":     {false, corev1.PersistentVolumeReclaimDelete, false, storagev1.VolumeBindingWaitForFirstConsumer},
		"local-immediate": {false, corev1.PersistentVolumeReclaimDelete, true, storagev1.VolumeBindingImmediate},
	}
	got := map[string]row{}
	for _, c := range StorageClasses(testName) {
		got[c.Name] = row{c.Annotations[annotationDefaultClass] == "true", *c.ReclaimPolicy, *c.AllowVolumeExpansion,
			*c.VolumeBindingMode}
		if c.Provisioner != testName {
			t.Errorf("%s: provisioner %q", c.Name, c.Provisioner)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestVolume(t *testing.T) {
	cases := map[string]struct {
		reason string
		class  string
		plain  string
		want   func(*corev1.PersistentVolume)
	}{
		"Disk": {"The volume is a disk of the node.", ClassLocal, "", func(*corev1.PersistentVolume) {}},
		"Retain": {"The StorageClass sets the reclaim policy.", ClassRetain, "", func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}},
		"Plain": {"An annotation must report that the volume has no size limit.",
			ClassLocal, "no loop devices", func(pv *corev1.PersistentVolume) {
				pv.Annotations = map[string]string{"local.example.test/plain-folder": "no loop devices"}
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pvc-u1"},
				Spec: corev1.PersistentVolumeSpec{
					Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					VolumeMode:                    new(corev1.PersistentVolumeFilesystem),
					PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						Local: &corev1.LocalVolumeSource{Path: "volumes/pvc-u1"}},
					NodeAffinity: &corev1.VolumeNodeAffinity{
						Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
							MatchExpressions: []corev1.NodeSelectorRequirement{
								{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{testNode}}},
						}}}},
				},
			}
			tc.want(want)
			got := blueprint{name: "pvc-u1", path: "volumes/pvc-u1", node: testNode, claim: testClaim(),
				class: testClass(tc.class), plain: tc.plain}.volume()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOurs(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"Ours": {"The provisioner of this node created the volume.", func(*corev1.PersistentVolume) {}, true},
		"OtherNode": {"The provisioner of another node created the volume.", func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = onlyOn("node2")
		}, false},
		"HandMade": {"The volume was not created by a provisioner.",
			func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, false},
		"NoAffinity": {"The volume does not belong to a node.",
			func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }, false},
		"NotLocal": {"The volume is not a local volume.", func(pv *corev1.PersistentVolume) { pv.Spec.Local = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pv := testVolume()
			tc.change(pv)
			if got := ours(pv, testName, testNode); got != tc.want {
				t.Errorf("%s\nwant %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

// testVolume returns a volume that is bound to testClaim.
func testVolume() *corev1.PersistentVolume {
	pv := blueprint{name: "pvc-u1", path: "volumes/pvc-u1", node: testNode, claim: testClaim(),
		class: testClass(ClassLocal)}.volume()
	pv.Annotations = map[string]string{annotationProvisionedBy: testName}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "u1"}
	pv.Spec.StorageClassName = ClassLocal
	pv.Status.Phase = corev1.VolumeBound
	return pv
}
