package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCreateAgainDifferently: what cannot take the data over is refused and changes nothing; another password, database,
// size and image are taken, and every row is there.
//
// There is one MySQL to be had, so that the backup's record is made to say that an older or a newer one wrote it.
func TestCreateAgainDifferently(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	s.create(t)
	s.version(t)
	s.session(t)
	before, firstDatabase, firstPassword := s.mustQuery(t, rows), s.database, s.password
	s.delete(t)
	s.proven(t, 1)

	s.spec["storage_size"] = "512Mi"
	s.create(t)
	s.refuses(t, "spec.storage_size: 512Mi is smaller than 1Gi, the volume that backup ")
	s.refuses(t, "set it to 1Gi or more")
	s.eventOf(t, "set it to 1Gi or more")
	s.held(t)
	s.delete(t)
	s.spec["storage_size"] = "1Gi"

	s.spec["image"] = "mariadb:10.11"
	s.fails(t, "was written by a server that spec.image cannot take over from")
	s.spec["image"] = "mysql:9"
	s.wrote(t, "9.7.99")
	s.fails(t, "Set spec.image to that server's version")
	s.proven(t, 1)

	s.wrote(t, "9.7.0")
	s.database, s.spec["database"] = "another-database", "another-database"
	s.spec["password"], s.spec["storage_size"] = "another password", "2Gi"
	s.create(t)
	s.connects(t, "another password")
	s.refused(t, firstPassword)
	s.says(t, "Restoring DB have succeed")
	if got := s.mustQuery(t, "SHOW TABLES"); got != "" {
		t.Errorf("want a new database %s with nothing in it, got %q", s.database, got)
	}
	if got := s.mustQuery(t, strings.ReplaceAll(rows, " test ", " `"+firstDatabase+"`.test ")); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.grown(t, s.name+"-pvc")
	s.grown(t, "backup-"+s.name+"-pvc")
}

// TestChangeInPlace: another image, another database and a larger volume for a server that runs; a smaller one is refused.
func TestChangeInPlace(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	before := s.begin(t)

	s.set(t, map[string]any{"storage_size": "2Gi"})
	s.grown(t, s.name+"-pvc")
	eventually(t, "the server's disk", s.seesRoom)
	eventually(t, "the backup PVC, which nothing has used yet", func(ctx context.Context) error {
		return s.asks(ctx, "backup-"+s.name+"-pvc", "2Gi")
	})
	if err := s.trySet(t.Context(), map[string]any{"storage_size": "1Gi"}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the storage size may grow, it cannot shrink") {
		t.Errorf("want the API server to refuse it, got %v", err)
	}

	was := s.mustServerPod(t).UID
	s.set(t, map[string]any{"image": "mysql:9.7", "database": "later"})
	eventually(t, "the other image", func(ctx context.Context) error {
		p, err := s.serverPod(ctx)
		if err != nil {
			return err
		}
		if image := p.Spec.Containers[0].Image; p.UID == was || image != "mysql:9.7" {
			return fmt.Errorf("pod %s runs %s", p.Name, image)
		}
		return condition(ctx, s.claim, "Ready")
	})
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	eventually(t, "the later database", func(ctx context.Context) error {
		got, err := s.query(ctx, s.password, "SHOW DATABASES LIKE 'later'")
		if err == nil && got == "" {
			return errors.New("it is not there")
		}
		return err
	})
	s.delete(t)
	s.proven(t, 1)
	s.grown(t, "backup-"+s.name+"-pvc")
}

// fails creates the claim, waits for its restore to fail with a text, and deletes it. Nothing came of it.
func (s *server) fails(t *testing.T, text string) {
	t.Helper()
	s.create(t)
	s.says(t, text)
	s.held(t)
	s.delete(t)
}

// held is a server that has never started.
func (s *server) held(t *testing.T) {
	t.Helper()
	d := &appsv1.Deployment{}
	err := suite.kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.name}, d)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err == nil && (d.Spec.Replicas == nil || *d.Spec.Replicas != 0) {
		t.Errorf("want no server, its Deployment has %v replicas", d.Spec.Replicas)
	}
	if p, err := s.serverPod(t.Context()); err == nil {
		t.Errorf("want no server, pod %s runs", p.Name)
	}
	if _, err := s.connection(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("want no connection Secret before there is a server, got %v", err)
	}
}

// refuses waits until the claim says that it cannot be carried out, and why.
func (s *server) refuses(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the refusal", func(ctx context.Context) error {
		claim := s.claim.DeepCopy()
		err := condition(ctx, claim, "Accepted")
		if err == nil {
			return errors.New("it is accepted")
		}
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("want %q in it: %w", text, err)
		}
		return nil
	})
}

// wrote makes the newest backup one of another version.
func (s *server) wrote(t *testing.T, version string) {
	t.Helper()
	records, err := s.records(t.Context())
	if err != nil || len(records) != 1 {
		t.Fatalf("want one backup, got %d, %v", len(records), err)
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"version":%q}}`, version))
	if err := suite.kube.Patch(t.Context(), &records[0], patch); err != nil {
		t.Fatal(err)
	}
}

// larger is the size that volumes grow to.
const larger = "2Gi"

// grown waits until a volume is larger.
func (s *server) grown(t *testing.T, claim string) {
	t.Helper()
	eventually(t, "the size of "+claim, func(ctx context.Context) error {
		c := &corev1.PersistentVolumeClaim{}
		if err := suite.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: claim}, c); err != nil {
			return err
		}
		if got := c.Status.Capacity[corev1.ResourceStorage]; got.Cmp(resource.MustParse(larger)) < 0 {
			return fmt.Errorf("want %s, it has %s and asks for %s", larger, got.String(), c.Spec.Resources.Requests.Storage())
		}
		return nil
	})
}

// asks is a complaint if a claim does not ask for a size.
func (s *server) asks(ctx context.Context, claim, want string) error {
	c := &corev1.PersistentVolumeClaim{}
	if err := suite.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: claim}, c); err != nil {
		return err
	}
	if got := c.Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(resource.MustParse(want)) != 0 || c.DeletionTimestamp != nil {
		return fmt.Errorf("want %s, it asks for %s", want, got.String())
	}
	return nil
}

// seesRoom is a complaint if the server's own file system has not grown to two GiB.
func (s *server) seesRoom(ctx context.Context) error {
	p, err := s.serverPod(ctx)
	if err != nil {
		return err
	}
	out, err := in(ctx, p.Namespace, p.Name, "", "stat", "--file-system", "--format=%b %S", "/var/lib/mysql")
	if err != nil {
		return err
	}
	blocks, size, _ := strings.Cut(strings.TrimSpace(out), " ")
	n, err := strconv.ParseInt(blocks, 10, 64)
	if err != nil {
		return err
	}
	each, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	if n*each < 3<<29 {
		return fmt.Errorf("it has %d bytes", n*each)
	}
	return nil
}

// restoreJob of the server, or nil.
func (s *server) restoreJob(ctx context.Context) (*batchv1.Job, error) {
	j := &batchv1.Job{}
	err := suite.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "restore-" + s.name + "-job"}, j)
	return j, err
}

// unreleased data: its claim and the XR are there, and not one of them may go yet.
func (s *server) unreleased(t *testing.T) {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := suite.kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.name + "-pvc"}, c); err != nil || c.DeletionTimestamp != nil || len(c.Finalizers) == 0 {
		t.Errorf("want the data PVC untouched, got %v, %v", c, err)
	}
	xr, err := s.xr(t.Context())
	if err != nil || len(xr.GetFinalizers()) == 0 {
		t.Errorf("want the XR held, got %v, %v", xr, err)
	}
	for _, r := range s.mustRecords(t) {
		if phase, _, _ := unstructured.NestedString(r.Object, "status", "phase"); phase == phaseProven {
			t.Errorf("want no proof, backup %s is %s", r.GetName(), phase)
		}
	}
}

func (s *server) mustRecords(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	records, err := s.records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return records
}
