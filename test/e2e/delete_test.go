package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// missingImage is a tag that no registry has.
const missingImage = "mysql:never-made"

// TestDeleteBeforeTheServerStarted is about instances without data: they go without a backup, and leave nothing that
// would be restored.
func TestDeleteBeforeTheServerStarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hostPath bool
		until    func(*testing.T, *server)
	}{
		"AtOnce": {until: func(*testing.T, *server) {}},
		"CompositeExists": {hostPath: true, until: func(t *testing.T, s *server) {
			t.Helper()
			s.bound(t)
		}},
		"ImageIsMissing": {until: func(t *testing.T, s *server) {
			t.Helper()
			s.pods(t, "server", func(p *corev1.Pod) bool { return waits(p, "ErrImagePull", "ImagePullBackOff") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "AtOnce" {
				repeats(t, "CompositeExists and ImageIsMissing are deleted later")
			}
			composition := classComposition
			if c.hostPath {
				composition = hostPathComposition(t, nil)
			}
			s := newServer(t, composition)
			good := s.spec["image"]
			s.spec["image"] = missingImage
			s.create(t)
			c.until(t, s)
			s.delete(t)
			s.noRecord(t)
			s.nothingLeft(t)
			s.spec["image"] = good
			s.startsEmpty(t)
		})
	}
}

// noRecord is left. A claim that was gone before anything held it does not wait for what is found out of its volume.
func (s *server) noRecord(t *testing.T) {
	t.Helper()
	eventually(t, "the end of the record", func(ctx context.Context) error {
		records, err := s.records(ctx)
		if err == nil && len(records) > 0 {
			phase, _, _ := unstructured.NestedString(records[0].Object, "status", "phase")
			err = fmt.Errorf("%s is %s", records[0].GetName(), phase)
		}
		return err
	})
}

// bound waits until the claim has its composite.
func (s *server) bound(t *testing.T) {
	t.Helper()
	eventually(t, "the composite", func(ctx context.Context) error {
		claim := s.claim.DeepCopy()
		if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if name, _, _ := unstructured.NestedString(claim.Object, "spec", "resourceRef", "name"); name == "" {
			return errors.New("there is none yet")
		}
		return nil
	})
}

// TestDeleteDuringTheFirstStart deletes while the server makes its system tables. Half of them are no backup.
func TestDeleteDuringTheFirstStart(t *testing.T) {
	t.Parallel()
	onEach(t, map[string]string{onClass: "HostPath has a server of another account than its agent's, which is harder to stop"}, func(t *testing.T, composition string) {
		t.Helper()
		s := newServer(t, composition)
		s.create(t)
		s.pods(t, "server", beganToInitialize)
		time.Sleep(3 * time.Second) // By then the entrypoint has left root's account, and is busy for longer.
		s.delete(t)
		s.nothingLeft(t)
		s.startsEmpty(t)
	})
}

// startsEmpty creates the claim: the server works and holds nothing.
func (s *server) startsEmpty(t *testing.T) {
	t.Helper()
	s.create(t)
	if got := s.firstAnswer(t, "SHOW TABLES"); got != "" {
		t.Errorf("want no table, got %q", got)
	}
	s.session(t)
}

// TestDeleteOfACrashLoop deletes a server that a bad setting keeps from starting. Its data is as good as ever.
func TestDeleteOfACrashLoop(t *testing.T) {
	t.Parallel()
	repeats(t, "a cell of TestCells deletes a server in a crash loop")
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.set(t, map[string]any{"config": map[string]any{"no_such_setting": "1"}})
	s.pods(t, "server", func(p *corev1.Pod) bool { return waits(p, "CrashLoopBackOff") })
	s.delete(t)
	s.proven(t, 1)
	s.nothingLeft(t)
	s.create(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
}

// TestDeleteDuringARestore ends a life before the backup of the one before is restored: that is the backup of the next.
func TestDeleteDuringARestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		image any
		until func(*corev1.Pod) bool
	}{
		"ItWaits": {image: missingImage, until: func(p *corev1.Pod) bool { return waits(p, "ErrImagePull", "ImagePullBackOff") }},
		"ItRuns":  {until: func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.image != nil {
				repeats(t, "ItRuns ends a restore that has begun")
			}
			s := newServer(t, classComposition)
			s.create(t)
			s.version(t)
			s.script(t, big)
			const all = "SELECT COUNT(*), BIT_XOR(CRC32(data)) FROM big.payload"
			before := s.mustQuery(t, all)
			s.delete(t)
			s.proven(t, 1)
			good := s.spec["image"]
			if c.image != nil {
				s.spec["image"] = c.image
			}
			s.create(t)
			s.pods(t, "restore", c.until)
			s.delete(t)
			s.nothingLeft(t)
			s.spec["image"] = good
			s.create(t)
			if got := s.firstAnswer(t, all); got != before {
				t.Errorf("want every row, %q, got %q", before, got)
			}
		})
	}
}

// TestCreateRightAfterDelete types `kubectl replace --force`, which waits for the name.
func TestCreateRightAfterDelete(t *testing.T) {
	t.Parallel()
	repeats(t, "the cells of the matrix create claims again at once")
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.replace(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
	s.proven(t, 1)
}

// createWhenFree the claim whose name may still be taken.
func (s *server) createWhenFree(t *testing.T) {
	t.Helper()
	eventually(t, "the name", func(ctx context.Context) error {
		again := object(s.claim.GetAPIVersion(), s.claim.GetKind(), s.namespace, s.name)
		again.Object["spec"] = s.spec
		again = again.DeepCopy()
		err := suite.kube.Create(ctx, again)
		switch {
		case err == nil:
			s.claim = again
		case !apierrors.IsAlreadyExists(err):
			t.Fatal(err)
		}
		return err
	})
}

// TestDeleteOfAKilledServer deletes one that hangs, so that nothing but SIGKILL ends it. What it acknowledged is in its
// log: the same version recovers it, and another one is not let near it.
func TestDeleteOfAKilledServer(t *testing.T) {
	t.Parallel()
	repeats(t, "a cell of TestCells kills a server that hangs, and TestRestoreRefuses keeps a newer one from its data")
	s := newServer(t, classComposition)
	before := s.begin(t)
	kill := s.hang(t)
	s.startDelete(t)
	s.pods(t, "server", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }) // Nobody starts it again.
	kill(t)
	s.gone(t)
	s.proven(t, 1)
	s.nothingLeft(t)
	if clean, _, _ := unstructured.NestedBool(s.record(t).Object, "spec", "cleanShutdown"); clean {
		t.Error("want a backup of a server that did not stop cleanly")
	}
	s.refusedByNewer(t)
	s.create(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
}

// refusedByNewer makes the image a newer version than the backup's by writing an older one into the record: the cluster
// has no two versions of MySQL.
func (s *server) refusedByNewer(t *testing.T) {
	t.Helper()
	version, _, _ := unstructured.NestedString(s.record(t).Object, "spec", "version")
	s.patchVersion(t, "9.7.0")
	s.create(t)
	s.says(t, "did not stop cleanly")
	pods, err := s.podsOf(t.Context(), "server")
	if err != nil || len(pods) > 0 {
		t.Errorf("want no server on data that it cannot recover, got %d, %v", len(pods), err)
	}
	s.delete(t)
	s.proven(t, 1)
	s.patchVersion(t, version)
}

// record is the only one.
func (s *server) record(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	records, err := s.records(t.Context())
	if err != nil || len(records) != 1 {
		t.Fatalf("want one backup, got %d, %v", len(records), err)
	}
	return &records[0]
}

func (s *server) patchVersion(t *testing.T, version string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"version":%q}}`, version))
	if err := suite.kube.Patch(t.Context(), s.record(t), patch); err != nil {
		t.Fatal(err)
	}
}

// podsOf a component of the server: server, restore, backup.
func (s *server) podsOf(ctx context.Context, component string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := suite.kube.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{"app.kubernetes.io/component": component})
	return list.Items, err
}

// pods waits for one that is as it should be.
func (s *server) pods(t *testing.T, component string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, "the pod", func(ctx context.Context) error {
		pods, err := s.podsOf(ctx, component)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return is(&p) }); i >= 0 {
			found = &pods[i]
			return nil
		}
		if len(pods) == 0 {
			return errors.New("there is none of " + component)
		}
		return fmt.Errorf("it is %s: %+v", pods[0].Status.Phase, pods[0].Status.ContainerStatuses)
	})
	return found
}

// waits is true if a container of the pod waits for one of the reasons.
func waits(p *corev1.Pod, reasons ...string) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && slices.Contains(reasons, c.State.Waiting.Reason)
	})
}
