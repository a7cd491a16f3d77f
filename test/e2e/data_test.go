package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestEverythingComesBack sees that a server is after a re-create what it was before the delete, by all that it says of
// itself.
func TestEverythingComesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, everythingComesBack)
}

func everythingComesBack(t *testing.T, composition string) {
	t.Helper()
	s := newServer(t, composition)
	s.create(t)
	s.version(t)
	s.script(t, testdata(t, "rich.sql"))
	before := s.portrait(t)
	if n := strings.Count(before, "\n"); n < 200 || !strings.Contains(before, "100000") {
		t.Fatalf("that is no portrait of the data, with its %d lines:\n%s", n, before)
	}
	folder := s.folder(t)
	s.delete(t)
	s.proven(t, 1)
	s.nothingLeft(t)
	s.heard(t, "InstanceProtected", "VolumeRetained", "BackupAnnounced", "ServerStopped", "BackupStarted", "BackupProven", "DataReleased", "NameFreed")
	folder(t)
	s.create(t)
	s.firstAnswer(t, "SELECT 1")
	if diff := cmp.Diff(before, s.portrait(t)); diff != "" {
		t.Errorf("the server is not what it was (-before, +after):\n%s", diff)
	}
	s.accountsWork(t)
	s.eventsRun(t)
}

// accountsWork, and can do what they could, and no more.
func (s *server) accountsWork(t *testing.T) {
	t.Helper()
	app := *s
	app.user, app.password, app.database = "app", `app's "pass\word`, "shop"
	if got := app.mustQuery(t, "SELECT COUNT(*) FROM vacant; SELECT double_of(4)"); got != "0\n8\n" {
		t.Errorf("want what the account could read, got %q", got)
	}
	if _, err := app.query(t.Context(), app.password, "INSERT INTO vacant VALUES (1, 'x')"); err == nil || !strings.Contains(err.Error(), "ERROR 1142") {
		t.Errorf("want the account refused, got %v", err)
	}
	for _, password := range []string{"first", "second"} {
		app.user = "turning"
		if _, err := app.query(t.Context(), password, "SELECT id FROM customers LIMIT 1"); err != nil {
			t.Errorf("want both passwords of an account accepted: %v", err)
		}
	}
}

// eventsRun is about the event that counts seconds.
func (s *server) eventsRun(t *testing.T) {
	t.Helper()
	const count = "SELECT n FROM shop.ticks"
	before := s.mustQuery(t, count)
	eventually(t, "an event", func(ctx context.Context) error {
		now, err := s.query(ctx, s.password, count)
		if err == nil && now == before {
			err = errors.New("it has not run since the re-create")
		}
		return err
	})
}

// TestNoAcknowledgedRowIsLost deletes the claim under a client that writes on and on.
func TestNoAcknowledgedRowIsLost(t *testing.T) {
	t.Parallel()
	repeats(t, "all cells of the matrix have such a client")
	s := newServer(t, classComposition)
	s.create(t)
	s.version(t)
	s.mustQuery(t, "CREATE TABLE written (session INT, n INT, PRIMARY KEY (session, n))")
	w := s.startWriter(t, 0)
	eventually(t, "the writer", func(context.Context) error { return w.wrote(100) })
	s.delete(t)
	sessions := w.end()
	s.proven(t, 1)
	s.create(t)
	s.firstAnswer(t, "SELECT COUNT(*) FROM written")
	s.hasAcknowledged(t, sessions)
}

// hasAcknowledged rows of a writer's sessions, each of them.
func (s *server) hasAcknowledged(t *testing.T, sessions map[int]int) {
	t.Helper()
	total := 0
	for session, acknowledged := range sessions {
		got := s.mustQuery(t, fmt.Sprintf("SELECT COUNT(*) FROM written WHERE session = %d AND n <= %d", session, acknowledged))
		if want := fmt.Sprintln(acknowledged); got != want {
			t.Errorf("session %d: want %s rows, each of which was acknowledged, got %s", session, want, got)
		}
		total += acknowledged
	}
	t.Logf("%d rows were acknowledged in %d sessions", total, len(sessions))
}

// A writer commits row after row, and notes those that the server has acknowledged. It logs in again whenever it loses
// the server.
type writer struct {
	stop context.CancelFunc
	// pause after each row.
	pause time.Duration
	done  sync.WaitGroup

	mu sync.Mutex
	// acknowledged rows of each session.
	acknowledged []int
}

func (s *server) startWriter(t *testing.T, pause time.Duration) *writer {
	t.Helper()
	client, err := s.logIn(t.Context(), "--unbuffered", "--verbose", "--verbose", "--verbose")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w := &writer{stop: stop, pause: pause}
	w.done.Go(func() {
		for ctx.Err() == nil {
			w.session(ctx, s, client)
		}
	})
	t.Cleanup(func() { w.end() })
	return w
}

// session until the server is lost, or there is none.
func (w *writer) session(ctx context.Context, s *server, client []string) {
	w.mu.Lock()
	w.acknowledged = append(w.acknowledged, 0)
	session := len(w.acknowledged) - 1
	w.mu.Unlock()
	answers := &lineWriter{line: func(line string) {
		if strings.HasPrefix(line, "Query OK, 1 row affected") {
			w.mu.Lock()
			w.acknowledged[session]++
			w.mu.Unlock()
		}
	}}
	err := stream(ctx, s.namespace, "client", &inserts{session: session, pause: w.pause}, answers, client...)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // A client that is refused does not knock without a break.
		}
	}
}

// wrote complains as long as fewer rows than that are acknowledged.
func (w *writer) wrote(want int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := 0
	for _, n := range w.acknowledged {
		got += n
	}
	if got < want {
		return fmt.Errorf("only %d rows are acknowledged", got)
	}
	return nil
}

// end the writing. The result has the number of acknowledged rows of each session that had any.
func (w *writer) end() map[int]int {
	w.stop()
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[int]int{}
	for session, n := range w.acknowledged {
		if n > 0 {
			out[session] = n
		}
	}
	return out
}

// inserts reads as statements without an end.
type inserts struct {
	session, n int
	pause      time.Duration
	rest       string
}

var _ io.Reader = &inserts{}

// Read never fails.
func (i *inserts) Read(p []byte) (int, error) {
	if i.rest == "" {
		time.Sleep(i.pause)
		i.n++
		i.rest = fmt.Sprintf("INSERT INTO written VALUES (%d, %d);\n", i.session, i.n)
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}

// TestNobodySeesAHalfRestoredServer asks from the moment of the re-create, as an account that came with the data: there
// is no answer before there are all accounts, grants, databases, tables and rows.
func TestNobodySeesAHalfRestoredServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	s.create(t)
	s.version(t)
	s.script(t, big)
	app := *s
	app.user, app.password, app.database = "app", "secret", "big"
	const all = "SELECT COUNT(*), BIT_XOR(CRC32(data)) FROM payload"
	before := app.mustQuery(t, all)
	s.delete(t)
	s.create(t)
	if got := app.firstAnswer(t, all); got != before {
		t.Errorf("want all rows in the first answer, %q, got %q", before, got)
	}
	s.restored(t)
}

// big is 64 MiB that nothing compresses.
const big = `CREATE DATABASE big;
CREATE USER app IDENTIFIED BY 'secret';
GRANT SELECT ON big.* TO app;
CREATE TABLE big.payload (id INT AUTO_INCREMENT PRIMARY KEY, data BLOB NOT NULL);
INSERT INTO big.payload (data) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 256)
  SELECT RANDOM_BYTES(1024) FROM n a, n b;`

// restored waits until the claim says that it was, from the newest backup.
func (s *server) restored(t *testing.T) {
	t.Helper()
	eventually(t, "the restore in the status", func(ctx context.Context) error {
		claim := s.claim.DeepCopy()
		if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		phase, _, _ := unstructured.NestedString(claim.Object, "status", "restore", "phase")
		if phase != "Succeeded" {
			return fmt.Errorf("its phase is %q", phase)
		}
		return nil
	})
}
