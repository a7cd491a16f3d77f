// Command load runs statements on a MySQL server from many connections, and prints how many of them succeeded. The
// tests copy it to a pod next to the server. It creates its own tables.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// rows is the number of rows of the table that is sorted, grouped and joined. Each row has about 500 bytes. A temporary
	// table with all rows is smaller than tmp_table_size, so that only the server's total limits their memory.
	rows = 1 << 14
	// blobs is the number of rows with blobSize bytes. They are larger than the buffer pool of a server with 1 GiB of
	// memory.
	blobs    = 2000
	blobSize = 256 << 10
	// statements is the number of prepared statements that each connection keeps open.
	statements = 10
)

func main() {
	address := flag.String("address", "", "address of the server")
	database := flag.String("database", "", "name of the database")
	connections := flag.Int("connections", 140, "number of connections")
	duration := flag.Duration("duration", 3*time.Minute, "how long the statements run")
	flag.Parse()
	password, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = run(context.Background(), *address, *database, string(password), *connections, *duration)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, database, password string, connections int, duration time.Duration) error {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = "root", password, "tcp", address, database
	c.TLSConfig, c.MaxAllowedPacket, c.InterpolateParams = "preferred", 64<<20, false
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close() //nolint:errcheck // The program ends.
	db.SetMaxIdleConns(connections)
	if err := fill(ctx, db); err != nil {
		return err
	}
	l := &load{db: db, until: time.Now().Add(duration), counts: map[string]int{}}
	var workers sync.WaitGroup
	for i := range connections {
		workers.Go(func() { l.work(ctx, i) })
	}
	workers.Wait()
	for _, kind := range slices.Sorted(maps.Keys(l.counts)) {
		fmt.Printf("%s %d\n", kind, l.counts[kind])
	}
	return errors.Join(l.failures...)
}

// fill creates the tables.
func fill(ctx context.Context, db *sql.DB) error {
	for _, s := range []string{
		"CREATE TABLE IF NOT EXISTS load_rows (id INT AUTO_INCREMENT PRIMARY KEY, grp INT, pad VARCHAR(500), KEY (grp))",
		"CREATE TABLE IF NOT EXISTS load_blobs (id INT AUTO_INCREMENT PRIMARY KEY, data LONGBLOB)",
		"TRUNCATE load_rows", "TRUNCATE load_blobs",
		"INSERT INTO load_rows (grp, pad) VALUES (1, REPEAT(HEX(RANDOM_BYTES(16)), 15))",
	} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	for n := 1; n < rows; n *= 2 {
		if _, err := db.ExecContext(ctx, "INSERT INTO load_rows (grp, pad) SELECT FLOOR(RAND() * 1000), REPEAT(HEX(RANDOM_BYTES(16)), "+
			"15) FROM load_rows"); err != nil {
			return err
		}
	}
	for range blobs {
		if _, err := db.ExecContext(ctx, "INSERT INTO load_blobs (data) SELECT REPEAT(RANDOM_BYTES(1024), 256)"); err != nil {
			return err
		}
	}
	return nil
}

// A load counts the statements of all connections by their kind, and collects their errors.
type load struct {
	db    *sql.DB
	until time.Time

	mu       sync.Mutex
	counts   map[string]int
	failures []error
}

// maxFailures is the number of errors after which the load ends.
const maxFailures = 20

func (l *load) record(kind string, err error) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, fmt.Errorf("%s at %s: %w", kind, time.Now().Format(time.TimeOnly), err))
	} else {
		l.counts[kind]++
	}
	return len(l.failures) >= maxFailures || time.Now().After(l.until)
}

// work runs statements of all kinds on one connection until the end.
func (l *load) work(ctx context.Context, number int) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		l.record("connect", err)
		return
	}
	defer conn.Close() //nolint:errcheck // The program ends.
	w := &worker{conn: conn, number: number, blob: []byte(strings.Repeat("x", blobSize))}
	if l.record("prepare", w.prepare(ctx)) {
		return
	}
	kinds := []struct {
		name string
		run  func(context.Context) error
	}{{"group", w.group}, {"sort", w.sort}, {"join", w.join}, {"result", w.result}, {"blob", w.insert}, {"point", w.point}}
	for n := number; ; n++ {
		if k := kinds[n%len(kinds)]; l.record(k.name, k.run(ctx)) {
			return
		}
	}
}

// upTo returns a random number that is less than n.
func upTo(n int) int {
	return rand.IntN(n) //nolint:gosec // The load needs no secret numbers.
}

// A worker is one connection.
type worker struct {
	conn   *sql.Conn
	number int
	blob   []byte
	open   []*sql.Stmt
}

// prepare opens prepared statements, as libraries do that cache them for each connection.
func (w *worker) prepare(ctx context.Context) error {
	for i := range statements {
		query := fmt.Sprintf("SELECT id, grp, pad, %d FROM load_rows WHERE id = ? AND grp >= ? ORDER BY grp LIMIT 10", i)
		s, err := w.conn.PrepareContext(ctx, query) //nolint:sqlclosecheck // It stays open as long as the connection.
		if err != nil {
			return err
		}
		w.open = append(w.open, s)
	}
	return nil
}

// group needs an internal temporary table with one row for each row of the table.
func (w *worker) group(ctx context.Context) error {
	return w.read(ctx, "SELECT SUBSTR(pad, 1, 400) p, COUNT(*) c, MAX(id) FROM load_rows GROUP BY p ORDER BY c, p LIMIT 10")
}

func (w *worker) sort(ctx context.Context) error {
	return w.read(ctx, "SELECT id, pad FROM load_rows ORDER BY REVERSE(pad) LIMIT 10000, 100")
}

// join creates a temporary table, and joins it without an index.
func (w *worker) join(ctx context.Context) error {
	for _, s := range []string{"DROP TEMPORARY TABLE IF EXISTS chosen",
		fmt.Sprintf("CREATE TEMPORARY TABLE chosen AS SELECT id, grp, pad FROM load_rows WHERE grp BETWEEN %d AND %[1]d + 20",
			upTo(900))} {
		if _, err := w.conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return w.read(ctx, "SELECT MAX(a.id), MAX(b.pad) FROM chosen a JOIN load_rows b ON a.grp + 0 = b.grp + 1 WHERE b.id < 5000")
}

// result reads 5 MB of rows and 4 MiB of blobs.
func (w *worker) result(ctx context.Context) error {
	if err := w.read(ctx, fmt.Sprintf("SELECT id, grp, pad FROM load_rows LIMIT %d, 10000", upTo(rows/4))); err != nil {
		return err
	}
	return w.read(ctx, fmt.Sprintf("SELECT data FROM load_blobs WHERE id BETWEEN %d AND %[1]d + 15", upTo(blobs-15)))
}

func (w *worker) insert(ctx context.Context) error {
	_, err := w.conn.ExecContext(ctx, "INSERT INTO load_blobs (data) VALUES (?)", w.blob)
	return err
}

// point changes a row and reads others with the prepared statements.
func (w *worker) point(ctx context.Context) error {
	if _, err := w.conn.ExecContext(ctx, "UPDATE load_rows SET grp = grp + 1 WHERE id = ?", w.number+1); err != nil {
		return err
	}
	for _, s := range w.open {
		r, err := s.QueryContext(ctx, upTo(rows), 0)
		if err != nil {
			return err
		}
		if err := discard(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) read(ctx context.Context, statement string) error {
	r, err := w.conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	return discard(r)
}

func discard(r *sql.Rows) error {
	for r.Next() {
	}
	return errors.Join(r.Err(), r.Close())
}
