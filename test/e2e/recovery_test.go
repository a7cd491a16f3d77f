package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// newestImage is the image of the newest MySQL release that the tests have.
const newestImage = "mysql:9.7"

// TestRecovery deletes rows with a DELETE without WHERE, and recovers a second instance to the time before, while the
// first instance is running. The second instance must have the rows. Its plan must contain the last recovered
// transaction, and a time before the first backup must be refused with the possible range. At the end, the first
// instance is deleted immediately after a transaction, and recovered to that transaction.
func TestRecovery(t *testing.T) {
	t.Parallel()
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["image"] = newestImage
	s.Spec["backup"] = map[string]any{"storeRef": map[string]any{"name": b.GetName()}}
	s.Begin(t)
	isRecoverable(t, s)
	before, moment := loseRows(t, s)
	after := s.Client().MustQuery(t, framework.Rows)
	time.Sleep(5 * time.Second)

	early := s.Neighbour(t, "early")
	early.Spec["backup"], early.Spec["deletionPolicy"] = nil, discard
	early.Spec["restore"] = map[string]any{"from": s.Name, "at": "2020-01-01T00:00:00Z"}
	early.Create(t)
	early.Refuses(t, "is not possible. Possible is")

	another := s.Neighbour(t, "another")
	last, next := printsPlan(t, s, another, moment)
	var log bytes.Buffer
	out, err := pluginCommand(t.Context(), &log, "restore", "--namespace", s.Namespace, "--from", s.Name, "--to", another.Name,
		"--at", moment).Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, log.String())
	}
	if got := another.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of %s\n%s\ngot\n%s", moment, before, got)
	}
	if got := strings.Fields(another.Client().MustQuery(t, fmt.Sprintf(
		"SELECT GTID_SUBSET('%s', @@gtid_executed), GTID_SUBSET('%s', @@gtid_executed)", last, next))); !slices.Equal(got,
		[]string{"1", "0"}) {
		t.Errorf("want transaction %s and not %s, as planned, got %v", last, next, got)
	}
	s.Client().SeesRows(t, after)
	report, err := framework.Kubectl(t.Context(), "logs", "--namespace", another.Namespace, "job/restore-"+another.Name+"-job",
		"--container", "apply-log")
	if err != nil || !strings.Contains(report, "The last transaction is "+last) {
		t.Errorf("want the last transaction %s in the log of the restore Job, got %v: %s", last, err, report)
	}

	const executed = "SELECT REPLACE(@@gtid_executed, '\\n', '')"
	set := strings.TrimSpace(s.Client().MustQuery(t, executed))
	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 3001))
	newest := strings.TrimSpace(s.Client().MustQuery(t, "SELECT GTID_SUBTRACT(@@gtid_executed, '"+set+"')"))
	after = s.Client().MustQuery(t, framework.Rows)
	s.Delete(t)
	s.Spec["restore"] = map[string]any{"at": newest}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != after {
		t.Errorf("want the rows of the last transaction %s in the instance itself\n%s\ngot\n%s", newest, after, got)
	}
	isRecoverable(t, s)
}

// loseRows inserts rows and deletes all rows of the table. It returns the rows, and a time at which the table had them.
func loseRows(t *testing.T, s *framework.Server) (rows, moment string) {
	t.Helper()
	for n := range 5 {
		s.Client().MustQuery(t, fmt.Sprintf(oneRow, 2000+n))
	}
	rows = s.Client().MustQuery(t, framework.Rows)
	moment = strings.TrimSpace(s.Client().MustQuery(t, "SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')"))
	time.Sleep(time.Second)
	s.Client().MustQuery(t, "DELETE FROM test")
	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 3000))
	return rows, moment
}

// printsPlan checks that a dry run prints the last transaction that will be recovered and the next one, and returns
// both. A time before the first backup must be refused with the possible range. The temporary instances of the dry
// runs never have a volume or a pod, and are deleted without a backup.
func printsPlan(t *testing.T, s, another *framework.Server, moment string) (last, next string) {
	t.Helper()
	const prefix = "recovery-plan-"
	var log bytes.Buffer
	out, err := pluginCommand(t.Context(), &log, "restore", "--namespace", s.Namespace, "--from", s.Name, "--to", another.Name,
		"--at", moment, "--dry-run").Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, log.String())
	}
	found := regexp.MustCompile(`(?s)Binary log +\d+ transactions in \d+ segments.*Last included +(\S+:\d+), committed at \S+` +
		`.*First excluded +(\S+:\d+), committed at`).FindStringSubmatch(string(out))
	if found == nil || strings.Contains(string(out), "Incomplete") {
		t.Fatalf("the plan is\n%s", out)
	}
	log.Reset()
	if out, err := pluginCommand(t.Context(), &log, "recover", "--namespace", s.Namespace, "--from", s.Name, "--to", another.Name,
		"--at", "2020-01-01T00:00:00Z", "--dry-run").Output(); err == nil || !strings.Contains(log.String(),
		"is not possible. Possible is") {
		t.Errorf("want a refusal, got %v: %s%s", err, out, log.String())
	}
	kube := framework.Suite.Kube
	s.Eventually(t, "the temporary instances to be deleted", func(ctx context.Context) error {
		volumes, pods, claims := &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}, &unstructured.UnstructuredList{}
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		kind := xr.GroupVersionKind()
		claims.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err = errors.Join(kube.List(ctx, volumes, client.InNamespace(s.Namespace)), kube.List(ctx, pods,
			client.InNamespace(s.Namespace)), kube.List(ctx, claims))
		for _, c := range volumes.Items {
			if strings.Contains(c.Name, prefix) {
				t.Errorf("a plan has the volume %s", c.Name)
			}
		}
		for _, p := range pods.Items {
			if strings.Contains(p.Name, prefix) {
				t.Errorf("a plan has the pod %s", p.Name)
			}
		}
		for _, c := range claims.Items {
			if strings.HasPrefix(c.GetName(), prefix) {
				err = errors.Join(err, fmt.Errorf("%s exists", c.GetName()))
			}
		}
		return err
	})
	return found[1], found[2]
}

// isRecoverable waits until the binary log of the server is archived, and a backup was verified after the archive
// began.
func isRecoverable(t *testing.T, s *framework.Server) {
	t.Helper()
	s.Eventually(t, "an archive of the binary log with a backup", func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		if err := framework.HasCondition(ctx, xr, "Archiving"); err != nil {
			return err
		}
		from, _, err := unstructured.NestedString(xr.Object, "status", "backups", "recoverableFromTime")
		if err == nil && from == "" {
			err = fmt.Errorf("it is not recoverable: %v", xr.Object["status"])
		}
		return err
	})
}
