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
)

// rescueNamespace is where data is backed up that lost its own.
const rescueNamespace = "crossplane-mysql-rescue"

// TestDeletedPVC: a data PVC that somebody deletes comes back on its volume, while the instance lives.
func TestDeletedPVC(t *testing.T) {
	t.Parallel()
	repeats(t, "the cells of the matrix delete data PVCs")
	s := newServer(t, classComposition)
	before := s.begin(t)
	was := s.deletePVC(t)
	s.pvcReturns(t, was)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.delete(t)
	s.proven(t, 1)
}

// deletePVC of the data, whose UID it returns.
func (s *server) deletePVC(t *testing.T) types.UID {
	t.Helper()
	claim := object("v1", "PersistentVolumeClaim", s.namespace, s.name+"-pvc")
	if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if err := suite.kube.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return claim.GetUID()
}

// pvcReturns as another one than it was.
func (s *server) pvcReturns(t *testing.T, was types.UID) {
	t.Helper()
	eventually(t, "the claim's return", func(ctx context.Context) error {
		claim := object("v1", "PersistentVolumeClaim", s.namespace, s.name+"-pvc")
		if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.GetUID() == was {
			return errors.New("it is the one that was deleted")
		}
		return nil
	})
}

// TestTakenFinalizers: somebody takes the finalizers off claim and XR, and all that Crossplane made goes. The data does
// not, and the next claim of the name has it.
func TestTakenFinalizers(t *testing.T) {
	t.Parallel()
	repeats(t, "the cells of the matrix take finalizers off")
	onBoth(t, takenFinalizers)
}

func takenFinalizers(t *testing.T, composition string) {
	t.Helper()
	s := newServer(t, composition)
	before := s.begin(t)
	xr, err := s.xr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.startDelete(t)
	takeFinalizers(t, xr, s.claim)
	s.claimGone(t)
	s.create(t)
	s.restored(t) // The server of the earlier life may go on answering for a while.
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.proven(t, 1)
	s.nothingRescued(t)
}

// beingDeleted waits until somebody has deleted the object, whether it is still there or not.
func beingDeleted(t *testing.T, o client.Object) {
	t.Helper()
	eventually(t, "the deletion of "+o.GetName(), func(ctx context.Context) error {
		err := suite.kube.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil && o.GetDeletionTimestamp() == nil {
			return errors.New("nobody deletes it")
		}
		return client.IgnoreNotFound(err)
	})
}

// takeFinalizers off objects, if they are still there.
func takeFinalizers(t *testing.T, objects ...client.Object) {
	t.Helper()
	none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, o := range objects {
		if err := client.IgnoreNotFound(suite.kube.Patch(t.Context(), o, none)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSupersededComposite: somebody takes the finalizers off a claim before Crossplane has deleted its XR, which it never
// does then. The next claim of the name gets the data all the same.
func TestSupersededComposite(t *testing.T) {
	t.Parallel()
	repeats(t, "TestNext deletes an XR that no claim will have, and the cells of the matrix have what comes then")
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.takeClaim(t)
	s.create(t)
	s.restored(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.proven(t, 1)
}

// takeClaim from its XR, which goes on without.
func (s *server) takeClaim(t *testing.T) {
	t.Helper()
	xr, err := s.xr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.annotate(t, "crossplane.io/paused", "true")
	eventually(t, "the pause", func(ctx context.Context) error { return paused(ctx, s.claim.DeepCopy()) })
	s.startDelete(t)
	takeFinalizers(t, s.claim)
	s.claimGone(t)
	if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(xr), xr); err != nil || xr.GetDeletionTimestamp() != nil {
		t.Fatalf("want an XR that nobody deletes: %v, %v", xr.GetDeletionTimestamp(), err)
	}
}

// TestDeletedNamespaceOfComposite: an XR whose claim somebody took from it does not keep a namespace that is deleted.
func TestDeletedNamespaceOfComposite(t *testing.T) {
	t.Parallel()
	repeats(t, "TestNext deletes an XR that no claim will have, and the cells of the matrix delete namespaces")
	s := newServer(t, classComposition)
	s.begin(t)
	s.takeClaim(t)
	s.loseNamespace(t, 1)
}

// TestDeletedNamespace: nothing can run in a namespace that is being deleted. The data is backed up elsewhere.
func TestDeletedNamespace(t *testing.T) {
	t.Parallel()
	repeats(t, "the cells of the matrix delete namespaces")
	s := newServer(t, classComposition)
	s.begin(t)
	s.loseNamespace(t, 1)
}

// TestNamespaceDeletedInRescue: data that lost its XR is being backed up beside its home when the namespace goes too. What
// was made there does not keep it.
func TestNamespaceDeletedInRescue(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	s.begin(t)
	xr, err := s.xr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.startDelete(t)
	beingDeleted(t, xr)
	takeFinalizers(t, xr, s.claim)
	eventually(t, "the claim of the rescue", func(ctx context.Context) error {
		claims := &corev1.PersistentVolumeClaimList{}
		if err := suite.kube.List(ctx, claims, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
			return strings.HasPrefix(c.Name, "data-"+s.namespace)
		}) {
			return errors.New("it is not there")
		}
		return nil
	})
	s.loseNamespace(t, 1)
}

// loseNamespace of the server, and wait until nothing of it is left but so many backups.
func (s *server) loseNamespace(t *testing.T, backups int) {
	t.Helper()
	s.deleteNamespace(t)
	eventually(t, "the proof", func(ctx context.Context) error {
		records, err := s.records(ctx)
		if err != nil {
			return err
		}
		if len(records) != backups {
			return fmt.Errorf("there are %d backups", len(records))
		}
		for i := range records {
			if err := provenRecord(&records[i]); err != nil {
				return err
			}
		}
		return nil
	})
	s.namespaceGone(t)
}

func (s *server) deleteNamespace(t *testing.T) {
	t.Helper()
	if err := suite.kube.Delete(t.Context(), object("v1", "Namespace", "", s.namespace)); err != nil {
		t.Fatal(err)
	}
}

// namespaceGone waits until it is, and nothing of the rescue is left.
func (s *server) namespaceGone(t *testing.T) {
	t.Helper()
	eventually(t, "the namespace's end", func(ctx context.Context) error {
		return gone(ctx, object("v1", "Namespace", "", s.namespace))
	})
	s.nothingRescued(t)
}

// findNamespace makes one of the same name again.
func (s *server) findNamespace(t *testing.T) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := suite.kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	pod(t, s.namespace, "client", "")
}

// TestNamespaceComesBack: a later namespace of the same name gets nothing that an earlier one left, unless the platform
// team says that it may. Then everything comes back, on the very volume, as if the namespace had never been gone.
func TestNamespaceComesBack(t *testing.T) {
	t.Parallel()
	onEach(t, map[string]string{onHostPath: "TestEverythingComesBack has that Composition"}, namespaceComesBack)
}

func namespaceComesBack(t *testing.T, composition string) {
	t.Helper()
	allowing := copyOfComposition(t, composition, map[string]any{"namespaceReuse": "Allow"})
	s := newServer(t, composition)
	before := s.begin(t)
	s.loseNamespace(t, 1)
	s.findNamespace(t)
	s.create(t)
	s.says(t, "ask the platform team to allow it (namespaceReuse: Allow in the Composition's input)")
	s.held(t)
	s.delete(t) // Which may leave an empty volume in the way.
	s.proven(t, 1)

	s.spec["compositionRef"] = map[string]any{"name": allowing}
	s.create(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Fatalf("want every row\n%s\ngot\n%s", before, got)
	}
	for backups, goes := range []func(){
		func() { s.delete(t); s.proven(t, 2) },
		func() { s.loseNamespace(t, 3); s.findNamespace(t) },
	} {
		s.mustQuery(t, fmt.Sprintf("INSERT INTO test (name) VALUES ('with %d backups')", backups+1))
		before = s.mustQuery(t, rows)
		goes()
		s.create(t)
		if got := s.firstAnswer(t, rows); got != before {
			t.Fatalf("want every row\n%s\ngot\n%s", before, got)
		}
	}
	records := s.mustRecords(t)
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.GetName())
	}
	s.archives(t, names)
}

// nothingRescued is left where data was backed up that lost its namespace.
func (s *server) nothingRescued(t *testing.T) {
	t.Helper()
	eventually(t, "the end of the rescue", func(ctx context.Context) error {
		for _, kind := range []string{"PersistentVolumeClaim", "Job", "Pod"} {
			list := &unstructured.UnstructuredList{}
			list.SetKind(kind + "List")
			list.SetAPIVersion("v1")
			if kind == "Job" {
				list.SetAPIVersion("batch/v1")
			}
			if err := suite.kube.List(ctx, list, client.InNamespace(rescueNamespace)); err != nil {
				return err
			}
			for _, o := range list.Items {
				if o.GetAnnotations()["otus.homework/claim-namespace"] == s.namespace {
					return fmt.Errorf("%s %s is left", kind, o.GetName())
				}
			}
		}
		return nil
	})
}
