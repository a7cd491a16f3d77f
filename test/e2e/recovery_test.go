package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRecovery checks that rows which a DELETE without WHERE has removed are back in a second instance that is
// recovered to the time before, while the first one runs. A time before the first backup is refused with the possible
// range. Later, the deleted instance itself is recovered to that time.
func TestRecovery(t *testing.T) {
	t.Parallel()
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["image"] = "mysql:9.7"
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
	var log bytes.Buffer
	out, err := pluginCommand(t.Context(), &log, "restore", "--namespace", s.Namespace, "--from", s.Name, "--to", another.Name,
		"--at", moment).Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, log.String())
	}
	if got := another.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of %s\n%s\ngot\n%s", moment, before, got)
	}
	s.Client().SeesRows(t, after)

	s.Delete(t)
	s.Spec["restore"] = map[string]any{"at": moment}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of %s in the instance itself\n%s\ngot\n%s", moment, before, got)
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

// isRecoverable waits until the binary log of a server is archived, and a backup was verified after that.
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
