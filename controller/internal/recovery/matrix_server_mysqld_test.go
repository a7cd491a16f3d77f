//go:build mysqld

package recovery_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A box is a mysqld process that a test starts, with its own data directory and socket.
type box struct {
	*process.Process

	root rootfs.Root
	// dir contains the data directory d and the socket s.
	dir string
	// options are additional mysqld options. They also apply after a restart.
	options []string
	env     []string
	db      *sql.DB
}

// newBox initializes a data directory, and starts a server on it.
func newBox(t *testing.T, options, env []string) *box {
	t.Helper()
	b := &box{root: rootfs.Find(t), dir: recovery.NewServerDir(t), options: options, env: env}
	out, err := recovery.ServerCommand(b.root, "--no-defaults", "--datadir="+b.data(), "--initialize-insecure",
		"--innodb-redo-log-capacity=16M").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.start(t)
	return b
}

func (b *box) data() string { return filepath.Join(b.dir, "d") }

func (b *box) start(t *testing.T) {
	t.Helper()
	args := append([]string{"--no-defaults", "--datadir=" + b.data(), "--socket=" + filepath.Join(b.dir, "s"),
		"--pid-file=" + filepath.Join(b.dir, "p"), "--mysqlx=OFF", "--secure-file-priv=NULL", "--skip-networking",
		"--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-rows-query-log-events=ON",
		"--innodb-redo-log-capacity=16M", "--max-allowed-packet=64M"}, rootfs.SmallServer()...)
	cmd := recovery.ServerCommand(b.root, append(args, b.options...)...)
	cmd.Env = append(os.Environ(), b.env...)
	var err error
	b.Process, err = process.Start(cmd, &process.Log{Out: &bytes.Buffer{}})
	must(t, err)
	t.Cleanup(b.Kill)
	b.db = b.open(t, "root", "")
	for b.db.PingContext(t.Context()) != nil {
		if b.Ended() {
			t.Fatalf("the server did not start: %s", b.Log.Complaints())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (b *box) open(t *testing.T, user, password string) *sql.DB {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net, config.Addr = user, password, "unix", filepath.Join(b.dir, "s")
	config.MultiStatements, config.Logger = true, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// restart starts the server again after it was killed or stopped.
func (b *box) restart(t *testing.T) {
	t.Helper()
	b.Kill()
	b.start(t)
}

// stop stops the server cleanly.
func (b *box) stop(t *testing.T) {
	t.Helper()
	must(t, b.Stop())
	select {
	case <-b.Done:
	case <-time.After(2 * time.Minute):
		t.Fatal("the server did not stop")
	}
}

func (b *box) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

// tryUnlogged runs a statement that is not in the binary log.
func (b *box) tryUnlogged(ctx context.Context, statement string) error {
	c, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // The server rolls back.
	_, err = c.ExecContext(ctx, "SET sql_log_bin = 0; "+statement+"; SET sql_log_bin = 1")
	return err
}

func (b *box) text(t *testing.T, query string) string {
	t.Helper()
	var text string
	must(t, b.db.QueryRowContext(t.Context(), query).Scan(&text))
	return text
}

func (b *box) executed(t *testing.T) binlog.Set {
	t.Helper()
	out, err := binlog.ParseSet(b.text(t, "SELECT @@gtid_executed"))
	must(t, err)
	return out
}

// rows returns the result of a query, each row as text.
func (b *box) rows(t *testing.T, query string) []string {
	t.Helper()
	found, err := b.db.QueryContext(t.Context(), query)
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

// A txn is a transaction in the binary log of the server.
type txn struct {
	gtid string
	// id is the client's name of the transaction, or "" if a client of the test did not run it.
	id string
	// isPassword is true if it changes the password of the account app.
	isPassword bool
}

var (
	clientID   = regexp.MustCompile(`/\* (w\d+-\d+) \*/`)
	binlogFile = regexp.MustCompile(`^binlog\.\d+$`)
)

// readLog returns the transactions in the binary log of the server in their order. Only the server itself interprets
// its log, so the result does not depend on package binlog. Log files with a name before first are skipped.
func (b *box) readLog(t *testing.T, first string) (out []txn, last string) {
	t.Helper()
	files, err := os.ReadDir(b.data())
	must(t, err)
	for _, f := range files {
		if !binlogFile.MatchString(f.Name()) || f.Name() < first {
			continue
		}
		last = f.Name()
		found, err := b.db.QueryContext(t.Context(), "SHOW BINLOG EVENTS IN '"+f.Name()+"'")
		must(t, err)
		for found.Next() {
			var name, kind, info string
			var position, server, end int64
			must(t, found.Scan(&name, &position, &kind, &server, &end, &info))
			out = addEvent(out, kind, info)
		}
		must(t, errors.Join(found.Err(), found.Close()))
	}
	return out, last
}

func addEvent(all []txn, kind, info string) []txn {
	if strings.HasPrefix(kind, "Gtid") {
		return append(all, txn{gtid: strings.Trim(strings.TrimPrefix(info, "SET @@SESSION.GTID_NEXT= "), "'")})
	}
	if len(all) == 0 || kind != "Rows_query" && kind != "Query" {
		return all
	}
	last := &all[len(all)-1]
	if m := clientID.FindStringSubmatch(info); m != nil && last.id == "" {
		last.id = m[1]
	}
	last.isPassword = last.isPassword || strings.Contains(info, "ALTER USER 'app'")
	return all
}

// A noted transaction contains the times that a client has recorded for it.
type noted struct {
	begun time.Time
	// acknowledged is the time at which the commit returned, or the zero time.
	acknowledged time.Time
}

// Clients run transactions, and record when the server has acknowledged each of them.
type clients struct {
	box *box
	// pause stops the clients between two transactions.
	pause sync.RWMutex

	mu    sync.Mutex
	noted map[string]noted

	cancel context.CancelFunc
	all    sync.WaitGroup
}

const definitions = "CREATE DATABASE shop; CREATE TABLE shop.a (id VARCHAR(40) PRIMARY KEY, v INT, pad LONGTEXT); " +
	"CREATE TABLE shop.b (id VARCHAR(40) PRIMARY KEY); CREATE USER app IDENTIFIED BY 'first'"

// startClients starts count clients, which write to the box. first is the number of the first client.
func startClients(t *testing.T, b *box, first, count int, rest time.Duration) *clients {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &clients{box: b, noted: map[string]noted{}, cancel: cancel}
	for w := first; w < first+count; w++ {
		c.all.Go(func() { c.run(ctx, t, w, rest) })
	}
	t.Cleanup(c.stop)
	return c
}

func (c *clients) stop() {
	c.cancel()
	c.all.Wait()
}

func (c *clients) note(id string, change func(*noted)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.noted[id]
	change(&n)
	c.noted[id] = n
}

func (c *clients) noteOf(id string) noted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noted[id]
}

// count returns the number of acknowledged transactions.
func (c *clients) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.noted {
		if !one.acknowledged.IsZero() {
			n++
		}
	}
	return n
}

func (c *clients) run(ctx context.Context, t *testing.T, w int, rest time.Duration) {
	t.Helper()
	db := c.box.open(t, "root", "")
	var conn *sql.Conn
	for n := 1; ctx.Err() == nil; n++ {
		c.pause.RLock()
		var err error
		if conn == nil {
			conn, err = db.Conn(ctx)
		}
		if err == nil {
			err = c.transact(conn, w, n)
		}
		c.pause.RUnlock()
		if err != nil {
			if conn != nil { // Its transaction may be open.
				_ = conn.Raw(func(any) error { return driver.ErrBadConn })
				conn = nil
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(rest)
	}
}

// clientTime is the timeout of a transaction.
const clientTime = 20 * time.Second

func (c *clients) transact(conn *sql.Conn, w, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), clientTime)
	defer cancel()
	id := fmt.Sprintf("w%d-%d", w, n)
	c.note(id, func(one *noted) { one.begun = time.Now() })
	if _, err := conn.ExecContext(ctx, statementOf(w, n)); err != nil {
		return err
	}
	c.note(id, func(one *noted) { one.acknowledged = time.Now() })
	return nil
}

// isDefinition reports whether a client's transaction n creates a table. isLarge reports whether transaction n of
// client w is larger than a segment.
func isDefinition(n int) bool { return n%15 == 0 }

func isLarge(w, n int) bool { return w == 0 && n%50 == 40 }

func statementOf(w, n int) string {
	id := fmt.Sprintf("w%d-%d", w, n)
	switch {
	case isDefinition(n):
		return fmt.Sprintf("CREATE TABLE shop.ddl_w%d_%d (id INT) /* %s */", w, n, id)
	case isLarge(w, n):
		return fmt.Sprintf("INSERT INTO shop.a (id, v, pad) VALUES ('%s', 0, REPEAT('x', 5000000)) /* %s */", id, id)
	}
	text := fmt.Sprintf("BEGIN; INSERT INTO shop.a (id, v, pad) VALUES ('%s', 0, 'x') /* %s */; "+
		"INSERT INTO shop.b (id) VALUES ('%s'); ", id, id, id)
	if n%3 == 0 {
		text += fmt.Sprintf("UPDATE shop.a SET v = v + 1 WHERE id = 'w%d-%d'; ", w, n-1)
	}
	if n%4 == 0 {
		text += fmt.Sprintf("DELETE FROM shop.b WHERE id = 'w%d-%d'; ", w, n-2)
	}
	return text + "COMMIT"
}

// contentOf returns the expected content of the tables after the given transactions.
func contentOf(all []txn) []string {
	a, b, tables := map[string]int{}, map[string]bool{}, map[string]bool{}
	long := map[string]bool{}
	for _, one := range all {
		w, n, ok := parseID(one.id)
		switch {
		case !ok:
			continue
		case isDefinition(n):
			tables[fmt.Sprintf("ddl_w%d_%d", w, n)] = true
			continue
		}
		a[one.id] = 0
		if isLarge(w, n) {
			long[one.id] = true
			continue
		}
		b[one.id] = true
		if earlier := fmt.Sprintf("w%d-%d", w, n-1); n%3 == 0 {
			if v, exists := a[earlier]; exists {
				a[earlier] = v + 1
			}
		}
		if n%4 == 0 {
			delete(b, fmt.Sprintf("w%d-%d", w, n-2))
		}
	}
	out := make([]string, 0, len(a)+len(b)+len(tables))
	for id, v := range a {
		size := 1
		if long[id] {
			size = 5000000
		}
		out = append(out, fmt.Sprintf("a %s %d %d", id, v, size))
	}
	for id := range b {
		out = append(out, "b "+id)
	}
	for name := range tables {
		out = append(out, "table "+name)
	}
	slices.Sort(out)
	return out
}

func parseID(id string) (w, n int, ok bool) {
	head, tail, ok := strings.Cut(strings.TrimPrefix(id, "w"), "-")
	if !ok {
		return 0, 0, false
	}
	w, err1 := strconv.Atoi(head)
	n, err2 := strconv.Atoi(tail)
	return w, n, err1 == nil && err2 == nil
}

// content returns the actual content of the tables, in the format of contentOf.
func (b *box) content(t *testing.T) []string {
	t.Helper()
	out := slices.Concat(b.rows(t, "SELECT CONCAT('a ', id, ' ', v, ' ', LENGTH(pad)) FROM shop.a"),
		b.rows(t, "SELECT CONCAT('b ', id) FROM shop.b"),
		b.rows(t, "SELECT CONCAT('table ', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' "+
			"AND TABLE_NAME LIKE 'ddl%'"))
	slices.Sort(out)
	return out
}

// clockLibrary changes the clock of a program that preloads it. Timeouts of condition variables are not changed, as
// they are not when the clock of a machine steps.
const clockLibrary = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long *offset;
__attribute__((constructor)) static void init(void) {
	const char *name = getenv("CLOCK_OFFSET");
	int f = name ? open(name, O_RDONLY) : -1;
	void *m = f < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, f, 0);
	if (m != MAP_FAILED) offset = m;
}
static long seconds(void) { return offset ? *offset : 0; }
int clock_gettime(clockid_t c, struct timespec *t) {
	int r = syscall(SYS_clock_gettime, c, t);
	if (!r && c == CLOCK_REALTIME) t->tv_sec += seconds();
	return r;
}
int gettimeofday(struct timeval *t, void *zone) {
	struct timespec s;
	clock_gettime(CLOCK_REALTIME, &s);
	t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000;
	return 0;
}
time_t time(time_t *out) {
	struct timespec s;
	clock_gettime(CLOCK_REALTIME, &s);
	if (out) *out = s.tv_sec;
	return s.tv_sec;
}
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until) {
	static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	if (!next) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	struct timespec s = *until;
	pthread_condattr_t a; (void)a;
	if (s.tv_sec > 1000000000) s.tv_sec -= seconds();
	return next(c, m, &s);
}
`

// A serverClock is the clock of one server, which tests can set.
type serverClock struct {
	file, library string

	mu     sync.Mutex
	offset time.Duration
}

// newServerClock compiles clockLibrary. It returns nil if there is no C compiler.
func newServerClock(t *testing.T) *serverClock {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		return nil
	}
	dir := recovery.NewServerDir(t)
	c := &serverClock{file: filepath.Join(dir, "offset"), library: filepath.Join(dir, "clock.so")}
	source := filepath.Join(dir, "clock.c")
	must(t, os.WriteFile(source, []byte(clockLibrary), 0o644)) //nolint:gosec // The server reads it.
	must(t, os.WriteFile(c.file, make([]byte, 8), 0o644))      //nolint:gosec // The server reads it.
	out, err := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-O1", "-o", c.library, source, "-ldl").
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, os.Chmod(dir, 0o755)) //nolint:gosec // The server reads it.
	return c
}

func (c *serverClock) env() []string {
	if c == nil {
		return nil
	}
	return []string{"LD_PRELOAD=" + c.library, "CLOCK_OFFSET=" + c.file}
}

// step moves the clock of the server by d.
func (c *serverClock) step(t *testing.T, d time.Duration) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.Write(binary.LittleEndian.AppendUint64(nil, uint64(int64(c.offset/time.Second)))) //nolint:gosec // A number of seconds.
	must(t, errors.Join(err, f.Close()))
}

// difference returns the difference between the clock of the server and the true time.
func (c *serverClock) difference() time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// removeIdentity removes auto.cnf with the server_uuid, as the restore of a backup does.
func removeIdentity(t *testing.T, data string) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(data, "auto.cnf")))
}

func renameDir(from, target string) error { return os.Rename(from, target) }
