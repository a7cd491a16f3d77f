package volumes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// A fakeStore is a store that only records its calls. If fails is set, every call returns that error.
type fakeStore struct {
	mu    sync.Mutex
	did   []string
	fails error
}

func (s *fakeStore) entry(subject string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		s.did = append(s.did, subject)
	}
	return s.fails
}

func (s *fakeStore) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.did)
}

func (s *fakeStore) provision(_ context.Context, name string, size int64) (made, error) {
	return made{path: "volumes/" + name}, s.entry("provision " + name + " " + quantity(size).String())
}

func (s *fakeStore) grow(_ context.Context, name string, size int64) error {
	return s.entry("grow " + name + " " + quantity(size).String())
}

func (s *fakeStore) remove(name string) error { return s.entry("remove " + name) }

func (s *fakeStore) has(string) bool { return true }

// start runs the provisioner of testNode with an in-memory cluster. The test itself acts as all other controllers.
func start(t *testing.T, s store, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	for _, c := range StorageClasses(testName) {
		objects = append(objects, c)
	}
	client := fake.NewClientset(append(objects, node(testNode, corev1.ConditionTrue),
		node("node2", corev1.ConditionTrue))...)
	p := &Provisioner{Client: client, Node: testNode, Name: testName}
	ended := make(chan error)
	go func() { ended <- p.run(t.Context(), s) }()
	t.Cleanup(func() { // The context is already cancelled.
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return client
}

func reasons(t *testing.T, c *fake.Clientset) []string {
	t.Helper()
	l, err := c.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rs := make([]string, 0, len(l.Items))
	for _, e := range l.Items {
		rs = append(rs, e.Reason)
	}
	slices.Sort(rs)
	return slices.Compact(rs)
}

func volume(t *testing.T, c *fake.Clientset) *corev1.PersistentVolume {
	t.Helper()
	pv, err := c.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-u1", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return pv
}

func claim(t *testing.T, c *fake.Clientset) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim, err := c.CoreV1().PersistentVolumeClaims("shop").Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func TestProvision(t *testing.T) {
	cases := map[string]struct {
		reason string
		claim  *corev1.PersistentVolumeClaim
		did    []string
		events []string
	}{
		"Selected": {
			reason: "The scheduler has chosen this node.",
			claim:  testClaim(known, selected(testNode)),
			did:    []string{"provision pvc-u1 1Gi"},
			events: []string{"Provisioning", "ProvisioningSucceeded"},
		},
		"Immediate": {
			reason: "The first ready node must assign the PVC to itself, and then provision the volume.",
			claim:  testClaim(known, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new(ClassImmediate) }),
			did:    []string{"provision pvc-u1 1Gi"},
			events: []string{"Provisioning", "ProvisioningSucceeded"},
		},
		"TooLarge": {
			reason: "An event must contain the reason why the PVC stays pending.",
			claim:  testClaim(known, selected(testNode), asking("2Ti")),
			events: []string{"Provisioning", "ProvisioningFailed"},
		},
		"Block": {
			reason: "Block volumes are not supported.",
			claim: testClaim(known, selected(testNode), func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
			}),
			events: []string{"ProvisioningFailed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &fakeStore{}
			c := start(t, s, tc.claim)
			until(t, "events are missing", func() bool { return cmp.Equal(tc.events, reasons(t, c)) })
			if diff := cmp.Diff(tc.did, s.all()); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
			pv := volume(t, c)
			if tc.did == nil {
				if pv != nil {
					t.Errorf("%s\ngot a volume: %v", tc.reason, pv)
				}
				return
			}
			if !ours(pv, testName, testNode) || pv.Spec.ClaimRef.UID != tc.claim.UID ||
				pv.Spec.StorageClassName != *tc.claim.Spec.StorageClassName {
				t.Errorf("%s\ngot %v", tc.reason, pv)
			}
		})
	}
}

// TestOtherNode checks that a PVC of another node is ignored. A PVC of this node is added, so that the test can wait
// until it is provisioned.
func TestOtherNode(t *testing.T) {
	s := &fakeStore{}
	mine := testClaim(known, selected(testNode), func(c *corev1.PersistentVolumeClaim) { c.Name, c.UID = "mine", "u2" })
	start(t, s, testClaim(known, selected("node2")), mine)
	until(t, "nothing is made", func() bool { return len(s.all()) > 0 })
	if diff := cmp.Diff([]string{"provision pvc-u2 1Gi"}, s.all()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestDelete(t *testing.T) {
	const extra = "example.test/protect"
	cases := map[string]struct {
		reason string
		change func(*corev1.PersistentVolume)
		did    []string
	}{
		"Released": {"The PVC of the volume was deleted.", func(*corev1.PersistentVolume) {}, []string{"remove pvc-u1"}},
		"Protected": {"As for a cloud disk, the data must be deleted even if another finalizer keeps the object.",
			func(pv *corev1.PersistentVolume) { pv.Finalizers = append(pv.Finalizers, extra) }, []string{"remove pvc-u1"}},
		"Retain": {"With the policy Retain, only an administrator deletes the volume.", func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, nil},
		"Bound": {"The volume is still bound to its PVC.",
			func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound }, nil},
		"OtherNode": {"The volume is on another node.",
			func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = onlyOn("node2") },
			nil},
		"HandMade": {"The volume was not created by this provisioner.",
			func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, pv := &fakeStore{}, testVolume()
			pv.Finalizers = []string{"external-provisioner.volume.kubernetes.io/finalizer"}
			pv.Status.Phase = corev1.VolumeReleased
			tc.change(pv)
			// The PVC of this node comes last, so that the test can wait until it is provisioned.
			c := start(t, s, pv, testClaim(known, selected(testNode),
				func(c *corev1.PersistentVolumeClaim) { c.Name, c.UID = "mine", "u2" }))
			want := append([]string{"provision pvc-u2 1Gi"}, tc.did...)
			until(t, tc.reason, func() bool {
				got := s.all()
				slices.Sort(got)
				return cmp.Equal(want, got)
			})
			if tc.did != nil {
				until(t, "the object stays", func() bool { return volume(t, c) == nil })
			}
		})
	}
}

// TestDeleteLater checks a volume whose reclaim policy is changed from Retain after its PVC was deleted.
func TestDeleteLater(t *testing.T) {
	s, pv := &fakeStore{}, testVolume()
	pv.Status.Phase = corev1.VolumeReleased
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	c := start(t, s, pv)
	pv = pv.DeepCopy()
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if _, err := c.CoreV1().PersistentVolumes().Update(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the volume stays", func() bool { return volume(t, c) == nil })
	if diff := cmp.Diff([]string{"remove pvc-u1"}, s.all()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestGrow(t *testing.T) {
	cases := map[string]struct {
		reason string
		claim  *corev1.PersistentVolumeClaim
		store  *fakeStore
		did    []string
		events []string
		size   string
	}{
		"Grows": {"The volume must grow before the status of the PVC changes.", boundClaim(asking("2Gi")), &fakeStore{},
			[]string{"grow pvc-u1 2Gi"}, []string{reasonResizing, reasonResized}, "2Gi"},
		"Fails": {"The condition of the PVC must report the failure.",
			boundClaim(asking("2Gi")), &fakeStore{fails: errors.New("boom")}, nil,
			[]string{reasonResizing, reasonFailed}, "1Gi"},
		"TooLarge": {"A volume that is too large must not be tried.", boundClaim(asking("2Ti")), &fakeStore{}, nil,
			[]string{reasonResizing, reasonFailed}, "1Gi"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := start(t, tc.store, tc.claim, testVolume())
			until(t, "events are missing", func() bool { return cmp.Equal(tc.events, reasons(t, c)) })
			if diff := cmp.Diff(tc.did, tc.store.all()); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
			// The PVC's condition is written after the event.
			failed := slices.Contains(tc.events, reasonFailed)
			until(t, "the claim's conditions are not right", func() bool {
				return len(claim(t, c).Status.Conditions) > 0 == failed
			})
			want := resource.MustParse(tc.size)
			inStatus, inSpec := claim(t, c).Status.Capacity.Storage(), volume(t, c).Spec.Capacity.Storage()
			if inStatus.Cmp(want) != 0 || inSpec.Cmp(want) != 0 {
				t.Errorf("%s\nclaim %s, volume %s, want %s", tc.reason, inStatus, inSpec, tc.size)
			}
		})
	}
}
