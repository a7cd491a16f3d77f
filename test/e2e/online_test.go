package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

const (
	// cloners is a query for the number of accounts that the controller has created to clone a server.
	cloners = "SELECT COUNT(*) FROM mysql.user WHERE user LIKE 'crossplane-mysql%'"
	// serverStart is a query for the time at which the server was started, according to the server's own clock.
	serverStart = "SELECT DATE_SUB(NOW(), INTERVAL variable_value SECOND) FROM performance_schema.global_status WHERE " +
		"variable_name = 'Uptime'"
)

// TestOnlineBackup backs up a running server while a client writes. The backup must be consistent, and contain
// everything that was acknowledged before it started. A later instance restores it by name. If an online backup would
// omit rows, it must fail, and the claim must name the table.
func TestOnlineBackup(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	up := s.Client().MustQuery(t, serverStart)
	s.Client().MustQuery(t, "CREATE TABLE old (id INT) ENGINE=MyISAM")
	request(t, s, "zero", "Online", phaseFailed)
	s.Says(t, s.Database+".old (MyISAM)")
	s.Client().MustQuery(t, "DROP TABLE old")
	w := newLedger(t, s)
	before := w.rows(t, 5)
	request(t, s, "one", "Online", "Verified")
	written := w.end(t)
	r := s.Backups().Only(t)
	if methodOf(r) != "Online" || originOf(r) != "Request" {
		t.Errorf("want it to say how it was taken, got %q of %q", methodOf(r), originOf(r))
	}
	s.HasEvents(t, "RequestedBackupBegun", "RequestedBackupEnded")
	if now := s.Client().MustQuery(t, serverStart); now != up {
		t.Errorf("the server has been started again: %s, and before %s", now, up)
	}
	hasNoCloners(t, s)
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	s.Spec["restore"] = map[string]any{"backup": "one"}
	s.Create(t)
	w.isWhole(t, before, written)
	hasNoCloners(t, s)
}

// TestOnlineBackupWithoutRoom checks that the claim reports why the scratch volume of an online backup is refused.
// Once there is room, the backup must continue. At the end, it must delete the scratch volume.
func TestOnlineBackupWithoutRoom(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWhyPodWaits has the words")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	quota := newQuota(t, s, "small", corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("2200Mi")})
	createBackup(t, s, "one", "Online")
	s.Says(t, "exceeded quota: small")
	liftQuota(t, quota)
	isAnswered(t, s, "one", "Verified")
	s.Client().SeesRows(t, before)
	hasNoCloners(t, s)
	s.Eventually(t, "the end of its scratch volume", func(ctx context.Context) error {
		pvcs, err := listKind(ctx, "v1/PersistentVolumeClaim", s.Namespace)
		if err == nil && len(pvcs) != 2 {
			err = fmt.Errorf("there are %d", len(pvcs))
		}
		return err
	})
}

// hasNoCloners checks that the accounts that were created to clone the server are deleted.
func hasNoCloners(t *testing.T, s *framework.Server) {
	t.Helper()
	if n := s.Client().MustQuery(t, cloners); strings.TrimSpace(n) != "0" {
		t.Errorf("%s accounts are left", n)
	}
}

func methodOf(record *unstructured.Unstructured) string {
	method, _, _ := unstructured.NestedString(record.Object, "spec", "method")
	return method
}

// A ledger is a table to which a client adds rows one by one. Each row refers to the previous one, so that a test can
// find gaps in a restored table.
type ledger struct {
	server *framework.Server
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	written int
	failed  error
}

// newLedger creates the table and starts writing to it.
func newLedger(t *testing.T, s *framework.Server) *ledger {
	t.Helper()
	s.Client().MustQuery(t, "CREATE TABLE ledger (id INT PRIMARY KEY, before_it INT, FOREIGN KEY (before_it) "+
		"REFERENCES ledger (id))")
	ctx, cancel := context.WithCancel(t.Context())
	l := &ledger{server: s, cancel: cancel}
	t.Cleanup(cancel)
	l.done.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			_, err := s.Client().Query(t.Context(), s.Password, fmt.Sprintf("INSERT INTO ledger VALUES (%d, NULLIF(%d, 0))", n, n-1)) //nolint:contextcheck // A started insert is completed.
			l.mu.Lock()
			if l.failed = err; err == nil {
				l.written = n
			}
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	return l
}

// rows waits until the server has acknowledged at least the given number of rows, and returns the actual number.
func (l *ledger) rows(t *testing.T, atLeast int) int {
	t.Helper()
	var n int
	l.server.Eventually(t, "rows", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n = l.written; n < atLeast {
			return fmt.Errorf("there are %d, %w", n, l.failed)
		}
		return nil
	})
	return n
}

// end stops the client, checks that no insert has failed, and returns the number of rows.
func (l *ledger) end(t *testing.T) (written int) {
	t.Helper()
	l.cancel()
	l.done.Wait()
	if l.failed != nil {
		t.Errorf("a client was refused after %d rows: %v", l.written, l.failed)
	}
	return l.written
}

// isWhole checks that the restored table contains every row that was acknowledged before the backup, and the
// predecessor of each row.
func (l *ledger) isWhole(t *testing.T, before, written int) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(l.server.Client().FirstAnswer(t, "SELECT COUNT(*) FROM ledger")))
	if err != nil || n < before || n > written {
		t.Errorf("want from %d rows to %d, got %d, %v", before, written, n, err)
	}
	t.Logf("%d rows were there before, %d are in the backup, %d at its end", before, n, written)
	if torn := l.server.Client().MustQuery(t,
		fmt.Sprintf("SELECT COUNT(*) FROM ledger a LEFT JOIN ledger b ON b.id = a.before_it WHERE a.id > 1 AND b.id IS "+
			"NULL OR a.id > %d", n)); strings.TrimSpace(torn) != "0" {
		t.Errorf("%s rows are torn", torn)
	}
}
