package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// recoveryNamespace is the recovery namespace, in which data is backed up if its own namespace is deleted.
const recoveryNamespace = "crossplane-mysql-recovery"

// TestDeletedPVC deletes the data PVC of a running instance. The PVC must be created again and bound to the same
// volume.
func TestDeletedPVC(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "the model deletes it at each step")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	uid := deleteDataPVC(t, s)
	dataPVCReturns(t, s, uid)
	s.Client().SeesRows(t, before)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
}

// deleteDataPVC deletes the data PVC and returns its UID.
func deleteDataPVC(t *testing.T, s *framework.Server) types.UID {
	t.Helper()
	claim := framework.NewObject("v1", "PersistentVolumeClaim", s.Namespace, s.DataPVC())
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if err := framework.Suite.Kube.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return claim.GetUID()
}

// dataPVCReturns waits until a data PVC with a different UID than before exists.
func dataPVCReturns(t *testing.T, s *framework.Server, before types.UID) {
	t.Helper()
	framework.Eventually(t, "the claim's return", func(ctx context.Context) error {
		claim := framework.NewObject("v1", "PersistentVolumeClaim", s.Namespace, s.DataPVC())
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.GetUID() == before {
			return errors.New("it is the one that was deleted")
		}
		return nil
	})
}

// TestTakenFinalizers removes the finalizers of the claim and the composite resource, so that all composed objects
// are deleted. The data must be kept, and the next claim of the same name must restore it.
func TestTakenFinalizers(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "a cell of TestCells takes them off")
	framework.OnBoth(t, takenFinalizers)
}

func takenFinalizers(t *testing.T, composition string) {
	t.Helper()
	s := framework.NewServer(t, composition)
	before := s.Begin(t)
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.StartDelete(t)
	takeFinalizers(t, xr, s.Claim)
	s.ClaimGone(t)
	s.Create(t)
	isRestored(t, s) // Until then, the server of the previous instance may still respond.
	s.Client().SeesRows(t, before)
	s.Backups().AreVerified(t, 1)
	leavesNothingRescued(t, s)
}

// beingDeleted waits until the object is being deleted or no longer exists.
func beingDeleted(t *testing.T, o client.Object) {
	t.Helper()
	framework.Eventually(t, "the deletion of "+o.GetName(), func(ctx context.Context) error {
		err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil && o.GetDeletionTimestamp() == nil {
			return errors.New("nobody deletes it")
		}
		return client.IgnoreNotFound(err)
	})
}

// takeFinalizers removes the finalizers of objects that still exist.
func takeFinalizers(t *testing.T, objects ...client.Object) {
	t.Helper()
	none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, o := range objects {
		if err := client.IgnoreNotFound(framework.Suite.Kube.Patch(t.Context(), o, none)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSupersededComposite removes the finalizers of a claim before Crossplane has deleted its composite resource, so
// that Crossplane never deletes it. The next claim of the same name must still restore the data.
func TestSupersededComposite(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestNext deletes an XR that no claim will have, and a cell of TestCells has what comes then")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	detachClaim(t, s)
	s.Create(t)
	isRestored(t, s)
	s.Client().SeesRows(t, before)
	s.Backups().AreVerified(t, 1)
}

// detachClaim deletes the claim, but not its composite resource.
func detachClaim(t *testing.T, s *framework.Server) {
	t.Helper()
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Annotate(t, "crossplane.io/paused", "true")
	framework.Eventually(t, "the pause", func(ctx context.Context) error { return paused(ctx, s.Claim.DeepCopy()) })
	s.StartDelete(t)
	takeFinalizers(t, s.Claim)
	s.ClaimGone(t)
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(xr), xr); err != nil ||
		xr.GetDeletionTimestamp() != nil {
		t.Fatalf("want an XR that nobody deletes: %v, %v", xr.GetDeletionTimestamp(), err)
	}
}

// TestDeletedNamespaceOfComposite checks that a namespace can be deleted although a composite resource without a
// claim belongs to it.
func TestDeletedNamespaceOfComposite(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestNext deletes an XR that no claim will have, and TestNamespaceComesBack deletes a namespace")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	detachClaim(t, s)
	loseNamespace(t, s, 1)
}

// TestDeletedNamespace deletes the namespace. Because no pod can start in it after that, the data must be backed up
// in the recovery namespace.
func TestDeletedNamespace(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestNamespaceComesBack deletes one")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	loseNamespace(t, s, 1)
}

// TestNamespaceDeletedInRecovery deletes the namespace while a backup of data without a composite resource is running
// in it. The objects of that backup must not block the deletion.
func TestNamespaceDeletedInRecovery(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestNamespaceComesBack deletes one, and the model does in a rescue")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.StartDelete(t)
	beingDeleted(t, xr)
	takeFinalizers(t, xr, s.Claim)
	framework.Eventually(t, "the claim of the rescue", func(ctx context.Context) error {
		claims := &corev1.PersistentVolumeClaimList{}
		if err := framework.Suite.Kube.List(ctx, claims, client.InNamespace(s.Namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
			return strings.HasPrefix(c.Name, "data-"+s.Namespace)
		}) {
			return errors.New("it is not there")
		}
		return nil
	})
	loseNamespace(t, s, 1)
}

// loseNamespace deletes the server's namespace, and waits until only the given number of backups is left.
func loseNamespace(t *testing.T, s *framework.Server, backups int) {
	t.Helper()
	deleteNamespace(t, s)
	framework.Eventually(t, "the proof", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
		if err != nil {
			return err
		}
		if len(records) != backups {
			return fmt.Errorf("there are %d backups", len(records))
		}
		for i := range records {
			if err := framework.IsVerified(&records[i]); err != nil {
				return err
			}
		}
		return nil
	})
	namespaceEnds(t, s)
}

func deleteNamespace(t *testing.T, s *framework.Server) {
	t.Helper()
	if err := framework.Suite.Kube.Delete(t.Context(),
		framework.NewObject("v1", "Namespace", "", s.Namespace)); err != nil {
		t.Fatal(err)
	}
}

// namespaceEnds waits until the namespace no longer exists, and the recovery namespace contains none of its objects.
func namespaceEnds(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the namespace's end", func(ctx context.Context) error {
		return framework.IsGone(ctx, framework.NewObject("v1", "Namespace", "", s.Namespace))
	})
	leavesNothingRescued(t, s)
}

// createNamespaceAgain creates a namespace of the same name.
func createNamespaceAgain(t *testing.T, s *framework.Server) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	if err := framework.Suite.Kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	framework.StartToolbox(t, s.Namespace, "client", "")
}

// TestNamespaceComesBack checks that a new namespace of the same name cannot use the data of the previous one unless
// the platform team allows it. If the platform team does, everything must be restored from the same volume.
func TestNamespaceComesBack(t *testing.T) {
	t.Parallel()
	framework.OnEach(t, map[string]string{framework.OnHostPath: "TestEverythingComesBack has that Composition"},
		namespaceComesBack)
}

func namespaceComesBack(t *testing.T, composition string) {
	t.Helper()
	s := framework.NewServer(t, composition)
	before := s.Begin(t)
	loseNamespace(t, s, 1)
	createNamespaceAgain(t, s)
	s.Create(t)
	s.Says(t, "Ask the platform team to allow the restore (reusableNamespaces of Platform crossplane-mysql)")
	s.IsHeld(t)
	s.Delete(t) // An empty volume may remain.
	s.Backups().AreVerified(t, 1)

	framework.AllowReuse(t, s.Namespace)
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Fatalf("want every row\n%s\ngot\n%s", before, got)
	}
	for backups, goes := range []func(){
		func() { s.Delete(t); s.Backups().AreVerified(t, 2) },
		func() { loseNamespace(t, s, 3); createNamespaceAgain(t, s) },
	} {
		s.Client().MustQuery(t, fmt.Sprintf("INSERT INTO test (name) VALUES ('with %d backups')", backups+1))
		before = s.Client().MustQuery(t, framework.Rows)
		goes()
		s.Create(t)
		if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
			t.Fatalf("want every row\n%s\ngot\n%s", before, got)
		}
	}
	records := s.Backups().MustList(t)
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.GetName())
	}
	s.Backups().HaveArchives(t, names)
}

// leavesNothingRescued waits until the recovery namespace contains no objects of the server's namespace.
func leavesNothingRescued(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the end of the rescue", func(ctx context.Context) error {
		for _, kind := range []string{"PersistentVolumeClaim", "Job", "Pod"} {
			list := &unstructured.UnstructuredList{}
			list.SetKind(kind + "List")
			list.SetAPIVersion("v1")
			if kind == "Job" {
				list.SetAPIVersion("batch/v1")
			}
			if err := framework.Suite.Kube.List(ctx, list, client.InNamespace(recoveryNamespace)); err != nil {
				return err
			}
			for _, o := range list.Items {
				if o.GetAnnotations()["crossplane-mysql.io/claim-namespace"] == s.Namespace {
					return fmt.Errorf("%s %s is left", kind, o.GetName())
				}
			}
		}
		return nil
	})
}
