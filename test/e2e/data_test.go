package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestEverythingComesBack checks that a recreated server has the same data, accounts and settings as before the
// deletion.
func TestEverythingComesBack(t *testing.T) {
	t.Parallel()
	framework.OnBoth(t, everythingComesBack)
}

func everythingComesBack(t *testing.T, composition string) {
	t.Helper()
	s := framework.NewServer(t, composition)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().RunScript(t, testdata(t, "rich.sql"))
	before := portraitOf(t, s)
	if n := strings.Count(before, "\n"); n < 200 || !strings.Contains(before, "100000") {
		t.Fatalf("that is no portrait of the data, with its %d lines:\n%s", n, before)
	}
	dir := watchDir(t, s)
	writesNoImage(t, s)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	// Wait for the restore test before the claim is recreated. Otherwise the new instance could use the volume first,
	// because a pending restore test does not reserve it.
	hasVerdict(t, s, "True")
	leavesNothing(t, s)
	s.HasEvents(t, "InstanceProtected", "VolumeRetained", "BackupAnnounced", "ServerStopped", "BackupStarted",
		"BackupVerified", "DataReleased", "NameFreed")
	dir(t)
	s.Create(t)
	s.Client().FirstAnswer(t, "SELECT 1")
	if diff := cmp.Diff(before, portraitOf(t, s)); diff != "" {
		t.Errorf("the server is not what it was (-before, +after):\n%s", diff)
	}
	hasWorkingAccounts(t, s)
	hasRunningEvents(t, s)
	listsBackup(t, s)
	if composition == framework.ClassComposition {
		if err := framework.SecurityIs(t.Context(), s.Namespace, "restricted"); err != nil {
			t.Errorf("some pod had to do more than the strictest level lets it: %v", err)
		}
	}
}

// listsBackup checks that the status of the claim lists the backups, so that users do not need permissions for
// BackupRecords.
func listsBackup(t *testing.T, s *framework.Server) {
	t.Helper()
	s.Eventually(t, "the backup in the claim's status", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(s.Claim), s.Claim); err != nil {
			return err
		}
		listed, _, err := unstructured.NestedSlice(s.Claim.Object, "status", "backups", "recent")
		if err != nil || len(listed) != 1 {
			return fmt.Errorf("it has %v, %w", listed, err)
		}
		first, _ := listed[0].(map[string]any)
		if size, _ := first["size"].(string); first["phase"] != framework.PhaseVerified || first["completionTime"] == nil ||
			size == "" {
			return fmt.Errorf("it has %v", first)
		}
		if last, _, _ := unstructured.NestedMap(s.Claim.Object, "status", "backups", "last"); last["name"] != first["name"] {
			return fmt.Errorf("the last one is %v", last)
		}
		return nil
	})
}

// writesNoImage checks that the server can write its data, its socket and its temporary files, but no other files in
// its image.
func writesNoImage(t *testing.T, s *framework.Server) {
	t.Helper()
	server := s.Pods().MustFindServer(t)
	for path, may := range map[string]bool{"/tmp/x": true, "/var/run/mysqld/x": true, "/var/lib/mysql-files/x": true,
		"/x": false, "/usr/local/bin/x": false, "/etc/x": false} {
		if out, err := framework.Exec(t.Context(), s.Namespace, server.Name, "", "touch", path); (err == nil) != may ||
			!may && !strings.Contains(err.Error(), "Read-only file system") {
			t.Errorf("touch %s: want %t, got %q, %v", path, may, out, err)
		}
	}
}

// hasWorkingAccounts checks that the accounts on the restored server have the same passwords and privileges as before.
func hasWorkingAccounts(t *testing.T, s *framework.Server) {
	t.Helper()
	app := *s
	app.User, app.Password, app.Database = "app", `app's "pass\word`, "shop"
	if got := app.Client().MustQuery(t, "SELECT COUNT(*) FROM vacant; SELECT double_of(4)"); got != "0\n8\n" {
		t.Errorf("want what the account could read, got %q", got)
	}
	if _, err := app.Client().Query(t.Context(), app.Password, "INSERT INTO vacant VALUES (1, 'x')"); err == nil ||
		!strings.Contains(err.Error(), "ERROR 1142") {
		t.Errorf("want the account refused, got %v", err)
	}
	for _, password := range []string{"first", "second"} {
		app.User = "turning"
		if _, err := app.Client().Query(t.Context(), password, "SELECT id FROM customers LIMIT 1"); err != nil {
			t.Errorf("want both passwords of an account accepted: %v", err)
		}
	}
}

// hasRunningEvents checks that an event of MySQL's event scheduler, which counts seconds, runs on the restored server.
func hasRunningEvents(t *testing.T, s *framework.Server) {
	t.Helper()
	const count = "SELECT n FROM shop.ticks"
	before := s.Client().MustQuery(t, count)
	framework.Eventually(t, "an event", func(ctx context.Context) error {
		now, err := s.Client().Query(ctx, s.Password, count)
		if err == nil && now == before {
			err = errors.New("it has not run since the re-create")
		}
		return err
	})
}

// TestNoAcknowledgedRowIsLost deletes the claim while a client continuously writes rows.
func TestNoAcknowledgedRowIsLost(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "all cells of the matrix have such a client")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().MustQuery(t, "CREATE TABLE written (session INT, n INT, PRIMARY KEY (session, n))")
	w := startWriter(t, s, 0)
	framework.Eventually(t, "the writer", func(context.Context) error { return w.wrote(100) })
	s.Delete(t)
	sessions := w.end()
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	s.Client().FirstAnswer(t, "SELECT COUNT(*) FROM written")
	hasAcknowledgedRows(t, s, sessions)
}

// hasAcknowledgedRows checks that the server has every row that it has acknowledged to a writer. sessions contains the
// number of acknowledged rows of each of the writer's sessions.
func hasAcknowledgedRows(t *testing.T, s *framework.Server, sessions map[int]int) {
	t.Helper()
	total := 0
	for session, acknowledged := range sessions {
		got := s.Client().MustQuery(t,
			fmt.Sprintf("SELECT COUNT(*) FROM written WHERE session = %d AND n <= %d", session, acknowledged))
		if want := fmt.Sprintln(acknowledged); got != want {
			t.Errorf("session %d: want %s rows, each of which was acknowledged, got %s", session, want, got)
		}
		total += acknowledged
	}
	t.Logf("%d rows were acknowledged in %d sessions", total, len(sessions))
}

// A writer is a client that commits rows one by one and counts the rows that the server has acknowledged. It logs in
// again when it loses the connection.
type writer struct {
	stop context.CancelFunc
	// pause is the delay after each row.
	pause time.Duration
	done  sync.WaitGroup

	mu sync.Mutex
	// acknowledged contains the number of acknowledged rows of each session.
	acknowledged []int
}

// knocks is a shell script that waits until the server's port is open, and then runs a client. It checks the port in
// the pod, because a separate exec for each check takes half a second of CPU time, mostly in the container runtime.
// With twenty stopped servers, such checks used all CPUs.
const knocks = `for i in {1..50}; do timeout 2 bash -c "exec 3<>/dev/tcp/$0/3306" 2>/dev/null && exec "$@"; sleep 0.2; done; exit 1`

func startWriter(t *testing.T, s *framework.Server, pause time.Duration) *writer {
	t.Helper()
	client, err := s.Client().LogIn(t.Context(), "--unbuffered", "--verbose", "--verbose", "--verbose")
	if err != nil {
		t.Fatal(err)
	}
	client = append([]string{"bash", "-c", knocks, s.Name}, client...)
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

// session logs in and writes rows until the connection is lost or refused.
func (w *writer) session(ctx context.Context, s *framework.Server, client []string) {
	w.mu.Lock()
	w.acknowledged = append(w.acknowledged, 0)
	session := len(w.acknowledged) - 1
	w.mu.Unlock()
	answers := &framework.LineWriter{Line: func(line string) {
		if strings.HasPrefix(line, "Query OK, 1 row affected") {
			w.mu.Lock()
			w.acknowledged[session]++
			w.mu.Unlock()
		}
	}}
	err := framework.ExecStream(ctx, s.Namespace, "client", &inserts{session: session, pause: w.pause}, answers, client...)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // A client that is refused must not retry immediately.
		}
	}
}

// wrote returns an error if the server has acknowledged fewer than want rows.
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

// end stops the writer. It returns the number of acknowledged rows of each session that has any.
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

// inserts is the standard input of the writer's mysql client. It returns INSERT statements without end.
type inserts struct {
	session, n int
	pause      time.Duration
	rest       string
}

var _ io.Reader = &inserts{}

// Read returns the next INSERT statement, after a pause. It never returns an error.
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

// TestClientsNeverSeeHalfRestoredServer queries the server as soon as it is recreated, with an account that is part of
// the data. The server must not answer before all accounts, grants, databases, tables and rows are restored.
func TestClientsNeverSeeHalfRestoredServer(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().RunScript(t, big)
	app := *s
	app.User, app.Password, app.Database = "app", "secret", "big"
	const all = "SELECT COUNT(*), BIT_XOR(CRC32(data)) FROM payload"
	before := app.Client().MustQuery(t, all)
	s.Delete(t)
	s.Create(t)
	if got := app.Client().FirstAnswer(t, all); got != before {
		t.Errorf("want all rows in the first answer, %q, got %q", before, got)
	}
	isRestored(t, s)
}

// big contains SQL statements that create 64 MiB of data, which cannot be compressed.
const big = `CREATE DATABASE big;
CREATE USER app IDENTIFIED BY 'secret';
GRANT SELECT ON big.* TO app;
CREATE TABLE big.payload (id INT AUTO_INCREMENT PRIMARY KEY, data BLOB NOT NULL);
INSERT INTO big.payload (data) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 256)
  SELECT RANDOM_BYTES(1024) FROM n a, n b;`

// isRestored waits until the claim reports that its restore has succeeded.
func isRestored(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the restore in the status", func(ctx context.Context) error {
		claim := s.Claim.DeepCopy()
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		phase, _, _ := unstructured.NestedString(claim.Object, "status", "restore", "phase")
		if phase != "Succeeded" {
			return fmt.Errorf("its phase is %q", phase)
		}
		return nil
	})
}

// portraitOf returns a text that describes the complete content of a server, so that two servers can be compared.
func portraitOf(t *testing.T, s *framework.Server) string {
	t.Helper()
	portrait := s.Client().RunScript(t, s.Client().RunScript(t, testdata(t, "portrait.sql")))
	return rootsHash.ReplaceAllString(portrait, "$1 AS …")
}

// rootsHash matches root's password hash. The hash has a new salt each time the password is set, which also happens
// in a restore. MySQL prints the hash as a quoted string if it is not printed as a hexadecimal number.
var rootsHash = regexp.MustCompile(
	"(?m)(^CREATE USER `root`@.* IDENTIFIED WITH '[a-z0-9_]+') AS (0x[0-9A-F]+|'(?:[^'\\\\]|\\\\.)*')")

// testdata returns a file of the testdata directory.
func testdata(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
