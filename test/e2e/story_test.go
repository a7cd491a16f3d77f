package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rows of the table that the session makes.
const rows = "SELECT id, name FROM test ORDER BY id"

// TestStory is what the product is for: the session that the original operators' users typed, on both Compositions.
func TestStory(t *testing.T) {
	t.Run("StorageClass", func(t *testing.T) { story(t, "mysql") })
	t.Run("HostPath", func(t *testing.T) { story(t, hostPathComposition(t)) })
}

// hostPathComposition is the one of the package with the name of a node, as a platform team with several nodes has it.
func hostPathComposition(t *testing.T) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := suite.kube.List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("cannot find a node: %v", err)
	}
	packaged := object("apiextensions.crossplane.io/v1", "Composition", "", "mysql-hostpath")
	if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(packaged), packaged); err != nil {
		t.Fatal(err)
	}
	c := object("apiextensions.crossplane.io/v1", "Composition", "", "e2e-hostpath")
	c.Object["spec"] = packaged.Object["spec"]
	steps, _, err := unstructured.NestedSlice(c.Object, "spec", "pipeline")
	if err != nil {
		t.Fatal(err)
	}
	steps[0].(map[string]any)["input"].(map[string]any)["hostPathNode"] = nodes.Items[0].Name
	if err := unstructured.SetNestedSlice(c.Object, steps, "spec", "pipeline"); err != nil {
		t.Fatal(err)
	}
	if err := suite.kube.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := suite.kube.Delete(context.WithoutCancel(t.Context()), c); err != nil {
			t.Error(err)
		}
	})
	return c.GetName()
}

func story(t *testing.T, composition string) {
	t.Helper()
	s := newServer(t, composition)
	s.create(t)
	s.version(t)
	s.session(t)
	before := s.mustQuery(t, rows)
	for round := 1; round <= 2; round++ {
		s.delete(t)
		s.proven(t, round)
		s.create(t)
		if got := s.firstAnswer(t, rows); got != before {
			t.Fatalf("round %d: want every row\n%s\ngot\n%s", round, before, got)
		}
		s.mustQuery(t, fmt.Sprintf("INSERT INTO test (name) VALUES ('round %d')", round))
		before = s.mustQuery(t, rows)
	}
	s.changePassword(t, `n3w "pass\'word`)
}

// A server is a claim, and a pod from which it is asked.
type server struct {
	namespace, name, database, password string

	composition string
	claim       *unstructured.Unstructured
}

func newServer(t *testing.T, composition string) *server {
	t.Helper()
	ns := namespace(t)
	pod(t, ns, "client", "")
	claim := objects(t, "examples/original-claim/claim.yaml", ns)[0]
	s := &server{namespace: ns, name: claim.GetName(), composition: composition, claim: claim}
	s.database, _, _ = unstructured.NestedString(claim.Object, "spec", "database")
	s.password, _, _ = unstructured.NestedString(claim.Object, "spec", "password")
	t.Cleanup(func() { s.discard(t) })
	return s
}

// create the claim as it was written, but for the Composition, and wait until it is Ready.
func (s *server) create(t *testing.T) {
	t.Helper()
	s.claim = objects(t, "examples/original-claim/claim.yaml", s.namespace)[0]
	if err := unstructured.SetNestedField(s.claim.Object, s.composition, "spec", "compositionRef", "name"); err != nil {
		t.Fatal(err)
	}
	if err := suite.kube.Create(t.Context(), s.claim); err != nil {
		t.Fatal(err)
	}
}

// query the server as a client of its Service would. The password goes in by a file, never on a command line.
func (s *server) query(ctx context.Context, password, statement string) (string, error) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	options := fmt.Sprintf("[client]\nhost=%s\nuser=root\npassword=\"%s\"\n", s.name, quoted)
	return in(ctx, s.namespace, "client", options, "mysql", "--defaults-file=/dev/stdin", "--connect-timeout=2",
		"--batch", "--skip-column-names", "--execute="+statement, s.database)
}

func (s *server) mustQuery(t *testing.T, statement string) string {
	t.Helper()
	out, err := s.query(t.Context(), s.password, statement)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unreachable are the errors of a client whose server does not answer, or whose Service has no pod yet.
var unreachable = []string{"ERROR 2002", "ERROR 2003", "ERROR 2005", "ERROR 2013"}

// firstAnswer waits until the server answers at all. Whatever it answers then must be right: nobody may see a server
// that is not restored yet.
func (s *server) firstAnswer(t *testing.T, statement string) string {
	t.Helper()
	var out string
	var wrong error
	eventually(t, "the server", func(ctx context.Context) error {
		var err error
		out, err = s.query(ctx, s.password, statement)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w; the claim says %s", err, s.message(context.WithoutCancel(ctx)))
		}
		for _, number := range unreachable {
			if strings.Contains(err.Error(), number) {
				return fmt.Errorf("%w; the claim says %s", err, s.message(ctx))
			}
		}
		wrong = err
		return nil
	})
	if wrong != nil {
		t.Fatalf("the first answer is an error: %v", wrong)
	}
	return out
}

func (s *server) message(ctx context.Context) string {
	claim := s.claim.DeepCopy()
	if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return err.Error()
	}
	message, _, _ := unstructured.NestedString(claim.Object, "status", "message")
	return message
}

func (s *server) version(t *testing.T) {
	t.Helper()
	if got := s.firstAnswer(t, "SELECT VERSION()"); !strings.HasPrefix(got, "9.7.") && suite.own != nil {
		t.Errorf("want MySQL 9.7, got %q", got)
	}
	eventually(t, "the claim", func(ctx context.Context) error { return condition(ctx, s.claim, "Ready") })
}

// session types what the original operators' users typed.
func (s *server) session(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository(), "examples", "original-claim", "session.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.mustQuery(t, string(b)); got != "1\tsome data\n2\tsome data-2\n" {
		t.Errorf("want two rows, got %q", got)
	}
}

// delete the claim and wait until it is gone, and all that it stood for.
func (s *server) delete(t *testing.T) {
	t.Helper()
	if err := suite.kube.Delete(t.Context(), s.claim); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim's end", func(ctx context.Context) error {
		if err := gone(ctx, s.claim); err != nil {
			return fmt.Errorf("%w: %s", err, s.message(ctx))
		}
		return nil
	})
	for _, o := range []*unstructured.Unstructured{
		object("apps/v1", "Deployment", s.namespace, s.name),
		object("v1", "PersistentVolumeClaim", s.namespace, s.name+"-pvc"),
		object("v1", "Service", s.namespace, s.name),
	} {
		eventually(t, "its "+o.GetKind(), func(ctx context.Context) error { return gone(ctx, o) })
	}
}

// records of this instance's backups.
func (s *server) records(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("otus.homework/v1")
	list.SetKind("MySQLBackupList")
	if err := suite.kube.List(ctx, list); err != nil {
		return nil, err
	}
	var mine []unstructured.Unstructured
	for _, r := range list.Items {
		if ns, _, _ := unstructured.NestedString(r.Object, "spec", "instance", "namespace"); ns == s.namespace {
			mine = append(mine, r)
		}
	}
	return mine, nil
}

func (s *server) proven(t *testing.T, want int) {
	t.Helper()
	records, err := s.records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != want {
		t.Errorf("want %d backups, got %d", want, len(records))
	}
	for _, r := range records {
		if phase, _, _ := unstructured.NestedString(r.Object, "status", "phase"); phase != "Proven" {
			t.Errorf("want backup %s to be Proven, it is %s", r.GetName(), phase)
		}
	}
}

// changePassword in the claim, and see that the running server takes the new one and, in the end, only that.
func (s *server) changePassword(t *testing.T, password string) {
	t.Helper()
	patch := client.MergeFrom(s.claim.DeepCopy())
	if err := unstructured.SetNestedField(s.claim.Object, password, "spec", "password"); err != nil {
		t.Fatal(err)
	}
	if err := suite.kube.Patch(t.Context(), s.claim, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new password", func(ctx context.Context) error {
		_, err := s.query(ctx, password, "SELECT 1")
		return err
	})
	eventually(t, "the old password's end", func(ctx context.Context) error {
		_, err := s.query(ctx, s.password, "SELECT 1")
		if err == nil {
			return errors.New("it is still accepted")
		}
		if !strings.Contains(err.Error(), "ERROR 1045") {
			return err
		}
		return nil
	})
	s.password = password
}

// discard lets go of a server whose data nobody wants any more.
func (s *server) discard(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":"Discard"}}`))
	if err := client.IgnoreNotFound(suite.kube.Patch(ctx, s.claim, patch)); err != nil {
		t.Errorf("cannot discard the data: %v", err)
	}
	if err := client.IgnoreNotFound(suite.kube.Delete(ctx, s.claim)); err != nil {
		t.Errorf("cannot delete the claim: %v", err)
	}
	if err := poll(ctx, func() error { return gone(ctx, s.claim) }); err != nil {
		t.Errorf("%v: %s", err, s.message(ctx))
	}
}
