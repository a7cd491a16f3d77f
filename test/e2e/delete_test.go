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

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// missingImage is an image with a tag that does not exist in any registry.
const missingImage = "mysql:never-made"

// TestDeleteBeforeTheServerStarted checks that an instance without data is deleted without a backup. It must leave
// nothing that a later instance would restore.
func TestDeleteBeforeTheServerStarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hostPath bool
		until    func(*testing.T, *framework.Server)
	}{
		"AtOnce": {until: func(*testing.T, *framework.Server) {}},
		"CompositeExists": {hostPath: true, until: func(t *testing.T, s *framework.Server) {
			t.Helper()
			waitUntilBound(t, s)
		}},
		"ImageIsMissing": {until: func(t *testing.T, s *framework.Server) {
			t.Helper()
			s.Pods().WaitFor(t, "server", func(p *corev1.Pod) bool { return waits(p, "ErrImagePull", "ImagePullBackOff") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "ImageIsMissing" {
				framework.Repeats(t, "ImageIsMissing is deleted later, and TestNext has a life without data")
			}
			composition := framework.ClassComposition
			if c.hostPath {
				composition = framework.HostPathComposition(t, nil)
			}
			s := framework.NewServer(t, composition)
			good := s.Spec["image"]
			s.Spec["image"] = missingImage
			s.Create(t)
			c.until(t, s)
			s.Delete(t)
			leavesNoRecord(t, s)
			leavesNothing(t, s)
			s.Spec["image"] = good
			startsEmpty(t, s)
		})
	}
}

// leavesNoRecord waits until the claim has no BackupRecord. This may take longer than the deletion of the claim,
// because the controller inspects the volume later if the claim had no finalizer yet.
func leavesNoRecord(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the end of the record", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
		if err == nil && len(records) > 0 {
			phase, _, _ := unstructured.NestedString(records[0].Object, "status", "phase")
			err = fmt.Errorf("%s is %s", records[0].GetName(), phase)
		}
		return err
	})
}

// waitUntilBound waits until the claim has a composite resource.
func waitUntilBound(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the composite", func(ctx context.Context) error {
		claim := s.Claim.DeepCopy()
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if name, _, _ := unstructured.NestedString(claim.Object, "spec", "resourceRef", "name"); name == "" {
			return errors.New("there is none yet")
		}
		return nil
	})
}

// TestDeleteDuringTheFirstStart deletes the claim during initialization. A partly initialized data directory must not
// be backed up.
func TestDeleteDuringTheFirstStart(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRealKilledAtEachMoment kills one, and TestDeleteBeforeTheServerStarted deletes earlier")
	framework.OnEach(t, map[string]string{
		framework.OnClass: "HostPath has a server of another account than its agent's, which is harder to stop"}, func(
		t *testing.T, composition string) {
		t.Helper()
		s := framework.NewServer(t, composition)
		s.Create(t)
		s.Pods().WaitFor(t, "server", beganToInitialize)
		time.Sleep(3 * time.Second) // By then, the entrypoint has switched to the user mysql.
		s.Delete(t)
		leavesNothing(t, s)
		startsEmpty(t, s)
	})
}

// startsEmpty creates the claim and checks that the server works and is empty.
func startsEmpty(t *testing.T, s *framework.Server) {
	t.Helper()
	s.Create(t)
	if got := s.Client().FirstAnswer(t, "SHOW TABLES"); got != "" {
		t.Errorf("want no table, got %q", got)
	}
	s.Client().TypeSession(t)
}

// TestDeleteOfACrashLoop deletes a claim whose server cannot start because of an invalid setting. Its data, which is
// intact, must be backed up.
func TestDeleteOfACrashLoop(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "a cell of TestCells deletes a server that has to be killed")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	crashLoopsWith(t, s, map[string]any{"no_such_setting": "1"})
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	leavesNothing(t, s)
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
}

// TestDeleteDuringARestore deletes a claim before its restore is complete. The next instance must restore the same
// backup.
func TestDeleteDuringARestore(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "the model ends lives at each step of a restore")
	for name, c := range map[string]struct {
		image any
		until func(*corev1.Pod) bool
	}{
		"ItWaits": {image: missingImage, until: func(p *corev1.Pod) bool {
			return waits(p, "ErrImagePull", "ImagePullBackOff")
		}},
		// By the time the kubelet reports that the pod is running, the restore may already be complete.
		"ItRuns": {until: func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := framework.NewServer(t, framework.ClassComposition)
			s.Create(t)
			s.Client().SeesVersion(t)
			s.Client().RunScript(t, big)
			const all = "SELECT COUNT(*), BIT_XOR(CRC32(data)) FROM big.payload"
			before := s.Client().MustQuery(t, all)
			s.Delete(t)
			s.Backups().AreVerified(t, 1)
			good := s.Spec["image"]
			if c.image != nil {
				s.Spec["image"] = c.image
			}
			s.Create(t)
			s.Pods().WaitFor(t, "restore", c.until)
			s.Delete(t)
			leavesNothing(t, s)
			s.Spec["image"] = good
			s.Create(t)
			if got := s.Client().FirstAnswer(t, all); got != before {
				t.Errorf("want every row, %q, got %q", before, got)
			}
		})
	}
}

// TestCreateRightAfterDelete runs `kubectl replace --force`, which creates the claim as soon as its name is free.
func TestCreateRightAfterDelete(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "the cells of the matrix create claims again at once")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	replaceClaim(t, s)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
	s.Backups().AreVerified(t, 1)
}

// createWhenFree creates the claim. It retries as long as another object has its name.
func createWhenFree(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the name", func(ctx context.Context) error {
		object := framework.NewObject(s.Claim.GetAPIVersion(), s.Claim.GetKind(), s.Namespace, s.Name)
		object.Object["spec"] = s.Spec
		object = object.DeepCopy()
		err := framework.Suite.Kube.Create(ctx, object)
		switch {
		case err == nil:
			s.Claim = object
		case apierrors.IsInvalid(err):
			t.Fatal(err)
		}
		return err
	})
}

// TestDeleteOfAKilledServer deletes a claim whose server hangs and can only be stopped with SIGKILL. The acknowledged
// rows are in the redo log. The same version of MySQL must recover them, and a different version must be refused.
func TestDeleteOfAKilledServer(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "a cell of TestCells kills a server that hangs, and TestRestoreRefuses keeps a newer one from "+
		"its data")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	kill := hangServer(t, s)
	s.StartDelete(t)
	// Kill the server only when its pod is being deleted. Otherwise the kubelet would restart it.
	s.Pods().WaitFor(t, "server", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	kill(t)
	s.Gone(t)
	s.Backups().AreVerified(t, 1)
	leavesNothing(t, s)
	if clean, _, _ := unstructured.NestedBool(s.Backups().Only(t).Object, "spec", "cleanShutdown"); clean {
		t.Error("want a backup of a server that did not stop cleanly")
	}
	refusedByNewer(t, s)
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
}

// refusedByNewer writes an older version into the BackupRecord, so that the image is newer than the backup. The
// cluster has only one version of MySQL.
func refusedByNewer(t *testing.T, s *framework.Server) {
	t.Helper()
	version, _, _ := unstructured.NestedString(s.Backups().Only(t).Object, "spec", "version")
	patchVersion(t, s, "9.7.0")
	s.Create(t)
	s.Says(t, "did not shut down cleanly")
	pods, err := s.Pods().Of(t.Context(), "server")
	if err != nil || len(pods) > 0 {
		t.Errorf("want no server on data that it cannot recover, got %d, %v", len(pods), err)
	}
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	patchVersion(t, s, version)
}

// patchVersion changes the server version in the BackupRecord.
func patchVersion(t *testing.T, s *framework.Server, version string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"version":%q}}`, version))
	if err := framework.Suite.Kube.Patch(t.Context(), s.Backups().Only(t), patch); err != nil {
		t.Fatal(err)
	}
}

// waits reports whether a container of the pod is waiting for one of the given reasons, such as ImagePullBackOff.
func waits(p *corev1.Pod, reasons ...string) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && slices.Contains(reasons, c.State.Waiting.Reason)
		})
}
