//go:build mysqld

package recovery

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func program(root rootfs.Root, args ...string) *exec.Cmd {
	args = append(args[:1:1], append([]string{
		"--lc-messages-dir=" + filepath.Join(root.Path, "usr", "share", "mysql"),
		"--plugin-dir=" + filepath.Join(root.Path, "usr", "lib", "mysql", "plugin"),
	}, args[1:]...)...)
	return root.Command("usr/sbin/mysqld", args...)
}

func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "k") //nolint:usetesting // A socket's path is at most 107 bytes.
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	rootfs.Own(t, dir)
	return dir
}

// An instance is a mysqld process that a test starts, and whose binary log is archived.
type instance struct {
	*process.Process

	root rootfs.Root
	dir  string
	db   *sql.DB
}

// newInstance starts a server with additional options.
func newInstance(t *testing.T, options ...string) *instance {
	t.Helper()
	return newInstanceOf(t, rootfs.Find(t), options...)
}

// newInstanceOf starts mysqld from the root file system of an image.
func newInstanceOf(t *testing.T, root rootfs.Root, options ...string) *instance {
	t.Helper()
	i := &instance{root: root, dir: newDir(t)}
	out, err := program(i.root, "--no-defaults", "--datadir="+filepath.Join(i.dir, "d"),
		"--initialize-insecure").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	i.start(t, options...)
	i.exec(t, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
	i.exec(t, "CREATE DATABASE shop")
	return i
}

func (i *instance) start(t *testing.T, options ...string) {
	t.Helper()
	var err error
	i.Process, err = process.Start(
		program(i.root, append([]string{"--no-defaults", "--datadir=" + filepath.Join(i.dir, "d"),
			"--socket=" + i.socket(), "--pid-file=" + filepath.Join(i.dir, "p"), "--mysqlx=OFF", "--secure-file-priv=NULL",
			"--skip-networking", "--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"}, options...)...),
		&process.Log{Out: &bytes.Buffer{}})
	must(t, err)
	t.Cleanup(i.Kill)
	i.db = i.open(t, i.socket())
	for i.db.PingContext(t.Context()) != nil {
		if i.Ended() {
			t.Fatal(i.Log.Complaints())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (i *instance) socket() string { return filepath.Join(i.dir, "s") }

func (i *instance) open(t *testing.T, socket string) *sql.DB {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.MultiStatements, config.Logger = "root", "unix", socket, true,
		&mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (i *instance) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := i.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// copy clones the data of the running server into a new directory, as an online backup does.
func (i *instance) copy(t *testing.T) string {
	t.Helper()
	dir := newDir(t)
	i.exec(t, "CLONE LOCAL DATA DIRECTORY = '"+filepath.Join(dir, "data")+"'")
	return dir
}

// An archiving is an archiver that runs in the background.
type archiving struct {
	*logarchive.Archiver

	bucket *store.Bucket
	server *s3memory.Server
	mu     sync.Mutex
	latest logarchive.Progress
	stop   context.CancelFunc
	ended  chan error
}

const logPrefix = "v1/ns/xr/log"

// archive starts an archiver that stores the server's binary log in an S3 server in memory.
func (i *instance) archive(t *testing.T, identity *age.X25519Identity) *archiving {
	t.Helper()
	return i.archiveFrom(t, identity, binlog.Source{Address: i.socket(), User: "root", ServerID: 77})
}

// archiveFrom is like archive, with another connection to the server.
func (*instance) archiveFrom(t *testing.T, identity *age.X25519Identity, from binlog.Source) *archiving {
	t.Helper()
	m := s3memory.New(t)
	b, err := store.Open(m.Settings())
	must(t, err)
	a := &archiving{bucket: b, server: m, ended: make(chan error, 1)}
	a.Archiver = &logarchive.Archiver{
		Reader: logarchive.Reader{Bucket: b, Key: store.NewSigningKey(), Log: logPrefix}, Now: time.Now,
		Connect: func(ctx context.Context) (logarchive.Stream, binlog.State, error) {
			s, err := binlog.Connect(ctx, from)
			if err != nil {
				return nil, binlog.State{}, err
			}
			return s, s.State, nil
		},
		Report: func(p logarchive.Progress) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.latest = p
		},
	}
	if identity != nil {
		a.Recipients = []age.Recipient{identity.Recipient()}
	}
	a.run(t)
	return a
}

// run starts the archiver in the background, and waits until it has begun a timeline.
func (a *archiving) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a.stop = stop
	a.latest = logarchive.Progress{}
	go func() { a.ended <- a.Run(ctx) }()
	for a.progress().Timeline.Prefix == "" {
		select {
		case err := <-a.ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (a *archiving) progress() logarchive.Progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest
}

// end stops the archiver. Before that, the archiver stores everything that it has received.
func (a *archiving) end(t *testing.T) {
	t.Helper()
	a.stop()
	must(t, <-a.ended)
}

// await waits until the archive has all transactions of the server.
func (a *archiving) await(t *testing.T, i *instance) {
	t.Helper()
	want := i.executed(t)
	for end := time.Now().Add(time.Minute); ; {
		got, err := binlog.ParseSet(a.progress().GTIDs)
		must(t, err)
		if got.Contains(want) {
			return
		}
		select {
		case err := <-a.ended:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("the archive has %s, want %s", got, want)
		}
	}
}

func (i *instance) executed(t *testing.T) binlog.Set {
	t.Helper()
	var text string
	must(t, i.db.QueryRowContext(t.Context(), "SELECT @@gtid_executed").Scan(&text))
	out, err := binlog.ParseSet(text)
	must(t, err)
	return out
}

// A plainSource reads the archived log directly from the bucket. In a cluster, pods read it through a gateway.
type plainSource struct {
	*store.Bucket

	identity *age.X25519Identity
}

func (s plainSource) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	return s.Read(ctx, key, 0)
}

func (s plainSource) Decrypt(_ context.Context, _ string, raw io.Reader) (io.Reader, error) {
	return age.Decrypt(raw, s.identity)
}

// recovery returns a Recovery of the data in copied to a target. It uses the newest timeline of the archive.
func (a *archiving) recovery(t *testing.T, i *instance, copied string, target Target,
	identity *age.X25519Identity) *Recovery {
	t.Helper()
	all, err := a.Timelines(t.Context())
	must(t, err)
	last, err := a.Last(t.Context(), all[len(all)-1])
	must(t, err)
	r := &Recovery{Data: filepath.Join(copied, "data"), Scratch: newDir(t), Target: target, Output: &bytes.Buffer{},
		Source: plainSource{a.bucket, identity},
		Log:    Log{Timeline: last.Timeline, Last: last.Number, Digest: last.Digest, Until: last.Time}}
	must(t, os.RemoveAll(filepath.Join(r.Data, "auto.cnf")))
	r.command = func(_ string, args ...string) *exec.Cmd {
		rootfs.Own(t, r.Data)
		rootfs.Own(t, r.Scratch)
		return program(i.root, args...)
	}
	return r
}

// rows returns the rows of a query as text.
func rows(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	found, err := db.QueryContext(t.Context(), query)
	must(t, err)
	defer found.Close() //nolint:errcheck // found.Err returns the error.
	out := []string{}
	for found.Next() {
		var text string
		must(t, found.Scan(&text))
		out = append(out, text)
	}
	must(t, found.Err())
	return out
}

// order returns the GTIDs in the binary log of the server, in their order. It is independent of package binlog.
func (i *instance) order(t *testing.T) []string {
	t.Helper()
	out := []string{}
	for _, file := range rows(t, i.db, "SELECT FILE FROM (SELECT SUBSTRING_INDEX(FILE_NAME, '/', -1) FILE FROM "+
		"performance_schema.file_instances WHERE EVENT_NAME = 'wait/io/file/sql/binlog') f ORDER BY FILE") {
		found, err := i.db.QueryContext(t.Context(), "SHOW BINLOG EVENTS IN '"+file+"'")
		must(t, err)
		for found.Next() {
			var name, kind, info string
			var position, server, end int64
			must(t, found.Scan(&name, &position, &kind, &server, &end, &info))
			if strings.HasPrefix(kind, "Gtid") {
				out = append(out, strings.Trim(strings.TrimPrefix(info, "SET @@SESSION.GTID_NEXT= "), "'"))
			}
		}
		must(t, found.Err())
		_ = found.Close()
	}
	return out
}

// A writer is a client that sets the GTID of each of its transactions itself. A row contains the GTID of its
// transaction.
type writer struct {
	source string
	// acknowledged contains the times at which the commits of the transactions returned, and begun the times at which
	// they began.
	acknowledged []time.Time
	begun        []time.Time
}

func (w *writer) run(ctx context.Context, t *testing.T, db *sql.DB) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // The server rolls back.
	for n := 1; ctx.Err() == nil; n++ {
		w.begun = append(w.begun, time.Now())
		id := fmt.Sprintf("%s:%d", w.source, n)
		_, err := c.ExecContext(t.Context(), fmt.Sprintf("SET gtid_next = '%s'; BEGIN; INSERT INTO shop.a (id) VALUES ('%s'); "+
			"INSERT INTO shop.b (id) VALUES ('%s'); COMMIT; SET gtid_next = 'AUTOMATIC'", id, id, id))
		if err != nil {
			return err
		}
		w.acknowledged = append(w.acknowledged, time.Now())
	}
	return nil
}

// write starts count writers in the background. The returned function stops the writers and returns them.
func (i *instance) write(t *testing.T, count int) (stop func() []*writer) {
	t.Helper()
	i.exec(t, "CREATE TABLE IF NOT EXISTS shop.a (id VARCHAR(80) PRIMARY KEY); CREATE TABLE IF NOT EXISTS shop.b LIKE shop.a")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	out := []*writer{}
	for range count {
		w := &writer{source: uuid.NewString()}
		out = append(out, w)
		all.Go(func() {
			if err := w.run(ctx, t, i.db); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	return func() []*writer {
		cancel()
		all.Wait()
		return out
	}
}

// serve starts a server on recovered data, as the server of an instance does, and returns a connection.
func (i *instance) serve(t *testing.T, copied string) *sql.DB {
	t.Helper()
	next := &instance{root: i.root, dir: newDir(t)}
	must(t, os.Rename(filepath.Join(copied, "data"), filepath.Join(next.dir, "d")))
	next.start(t)
	return next.db
}

// TestRealRecovery checks recoveries to GTIDs and to times, while writers run and while the archiver is stopped and
// started again. The recovered rows must be exactly those of the transactions up to the target, in the order of the
// server's own log.
func TestRealRecovery(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	must(t, err)
	i := newInstance(t)
	a := i.archive(t, identity)
	stop := i.write(t, 4)
	time.Sleep(time.Second)
	copies := []string{i.copy(t), i.copy(t), i.copy(t)}
	time.Sleep(time.Second)
	a.end(t)
	time.Sleep(time.Second)
	a.run(t)
	moment := time.Now()
	time.Sleep(time.Second)
	writers := stop()
	a.await(t, i)
	a.end(t)
	order := i.order(t)
	t.Logf("%d transactions", len(order))

	middle := len(order) * 3 / 4
	tests := map[string]string{
		"GTID": order[middle],
		"Last": order[len(order)-1],
		"Time": moment.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
	}
	k := 0
	for name, text := range tests {
		copied := copies[k]
		k++
		t.Run(name, func(t *testing.T) {
			target, err := ParseTarget(text)
			must(t, err)
			r := a.recovery(t, i, copied, target, identity)
			start := time.Now()
			result, err := r.runWith(t.Context(), "")
			if err != nil {
				t.Fatalf("%v\n%s", err, r.Output)
			}
			t.Logf("%d transactions in %s", result.Transactions, time.Since(start))
			a.checkPreview(t, r, result)
			if left, err := filepath.Glob(filepath.Join(r.Data, "*relay*")); err != nil || len(left) > 0 {
				t.Errorf("files are left: %v, %v", left, err)
			}
			db := i.serve(t, copied)
			end := slices.Index(order, result.Last.GTID.String())
			if target.Time == 0 && order[end] != text {
				t.Errorf("the last transaction is %s, want %s", order[end], text)
			}
			want := []string{}
			for _, id := range order[:end+1] {
				for _, w := range writers {
					if strings.HasPrefix(id, w.source) {
						want = append(want, id)
					}
				}
			}
			slices.Sort(want)
			for _, table := range []string{"a", "b"} {
				if got := rows(t, db, "SELECT id FROM shop."+table+" ORDER BY id"); !slices.Equal(got, want) {
					t.Errorf("table %s has %d rows, want %d", table, len(got), len(want))
				}
			}
			if name == "Time" {
				checkTimes(t, writers, want, moment)
			}
		})
	}
}

// checkPreview checks that the preview of a recovery contains the same transactions as its result.
func (a *archiving) checkPreview(t *testing.T, r *Recovery, result Result) {
	t.Helper()
	last, err := a.Last(t.Context(), r.Log.Timeline)
	must(t, err)
	p, err := NewPreview(t.Context(), r.Target, Base{Begun: time.UnixMicro(0)}, Line{Last: last}, a.Reader, r.Source)
	must(t, err)
	if diff := cmp.Diff(withoutLength(result.Last), withoutLength(p.Last)) + cmp.Diff(withoutLength(result.Next),
		withoutLength(p.Next)); diff != "" || p.Unknown != "" {
		t.Errorf("%s the result, -want, and the preview, +got:\n%s", p.Unknown, diff)
	}
	if p.Transactions < result.Transactions {
		t.Errorf("%d transactions were applied, but the preview has %d", result.Transactions, p.Transactions)
	}
}

// checkTimes checks that rows include all that was acknowledged before a time, and nothing that was begun after it.
func checkTimes(t *testing.T, writers []*writer, got []string, moment time.Time) {
	t.Helper()
	isPresent := map[string]bool{}
	for _, id := range got {
		isPresent[id] = true
	}
	for _, w := range writers {
		for n := range w.acknowledged {
			id := fmt.Sprintf("%s:%d", w.source, n+1)
			switch {
			case w.acknowledged[n].Before(moment) && !isPresent[id]:
				t.Errorf("transaction %s was acknowledged before the time, but is missing", id)
			case w.begun[n].After(moment) && isPresent[id]:
				t.Errorf("transaction %s was begun after the time", id)
			}
		}
	}
}
