//go:build mysqld

package undo

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
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

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close() //nolint:errcheck // A test.
	return l.Addr().(*net.TCPAddr).Port
}

// A node is a mysqld process that a test starts, with its own data directory.
type node struct {
	*process.Process

	dir string
	db  *sql.DB
}

func startNode(t *testing.T, root rootfs.Root, template string, id int, options ...string) *node {
	t.Helper()
	n := &node{dir: newDir(t)}
	data := filepath.Join(n.dir, "d")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", template, data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, errors.Join(os.RemoveAll(filepath.Join(data, "auto.cnf"))))
	rootfs.Own(t, n.dir)
	var err error
	n.Process, err = process.Start(program(root, append(append([]string{"--no-defaults", "--datadir=" + data,
		"--socket=" + filepath.Join(n.dir, "s"), "--pid-file=" + filepath.Join(n.dir, "p"), "--mysqlx=OFF", "--secure-file-priv=NULL",
		"--server-id=" + strconv.Itoa(id), "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--event-scheduler=OFF",
		"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--innodb-buffer-pool-size=64M"}, rootfs.SmallServer()...),
		options...)...), &process.Log{Out: &bytes.Buffer{}})
	must(t, err)
	t.Cleanup(n.Kill)
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.MultiStatements, config.Logger = "root", "unix", filepath.Join(n.dir, "s"), true,
		&mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	must(t, err)
	n.db = sql.OpenDB(connector)
	t.Cleanup(func() { _ = n.db.Close() })
	for n.db.PingContext(t.Context()) != nil {
		if n.Ended() {
			t.Fatal(n.Log.Complaints())
		}
		time.Sleep(50 * time.Millisecond)
	}
	return n
}

func (n *node) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := n.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%.500s: %v", statement, err)
	}
}

func (n *node) executed(t *testing.T) binlog.Set {
	t.Helper()
	var text string
	must(t, n.db.QueryRowContext(t.Context(), "SELECT @@gtid_executed").Scan(&text))
	set, err := binlog.ParseSet(text)
	must(t, err)
	return set
}

// A fleet consists of three mysqld processes: the running server (living), and two of its replicas. They stop directly
// before and directly after the transaction to undo.
type fleet struct{ living, before, after *node }

func newFleet(t *testing.T) *fleet {
	t.Helper()
	root := rootfs.Find(t)
	template := filepath.Join(newDir(t), "d")
	if out, err := program(root, "--no-defaults", "--datadir="+template, "--initialize-insecure").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port := freePort(t)
	f := &fleet{living: startNode(t, root, template, 1, "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port))}
	f.living.exec(t, "CREATE USER copy IDENTIFIED BY 'copy'; GRANT REPLICATION SLAVE ON *.* TO copy")
	for i, target := range []**node{&f.before, &f.after} {
		*target = startNode(t, root, template, i+2, "--skip-networking", "--replica-parallel-workers=1", "--skip-replica-start",
			"--relay-log=r", "--skip-log-bin")
		(*target).exec(t, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='copy', "+
			"SOURCE_PASSWORD='copy', SOURCE_SSL=1, SOURCE_AUTO_POSITION=1", port))
	}
	return f
}

// stopAt replicates the data up to a transaction: one replica stops directly before it, and the other directly after
// it.
func (f *fleet) stopAt(t *testing.T, id string) {
	t.Helper()
	g, err := binlog.ParseGTID(id)
	must(t, err)
	f.before.exec(t, "START REPLICA UNTIL SQL_BEFORE_GTIDS = '"+id+"'")
	f.after.exec(t, "START REPLICA UNTIL SQL_AFTER_GTIDS = '"+id+"'")
	for _, n := range []*node{f.before, f.after} {
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			var state string
			must(t, n.db.QueryRowContext(t.Context(), "SELECT SERVICE_STATE FROM performance_schema.replication_applier_status").Scan(&state))
			if state == "OFF" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("a replica did not stop at %s", id)
			}
		}
		n.exec(t, "STOP REPLICA")
	}
	if f.before.executed(t).Has(g) || !f.after.executed(t).Has(g) || f.after.executed(t).Count() != f.before.executed(t).Count()+1 {
		t.Fatalf("%s: %s, %s", id, f.before.executed(t), f.after.executed(t))
	}
}

// A sheet is a table for the test. Each row has a number that determines its key.
type sheet struct {
	name, create string
	// key returns the condition that selects a row. values returns the columns and values of an INSERT of that row.
	key    func(i int) string
	values func(i int, entry string) string
	// number is an expression that returns the number of a row.
	number string
	// noDelete is true if writers must not delete rows, because rows of other tables refer to them.
	noDelete bool
	// isKeyless is true if the table has no key. Writers only insert rows in this case.
	isKeyless bool
}

// sheets returns the tables of the test. All have the columns note and n.
func sheets() []*sheet {
	text := func(i int) string {
		return fmt.Sprintf("'%s%d'", []string{"Ann ", "bob", "ÄÖ€😀 ", "x''y\\"}[i%4], i)
	}
	return []*sheet{
		{name: "types", number: "id", create: `CREATE TABLE types (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, note VARCHAR(100), n INT,
			a TINYINT, b SMALLINT UNSIGNED ZEROFILL, c MEDIUMINT, d BIGINT UNSIGNED, e DECIMAL(40,12), f FLOAT, g DOUBLE, h BIT(33), i DATE, j TIME(6),
			k DATETIME(6), l TIMESTAMP(3) NULL, m YEAR, nn CHAR(7) CHARACTER SET latin1, o VARCHAR(300) COLLATE utf8mb4_0900_ai_ci,
			p BINARY(5), q VARBINARY(300), r TINYBLOB, s MEDIUMTEXT, t LONGBLOB, u ENUM('x','ü'), v SET('p','q','r'), w JSON, x POINT, y GEOMETRY,
			z INT AS (a + 1) VIRTUAL, aa INT AS (a + 2) STORED, ab INT INVISIBLE DEFAULT 7,
			ad TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), ae VARCHAR(20) CHARACTER SET utf16, af FLOAT(10,3),
			INDEX ((CAST(w->'$.n' AS UNSIGNED))), FULLTEXT (s)) AUTO_INCREMENT = 500`,
			key: func(i int) string { return fmt.Sprintf("id = %d", i) },
			values: func(i int, entry string) string {
				if i%7 == 3 {
					return fmt.Sprintf("(id, note, n) VALUES (%d, %s, %d)", i, entry, i)
				}
				return fmt.Sprintf(`(id, note, n, a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, t, u, v, w, x, y, ab, ae, af) VALUES (%[1]d, %[2]s,
				%[1]d, %[1]d %% 100 - 50, 65535 - %[1]d, -8388608 + %[1]d, 18446744073709551615 - %[1]d, -1234567890123456789012345678.123456789012 + %[1]d,
				1.1e-30 * %[1]d, -2.7e300 / (%[1]d + 1), %[1]d * 3, '0000-00-00', '-838:59:59.000000', '9999-12-31 23:59:59.999999',
				'2026-01-01 00:00:00.123', IF(%[1]d %% 2, 0, 1999), 'äö', %[3]s, x'00ff', x'0027005c', x'', REPEAT('words ', %[1]d), REPEAT(x'00ff', 2000),
				'ü', 'p,r', '{"n": 5, "f": 1.0, "t": "ü\"''\\n"}', ST_SRID(POINT(%[1]d, 2), 4326 * (%[1]d %% 2)),
				ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'), %[1]d, 'ü€', 1.5 * %[1]d)`, i, entry, text(i))
			}},
		{name: "composite", number: "b", create: `CREATE TABLE composite (a VARCHAR(40) COLLATE utf8mb4_0900_ai_ci, b INT, note VARCHAR(100), n INT, u INT UNIQUE,
			PRIMARY KEY (a, b))`,
			key: func(i int) string { return fmt.Sprintf("a = %s AND b = %d", text(i), i) },
			values: func(i int, entry string) string {
				return fmt.Sprintf("(a, b, note, n, u) VALUES (%s, %d, %s, %d, IF(%d %% 5, %d, NULL))", text(i), i, entry, i, i, i)
			}},
		{name: "latin", number: "SUBSTRING_INDEX(k, 'é', -1)", create: `CREATE TABLE latin (k VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_german1_ci PRIMARY KEY,
			note VARCHAR(100), n INT) PARTITION BY KEY () PARTITIONS 3`,
			key: func(i int) string { return fmt.Sprintf("k = 'kÄé%d'", i) },
			values: func(i int, entry string) string {
				return fmt.Sprintf("(k, note, n) VALUES ('kÄé%d', %s, %d)", i, entry, i)
			}},
		{name: "bytes", number: "CONV(HEX(k), 16, 10)", create: `CREATE TABLE bytes (k BINARY(4) PRIMARY KEY, note VARCHAR(100), n INT)`,
			key: func(i int) string { return fmt.Sprintf("k = x'%08x'", i) },
			values: func(i int, entry string) string {
				return fmt.Sprintf("(k, note, n) VALUES (x'%08x', %s, %d)", i, entry, i)
			}},
		{name: "moments", number: "TIMESTAMPDIFF(DAY, '1990-01-01', k)",
			create: `CREATE TABLE moments (k DATETIME(3), d DECIMAL(5,2), note VARCHAR(100), n INT, UNIQUE KEY (k, d), KEY (n))`,
			key: func(i int) string {
				return fmt.Sprintf("k = '1990-01-01 00:00:00.5' + INTERVAL %d DAY AND d = -1.5", i)
			},
			values: func(i int, entry string) string {
				return fmt.Sprintf("(k, d, note, n) VALUES ('1990-01-01 00:00:00.5' + INTERVAL %d DAY, -1.5, %s, %d)", i, entry, i)
			}},
		{name: "parent", number: "id", noDelete: true, create: `CREATE TABLE parent (id INT PRIMARY KEY, note VARCHAR(100), n INT, boss INT,
			FOREIGN KEY (boss) REFERENCES parent (id))`,
			key: func(i int) string { return fmt.Sprintf("id = %d", i) },
			values: func(i int, entry string) string {
				return fmt.Sprintf("(id, note, n, boss) VALUES (%d, %s, %d, NULL)", i, entry, i)
			}},
		{name: "child", number: "id", noDelete: true, create: `CREATE TABLE child (id INT PRIMARY KEY, note VARCHAR(100), n INT, p INT NULL,
			FOREIGN KEY (p) REFERENCES parent (id) ON DELETE %[1]s ON UPDATE CASCADE)`,
			key: func(i int) string { return fmt.Sprintf("id = %d", i) },
			values: func(i int, entry string) string {
				return fmt.Sprintf("(id, note, n, p) VALUES (%d, %s, %d, %d)", i, entry, i, i)
			}},
		{name: "grandchild", number: "id", create: `CREATE TABLE grandchild (id INT PRIMARY KEY, note VARCHAR(100), n INT, c INT NOT NULL,
			FOREIGN KEY (c) REFERENCES child (id) ON DELETE CASCADE ON UPDATE CASCADE)`,
			key: func(i int) string { return fmt.Sprintf("id = %d", i) },
			values: func(i int, entry string) string {
				return fmt.Sprintf("(id, note, n, c) VALUES (%d, %s, %d, %d)", i, entry, i, i)
			}},
		{name: "keyless", number: "n", isKeyless: true, create: `CREATE TABLE keyless (note VARCHAR(100), n INT)`,
			key:    func(i int) string { return fmt.Sprintf("n = %d", i) },
			values: func(i int, entry string) string { return fmt.Sprintf("(note, n) VALUES (%s, %d)", entry, i) }},
	}
}

// accidents returns the transactions to undo.
func accidents() []string {
	return []string{
		"DELETE FROM types", "UPDATE types SET n = 7", "DELETE FROM types WHERE id % 3 = 0",
		"UPDATE types SET a = 1, b = 2, c = 3, d = 4, e = 5, f = 6.1, g = 7.1, h = 8, i = '2000-01-01', j = '00:00:01', k = NOW(6), " +
			"l = NOW(3), m = 2001, nn = 'é', o = UPPER(o), p = 'z', q = '', r = 'r', s = NULL, t = NULL, u = 'x', v = '', w = '{}', " +
			"x = POINT(3, 4), y = x, ab = 0, ae = 'é', af = 2.125",
		"UPDATE types SET a = NULL, e = NULL, f = NULL, g = -g, h = NULL, k = NULL, m = 0, o = NULL, t = '', w = NULL, x = NULL " +
			"WHERE id % 2",
		"TRUNCATE types", "DROP TABLE types", "REPLACE INTO types (id, note, n) SELECT id, 'replaced', 1 FROM types WHERE id % 4 = 0",
		"DELETE FROM composite", "UPDATE composite SET note = UPPER(note), n = -n", "UPDATE composite SET u = NULL", "DROP TABLE composite",
		"UPDATE composite SET a = UPPER(a)",
		"DELETE FROM latin", "UPDATE latin SET note = NULL WHERE n > 10", "TRUNCATE latin",
		"ALTER TABLE latin COALESCE PARTITION 2; DELETE FROM latin",
		"DELETE FROM bytes", "UPDATE bytes SET n = n + 1", "DROP TABLE bytes, latin",
		"DELETE FROM moments", "UPDATE moments SET note = 'oops', n = 0", "TRUNCATE moments",
		"DELETE FROM parent WHERE boss IS NULL AND id NOT IN (SELECT boss FROM (SELECT boss FROM parent WHERE boss IS NOT NULL) b)",
		"BEGIN; UPDATE parent SET boss = NULL; DELETE FROM parent; COMMIT",
		"BEGIN; UPDATE parent SET boss = NULL WHERE id % 2 = 0 OR boss % 2 = 0; UPDATE parent SET id = id + 1000 WHERE id % 2 = 0; COMMIT",
		"DELETE FROM child", "UPDATE child SET p = NULL, note = 'oops'", "UPDATE child SET p = 1",
		"DELETE FROM grandchild", "DROP TABLE grandchild", "UPDATE grandchild SET c = 2 WHERE id > 5",
		"DELETE FROM keyless", "TRUNCATE keyless", "DROP TABLE keyless", "DELETE FROM keyless WHERE n % 2",
		"BEGIN; DELETE FROM types WHERE id > 5; UPDATE bytes SET note = 'x'; DELETE FROM composite WHERE b < 20; COMMIT",
		"BEGIN; UPDATE child SET n = 0; INSERT INTO bytes VALUES (x'0000ffff', 'new', 1); DELETE FROM latin WHERE n % 2; COMMIT",
		"BEGIN; SET foreign_key_checks = 0; DELETE FROM parent WHERE id % 2; DELETE FROM child WHERE id % 2; " +
			"DELETE FROM grandchild WHERE id % 2; SET foreign_key_checks = 1; COMMIT",
	}
}

const (
	rowsOfSheet = 40
	writers     = 3
)

// A cell identifies a column of a row in a table of the test. The column is empty if it identifies the row.
type cell struct {
	sheet  string
	number int
	column string
}

// A scene is one test run: clients write to the tables, the accident runs, and its effects are undone.
type scene struct {
	*fleet

	schema string
	random *rand.Rand
	sheets []*sheet
	lock   sync.Mutex
	// written contains the last values that clients wrote after the accident. inserted and deleted contain the rows
	// that clients inserted or deleted last.
	written           map[cell]string
	inserted, deleted map[cell]bool
	count             int
	// gate blocks the writers while the accident runs.
	gate    sync.RWMutex
	isAfter bool
}

func (s *scene) conn(t *testing.T, n *node) *sql.Conn {
	t.Helper()
	c, err := n.db.Conn(t.Context())
	must(t, err)
	_, err = c.ExecContext(t.Context(), "USE "+s.schema+"; SET sql_mode = 'ALLOW_INVALID_DATES,NO_BACKSLASH_ESCAPES'")
	must(t, err)
	return c
}

// prepare creates the tables in a new schema, and inserts rows into them.
func (s *scene) prepare(t *testing.T) {
	t.Helper()
	s.living.exec(t, "CREATE DATABASE "+s.schema)
	c := s.conn(t, s.living)
	defer c.Close() //nolint:errcheck // A test.
	action := []string{"CASCADE", "SET NULL"}[s.random.IntN(2)]
	for _, one := range s.sheets {
		create := one.create
		if strings.Contains(create, "%[1]s") {
			create = fmt.Sprintf(create, action)
		}
		if strings.Contains(create, "UNIQUE KEY (k, d)") {
			create = strings.Replace(create, "k DATETIME(3), d DECIMAL(5,2)", "k DATETIME(3) NOT NULL, d DECIMAL(5,2) NOT NULL", 1)
		}
		list := []string{create}
		for i := 1; i <= rowsOfSheet; i++ {
			list = append(list, "INSERT INTO "+one.name+" "+one.values(i, fmt.Sprintf("'first %d'", i)))
		}
		if one.name == "keyless" {
			list = append(list, "INSERT INTO keyless SELECT * FROM keyless WHERE n % 3 = 0")
		}
		if one.name == "parent" {
			list = append(list, "UPDATE parent SET boss = id + 1 WHERE id % 5 = 1", "UPDATE parent SET boss = id - 1 WHERE id % 5 = 0",
				"UPDATE parent SET boss = id WHERE id = 7", "UPDATE parent SET boss = 9 WHERE id = 8", "UPDATE parent SET boss = 8 WHERE id = 9")
		}
		_, err := c.ExecContext(t.Context(), strings.Join(list, ";\n"))
		must(t, err)
	}
}

// write executes one random SQL statement of a writer.
func (s *scene) write(ctx context.Context, c *sql.Conn, r *rand.Rand, writer int) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	one := s.sheets[r.IntN(len(s.sheets))]
	number := 1 + r.IntN((rowsOfSheet+20)/writers)*writers + writer
	s.lock.Lock()
	s.count++
	token := fmt.Sprintf("later %d", s.count)
	s.lock.Unlock()
	row := cell{one.name, number, ""}
	action := r.IntN(4)
	statement := ""
	switch {
	case one.isKeyless, action == 0:
		statement = "INSERT INTO " + one.name + " " + one.values(number, "'"+token+"'")
	case action == 1 && !one.noDelete && !s.isInserted(row):
		statement = "DELETE FROM " + one.name + " WHERE " + one.key(number)
	case action == 2:
		_, digits, _ := strings.Cut(token, " ")
		token = "100" + digits
		statement = fmt.Sprintf("UPDATE %s SET n = %s WHERE %s", one.name, token, one.key(number))
	default:
		statement = fmt.Sprintf("UPDATE %s SET note = '%s' WHERE %s", one.name, token, one.key(number))
	}
	result, err := c.ExecContext(ctx, statement)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		if slices.Contains([]uint16{1062, 1452, 1146, 1213, 1205}, refused.Number) {
			return nil
		}
		return fmt.Errorf("%.200s: %w", statement, err)
	}
	if err != nil {
		return err
	}
	affected, err := result.RowsAffected()
	if err != nil || affected == 0 || !s.isAfter {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	switch {
	case strings.HasPrefix(statement, "INSERT"):
		if one.isKeyless {
			s.written[cell{one.name, number, token}] = token
			return nil
		}
		s.forget(row)
		s.inserted[row] = true
		s.written[cell{one.name, number, "note"}], s.written[cell{one.name, number, "n"}] = token, strconv.Itoa(number)
	case strings.HasPrefix(statement, "DELETE"):
		s.forget(row)
		s.deleted[row] = true
	case strings.Contains(statement, "SET note"):
		s.written[cell{one.name, number, "note"}] = token
	default:
		s.written[cell{one.name, number, "n"}] = token
	}
	return nil
}

// isInserted reports whether a writer has inserted a row after the accident. Without this information, a row that was
// inserted and deleted again would look like a row that was only deleted.
func (s *scene) isInserted(row cell) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.inserted[row]
}

func (s *scene) forget(row cell) {
	delete(s.inserted, row)
	delete(s.deleted, row)
	for _, column := range []string{"note", "n"} {
		delete(s.written, cell{row.sheet, row.number, column})
	}
}

// run lets the writers write until the function during returns.
func (s *scene) run(t *testing.T, during func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for writer := range writers {
		c := s.conn(t, s.living)
		r := rand.New(rand.NewPCG(s.random.Uint64(), 1)) //nolint:gosec // A test.
		group.Go(func() {
			defer c.Close() //nolint:errcheck // A test.
			for ctx.Err() == nil {
				if err := s.write(context.WithoutCancel(ctx), c, r, writer); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			}
		})
	}
	defer group.Wait()
	defer stop()
	during()
}

// contents returns all values of a table by row number and column. It returns nothing if the table does not exist.
func (s *scene) contents(t *testing.T, n *node, one *sheet) map[int]map[string]string {
	t.Helper()
	c := s.conn(t, n)
	defer c.Close() //nolint:errcheck // A test.
	more := ""
	if one.name == "types" {
		more = ", ab, f * 1e0 ff"
	}
	found, err := c.QueryContext(t.Context(), "SELECT *, "+one.number+" number"+more+" FROM "+one.name)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number == 1146 {
		return nil
	}
	must(t, err)
	defer found.Close() //nolint:errcheck // A test.
	columns, err := found.Columns()
	must(t, err)
	out := map[int]map[string]string{}
	for found.Next() {
		values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		must(t, found.Scan(targets...))
		row := map[string]string{}
		for i, v := range values {
			row[columns[i]] = v.String
			if !v.Valid {
				row[columns[i]] = "NULL"
			}
		}
		number, err := strconv.Atoi(row["number"])
		must(t, err)
		if one.isKeyless { // A table without a key can contain several equal rows.
			count, _ := strconv.Atoi(out[number][row["note"]])
			if out[number] == nil {
				out[number] = map[string]string{}
			}
			out[number][row["note"]] = strconv.Itoa(count + 1)
			continue
		}
		out[number] = row
	}
	must(t, found.Err())
	return out
}

// want returns the expected contents of a table after the undo: the rows before the accident, with all later writes of
// clients.
func (s *scene) want(one *sheet, before, after map[int]map[string]string) map[int]map[string]string {
	out := map[int]map[string]string{}
	for _, from := range []map[int]map[string]string{after, before} { // The undo keeps the rows that the accident inserted.
		for number, row := range from {
			out[number] = map[string]string{}
			for column, value := range row {
				out[number][column] = value
			}
		}
	}
	if one.isKeyless {
		for c := range s.written {
			if c.sheet == one.name {
				if out[c.number] == nil {
					out[c.number] = map[string]string{}
				}
				out[c.number][c.column] = "1"
			}
		}
		return out
	}
	for row := range s.deleted {
		if row.sheet == one.name {
			delete(out, row.number)
		}
	}
	for row := range s.inserted {
		if row.sheet == one.name {
			out[row.number] = map[string]string{"new": "yes"}
		}
	}
	for c, value := range s.written {
		if c.sheet == one.name && out[c.number] != nil {
			out[c.number][c.column] = value
		}
	}
	return out
}

// TestRealUndo undoes accidents while clients write. ALL=1 runs 200 of them, and SEED=N only one.
func TestRealUndo(t *testing.T) {
	f := newFleet(t)
	first, count := time.Now().UnixNano()%1_000_000, 6
	if os.Getenv("ALL") != "" {
		count = 200 // Each accident five times.
	}
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseInt(text, 10, 64)
		must(t, err)
		first, count = seed, 1
	}
	for k := range count {
		seed := first + int64(k)
		t.Run(strconv.FormatInt(seed, 10), func(t *testing.T) { f.play(t, seed) })
	}
}

func (f *fleet) play(t *testing.T, seed int64) {
	t.Helper()
	s := &scene{fleet: f, schema: fmt.Sprintf("s%d", seed), random: rand.New(rand.NewPCG(uint64(seed), 0)), sheets: sheets(), //nolint:gosec // A test.
		written: map[cell]string{}, inserted: map[cell]bool{}, deleted: map[cell]bool{}}
	accident := accidents()[int(seed)%len(accidents())]
	t.Log(accident)
	s.prepare(t)
	defer f.living.exec(t, "DROP DATABASE "+s.schema)
	id := ""
	pause := func() { time.Sleep(time.Duration(20+s.random.IntN(100)) * time.Millisecond) }
	var plan *Plan
	s.run(t, func() {
		pause()
		id = s.cause(t, accident)
		pause()
		f.stopAt(t, id)
		plan = s.undo(t)
		pause()
	})
	for _, one := range s.sheets {
		before, after := s.contents(t, f.before, one), s.contents(t, f.after, one)
		s.compare(t, one, s.want(one, before, after), s.contents(t, f.living, one))
	}
	s.checkOrphans(t)
	s.again(t, plan)
}

// cause runs the accident while no writer runs, and returns its GTID. If the accident has two statements, the first one
// only prepares the second.
func (s *scene) cause(t *testing.T, accident string) string {
	t.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	c := s.conn(t, s.living)
	defer c.Close() //nolint:errcheck // A test.
	preparing, rest, ok := strings.Cut(accident, "; ")
	if ok && !strings.HasPrefix(accident, "BEGIN") {
		_, err := c.ExecContext(t.Context(), preparing)
		must(t, err)
		accident = rest
	}
	executed := s.living.executed(t)
	_, err := c.ExecContext(t.Context(), accident)
	must(t, err)
	s.isAfter = true
	added := s.living.executed(t).Without(executed)
	if added.Count() != 1 {
		t.Fatalf("the accident is %s", added)
	}
	return added.String()
}

func (s *scene) undo(t *testing.T) *Plan {
	t.Helper()
	p := &Planner{}
	for n, target := range map[*node]**Server{s.before: &p.Before, s.after: &p.After, s.living: &p.Current} {
		var err error
		*target, err = Open(t.Context(), n.db)
		must(t, err)
		defer (*target).Close() //nolint:errcheck // A test.
	}
	plan, err := p.Plan(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { _ = plan.Close() })
	for _, refused := range plan.Refused {
		t.Error(refused)
	}
	results, err := plan.Apply(t.Context(), p.Current)
	must(t, err)
	for i, one := range plan.Tables {
		t.Logf("%s: %+v %+v", one.Before.Name, one.Counts, results[i])
	}
	return plan
}

// compare checks that a table has the expected rows. For a row that a client inserted, it compares only the columns
// that clients set.
func (s *scene) compare(t *testing.T, one *sheet, want, got map[int]map[string]string) {
	t.Helper()
	errs := 0
	fail := func(text string, args ...any) {
		if errs++; errs <= 5 {
			t.Errorf(one.name+": "+text, args...)
		}
	}
	for number, row := range want {
		switch {
		case got[number] == nil:
			fail("row %d is missing: %.300q", number, row)
			continue
		case row["new"] != "":
			row = map[string]string{"note": row["note"], "n": row["n"]}
		case row["ad"] != "":
			if _, isWritten := s.written[cell{one.name, number, "note"}]; isWritten || s.written[cell{one.name, number, "n"}] != "" {
				row["ad"] = got[number]["ad"] // The server has set the column to the time of the later write.
			}
		}
		for column, value := range row {
			if got[number][column] != value {
				fail("row %d has %s = %.100q, want %.100q", number, column, got[number][column], value)
			}
		}
	}
	for number, row := range got {
		if want[number] == nil {
			fail("row %d exists: %.300q", number, row)
		}
	}
}

func (s *scene) checkOrphans(t *testing.T) {
	t.Helper()
	c := s.conn(t, s.living)
	defer c.Close() //nolint:errcheck // A test.
	for _, query := range []string{
		"SELECT COUNT(*) FROM child c LEFT JOIN parent p ON c.p = p.id WHERE c.p IS NOT NULL AND p.id IS NULL",
		"SELECT COUNT(*) FROM grandchild g LEFT JOIN child c ON g.c = c.id WHERE c.id IS NULL",
		"SELECT COUNT(*) FROM parent a LEFT JOIN parent b ON a.boss = b.id WHERE a.boss IS NOT NULL AND b.id IS NULL",
	} {
		var n int
		must(t, c.QueryRowContext(t.Context(), query).Scan(&n))
		if n > 0 {
			t.Errorf("%s: %d", query, n)
		}
	}
}

// again checks that a second undo changes nothing. It skips tables without a key, because a second undo would insert
// their rows again.
func (s *scene) again(t *testing.T, first *Plan) {
	t.Helper()
	for _, one := range first.Tables {
		if len(one.key) == 0 {
			return
		}
	}
	p := &Planner{}
	for n, target := range map[*node]**Server{s.before: &p.Before, s.after: &p.After, s.living: &p.Current} {
		var err error
		*target, err = Open(t.Context(), n.db)
		must(t, err)
		defer (*target).Close() //nolint:errcheck // A test.
	}
	plan, err := p.Plan(t.Context(), nil)
	must(t, err)
	defer plan.Close() //nolint:errcheck // A test.
	for _, one := range plan.Tables {
		deleted := int64(0) // These rows were deleted by a writer after the undo.
		for row := range s.deleted {
			if row.sheet == one.Before.Table {
				deleted++
			}
		}
		if one.Insert > deleted || one.Update > 0 {
			t.Errorf("a second undo would change %s: %+v", one.Before.Name, one.Counts)
		}
	}
}
