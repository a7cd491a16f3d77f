//go:build mysqld

package recovery

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// allTypes is a table with all column types, and statements that change it.
const allTypes = `CREATE TABLE shop.types (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT,
 d BIGINT UNSIGNED, e DECIMAL(40,12), f FLOAT, g DOUBLE, h BIT(33), i DATE, j TIME(6), k DATETIME(6), l TIMESTAMP(3) NULL, m YEAR,
 n CHAR(7) CHARACTER SET latin1, o VARCHAR(300), p BINARY(5), q VARBINARY(300), r TINYBLOB, s MEDIUMTEXT, t LONGBLOB,
 u ENUM('x','y'), v SET('p','q','r'), w JSON, x POINT, y GEOMETRY, z INT AS (a + 1) VIRTUAL, aa INT AS (a + 2) STORED,
 ab INT INVISIBLE DEFAULT 7, ac UUID_TYPE, INDEX ((CAST(w->'$.n' AS UNSIGNED))), FULLTEXT (s))`

// steps returns the SQL statements of the workload. They are executed in this order on one connection.
func steps() []string {
	types := strings.Replace(allTypes, "ac UUID_TYPE", "ac VARBINARY(16)", 1)
	return []string{
		types,
		`INSERT INTO shop.types (a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,ac) VALUES
		 (-5, 65535, -8388608, 18446744073709551615, -1234567890123456789012345678.123456789012, 1.5e-30, -2.5e300, b'1010',
		 '2026-02-28', '-838:59:59.000000', '9999-12-31 23:59:59.999999', '2026-01-01 00:00:00.123', 1999, 'äö', 'ü€😀', 'ab', x'00ff', x'00',
		 REPEAT('words ', 2000), REPEAT(x'00', 70000), 'y', 'p,r', '{"n": 5, "long": "` + strings.Repeat("x", 3000) + `"}', POINT(1, 2),
		 ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'), UUID_TO_BIN(UUID())), (NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,
		 NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)`,
		"SET binlog_row_value_options = PARTIAL_JSON",
		"UPDATE shop.types SET w = JSON_SET(w, '$.n', 6) WHERE w IS NOT NULL",
		"UPDATE shop.types SET w = JSON_REMOVE(w, '$.long') WHERE w IS NOT NULL",
		"SET binlog_row_value_options = ''",
		"SET binlog_row_image = MINIMAL", "UPDATE shop.types SET o = 'minimal' WHERE id = 1", "SET binlog_row_image = FULL",
		"CREATE TABLE shop.copy AS SELECT id, o, d FROM shop.types",
		"CREATE TABLE shop.log (n INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(80), at TIMESTAMP(6) DEFAULT NOW(6), r DOUBLE)",
		"CREATE TRIGGER shop.t1 AFTER INSERT ON shop.copy FOR EACH ROW INSERT INTO shop.log (what, r) VALUES (NEW.o, RAND())",
		"INSERT INTO shop.copy SELECT id + 100, UUID(), d FROM shop.types",
		`CREATE PROCEDURE shop.fill(IN n INT) BEGIN DECLARE k INT DEFAULT 0; WHILE k < n DO
		 INSERT INTO shop.log (what, r) VALUES (CONCAT('p', k), RAND()); SET k = k + 1; END WHILE; END`,
		"CALL shop.fill(5)",
		"CREATE FUNCTION shop.twice(n INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA " +
			"BEGIN INSERT INTO shop.log (what) VALUES ('f'); RETURN 2 * n; END",
		"SELECT shop.twice(4)",
		"CREATE VIEW shop.seen AS SELECT what FROM shop.log",
		"CREATE EVENT shop.tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.log (what) VALUES ('event')",
		"CREATE EVENT shop.never ON SCHEDULE EVERY 1 HOUR DISABLE DO DELETE FROM shop.log",
		"CREATE USER 'app'@'%' IDENTIFIED BY 'first' REQUIRE SSL PASSWORD HISTORY 3",
		"CREATE ROLE reader; GRANT SELECT ON shop.* TO reader; GRANT reader TO 'app'@'%'; SET DEFAULT ROLE reader TO 'app'@'%'",
		"GRANT INSERT (what), UPDATE (r) ON shop.log TO 'app'@'%'; GRANT EXECUTE ON PROCEDURE shop.fill TO 'app'@'%'",
		"ALTER USER 'app'@'%' IDENTIFIED BY 'second' RETAIN CURRENT PASSWORD",
		"ALTER USER 'app'@'%' DISCARD OLD PASSWORD",
		"GRANT BACKUP_ADMIN, CONNECTION_ADMIN ON *.* TO 'app'@'%'; REVOKE CONNECTION_ADMIN ON *.* FROM 'app'@'%'",
		"CREATE TEMPORARY TABLE shop.tmp (id INT); INSERT INTO shop.tmp VALUES (1), (2)",
		"INSERT INTO shop.copy (id, o, d) SELECT id + 1000, 'tmp', 1 FROM shop.tmp", "DROP TEMPORARY TABLE shop.tmp",
		"FLUSH BINARY LOGS",
		"SET SESSION binlog_transaction_compression = ON",
		"INSERT INTO shop.log (what) SELECT REPEAT('c', 80) FROM shop.types a, shop.types b, shop.types c",
		"SET SESSION binlog_transaction_compression = OFF",
		"XA START 'one'; INSERT INTO shop.log (what) VALUES ('xa1'); XA END 'one'; XA PREPARE 'one'", "XA COMMIT 'one'",
		"XA START 'two'; INSERT INTO shop.log (what) VALUES ('xa2'); XA END 'two'; XA PREPARE 'two'", "XA ROLLBACK 'two'",
		"XA START 'four'; INSERT INTO shop.log (what) VALUES ('xa4'); XA END 'four'; XA COMMIT 'four' ONE PHASE",
		"SET gtid_next = 'AUTOMATIC:tagged'; INSERT INTO shop.log (what) VALUES ('tag'); SET gtid_next = AUTOMATIC",
		"LOAD DATA LOCAL INFILE 'Reader::rows' INTO TABLE shop.log FIELDS TERMINATED BY ',' (what, r)",
		"BEGIN; INSERT INTO shop.log (what) VALUES ('s1'); SAVEPOINT s; INSERT INTO shop.log (what) VALUES ('s2'); ROLLBACK TO s; COMMIT",
		"ALTER TABLE shop.copy ADD COLUMN extra INT DEFAULT 3, ADD INDEX (extra), ALGORITHM=INPLACE",
		"RENAME TABLE shop.copy TO shop.copy2", "TRUNCATE shop.copy2", "ANALYZE TABLE shop.log",
		"CREATE TABLE shop.parts (id INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
		"INSERT INTO shop.parts VALUES (1), (11)", "ALTER TABLE shop.parts DROP PARTITION p0",
		"CREATE TABLE shop.parent (id INT PRIMARY KEY); CREATE TABLE shop.child (id INT PRIMARY KEY, " +
			"p INT, FOREIGN KEY (p) REFERENCES shop.parent (id) ON DELETE CASCADE)",
		"INSERT INTO shop.parent VALUES (1), (2); INSERT INTO shop.child VALUES (1, 1), (2, 2)", "DELETE FROM shop.parent WHERE id = 1",
		"CREATE TABLE shop.old (id INT PRIMARY KEY, b TEXT) ENGINE=MyISAM", "INSERT INTO shop.old VALUES (1, 'x'), (2, 'y')",
		"UPDATE shop.old SET b = 'z' WHERE id = 2",
		"CREATE DATABASE other CHARACTER SET latin1; " +
			"CREATE TABLE other.x (id INT PRIMARY KEY); INSERT INTO other.x VALUES (1); DROP DATABASE other",
		"ALTER EVENT shop.tick DISABLE", "DROP TRIGGER shop.t1", "SET PASSWORD FOR 'app'@'%' = 'third'", "ALTER USER 'app'@'%' ACCOUNT LOCK",
		"XA START 'three'; INSERT INTO shop.log (what) VALUES ('xa3'); XA END 'three'; XA PREPARE 'three'",
		"INSERT INTO shop.parent VALUES (9)",
	}
}

// keepRunning starts the archiver in the background, and starts it again after each error, until the test stops it.
func (a *archiving) keepRunning(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a.stop = stop
	go func() {
		var err error
		for ctx.Err() == nil {
			err = a.Run(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		a.ended <- err
	}()
}

// freePort returns a TCP port that no server uses.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close() //nolint:errcheck // A test.
	return l.Addr().(*net.TCPAddr).Port
}

// copyTree copies a stopped server's data.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	dir := newDir(t)
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, filepath.Join(dir, "data")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// snapshot returns a text for each part of a server's data that users can see, to compare two servers.
func snapshot(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	text := func(query string) string { return strings.Join(rowsOf(t, db, query), "\n") }
	for _, table := range rows(t, db, "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')") {
		out[table] = text("SHOW CREATE TABLE "+table) + text("CHECKSUM TABLE "+table)
	}
	for _, table := range []string{"db", "tables_priv", "columns_priv", "procs_priv", "role_edges", "default_roles",
		"global_grants"} {
		columns := rows(t, db, "SELECT GROUP_CONCAT(COLUMN_NAME ORDER BY ORDINAL_POSITION) FROM information_schema.COLUMNS "+
			"WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = '"+table+"' AND COLUMN_NAME NOT IN ('Timestamp', 'Grantor')")
		out[table] = text("SELECT " + columns[0] + " FROM mysql." + table + " ORDER BY 1, 2, 3")
	}
	out["users"] = text("SELECT * FROM mysql.user ORDER BY User, Host")
	out["routines"] = text("SELECT ROUTINE_NAME, ROUTINE_DEFINITION, SQL_MODE, DEFINER FROM information_schema.ROUTINES " +
		"WHERE ROUTINE_SCHEMA = 'shop' ORDER BY 1")
	out["triggers"] = text("SELECT TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'shop' " +
		"ORDER BY 1")
	out["events"] = text("SELECT EVENT_NAME, EVENT_DEFINITION, INTERVAL_VALUE FROM information_schema.EVENTS ORDER BY 1")
	out["databases"] = text("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA ORDER BY 1")
	out["XA"] = text("XA RECOVER")
	out["GTIDs"] = text("SELECT @@gtid_executed")
	return out
}

// rowsOf returns the rows of a query with all columns as text.
func rowsOf(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	found, err := db.QueryContext(t.Context(), query)
	must(t, err)
	defer found.Close() //nolint:errcheck // found.Err returns the error.
	columns, err := found.Columns()
	must(t, err)
	out := []string{}
	for found.Next() {
		values := make([]sql.NullString, len(columns))
		targets := make([]any, len(columns))
		for k := range values {
			targets[k] = &values[k]
		}
		must(t, found.Scan(targets...))
		out = append(out, fmt.Sprint(values))
	}
	must(t, found.Err())
	return out
}

// A reference is a MySQL replica of the server whose log is archived. A recovered server must have the same data.
type reference struct {
	*instance

	port int
}

// newReference starts a replica on a copy of the backup in the directory base.
func (i *instance) newReference(t *testing.T, base string, port int, options ...string) *reference {
	t.Helper()
	r := &reference{&instance{root: i.root, dir: newDir(t)}, port}
	must(t, os.Rename(filepath.Join(copyTree(t, base), "data"), filepath.Join(r.dir, "d")))
	must(t, os.RemoveAll(filepath.Join(r.dir, "d", "auto.cnf")))
	rootfs.Own(t, r.dir)
	r.start(t, append([]string{"--server-id=99", "--replica-parallel-workers=1", "--event-scheduler=OFF", "--skip-replica-start",
		"--relay-log=r"}, options...)...)
	r.exec(t, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='copy', "+
		"SOURCE_PASSWORD='copy', SOURCE_SSL=1, SOURCE_AUTO_POSITION=1", port))
	return r
}

// replicateUntil makes the replica execute all transactions up to and including the one with the given GTID.
func (r *reference) replicateUntil(t *testing.T, id string) {
	t.Helper()
	r.exec(t, "START REPLICA UNTIL SQL_AFTER_GTIDS = '"+id+"'")
	g, err := binlog.ParseGTID(id)
	must(t, err)
	for end := time.Now().Add(2 * time.Minute); !r.executed(t).Has(g); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(rowsOf(t, r.db, "SELECT * FROM performance_schema.replication_applier_status_by_worker"), r.executed(t))
		}
	}
	r.exec(t, "STOP REPLICA")
}

// runWorkload executes the statements, and calls restart to restart the server in the middle.
func runWorkload(t *testing.T, i *instance, all []string, restart func()) {
	t.Helper()
	mysql.RegisterReaderHandler("rows", func() io.Reader { return strings.NewReader(strings.Repeat("loaded,1.5\n", 200)) })
	connect := func() *sql.Conn {
		c, err := i.db.Conn(t.Context())
		must(t, err)
		return c
	}
	c := connect()
	for k, s := range all {
		if _, err := c.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
		if k == len(all)/2 {
			restart()
			c = connect()
		}
	}
	_ = c.Close()
}

// TestRealExact recovers to transactions of a log with many kinds of statements, and compares the data with a replica
// that is stopped at the same transaction. ALL=1 recovers to more of them, and includes a large transaction.
func TestRealExact(t *testing.T) {
	isLong := os.Getenv("ALL") != ""
	port := freePort(t)
	options := []string{"--skip-networking=OFF", "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--local-infile=ON",
		"--event-scheduler=ON", "--log-bin-trust-function-creators=ON"}
	i := newInstance(t, options...)
	i.exec(t, "CREATE USER copy IDENTIFIED BY 'copy'; GRANT REPLICATION SLAVE ON *.* TO copy")
	a := i.archive(t, nil)
	a.end(t)
	a.keepRunning(t)
	base := i.copy(t)
	all := steps()
	if isLong {
		all = slices.Insert(all, len(all)-1, "CREATE TABLE shop.large (id INT PRIMARY KEY, b LONGBLOB)",
			"INSERT INTO shop.large WITH RECURSIVE n (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 64) "+
				"SELECT k, REPEAT(CHAR(k), 1 << 20) FROM n")
	}
	runWorkload(t, i, all, func() {
		i.Kill()
		i.start(t, options...)
	})
	a.await(t, i)
	a.end(t)
	order := i.order(t)
	order = order[slices.Index(order, firstAfter(t, order, i, base)):]
	count, seed := 2, uint64(time.Now().UnixNano()) //nolint:gosec // A seed.
	if isLong {
		count = 8
	}
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // A test.
	t.Logf("%d transactions, seed %d", len(order), seed)
	chosen := map[int]bool{len(order) - 1: true}
	for len(chosen) < count {
		chosen[r.IntN(len(order))] = true
	}
	ref := i.newReference(t, filepath.Join(base, "data"), port)
	for _, k := range slices.Sorted(maps.Keys(chosen)) {
		ref.replicateUntil(t, order[k])
		want := snapshot(t, ref.db)
		text := order[k]
		if k < len(order)-1 && r.IntN(2) == 0 {
			text = v1.MomentBefore + order[k+1] // The same state.
		}
		target, err := ParseTarget(text)
		must(t, err)
		rec := a.recovery(t, i, copyTree(t, filepath.Join(base, "data")), target, nil)
		result, err := rec.runWith(t.Context(), "")
		if err != nil {
			t.Fatalf("transaction %d (%s): %v\n%s", k, order[k], err, rec.Output)
		}
		got := snapshot(t, i.serve(t, filepath.Dir(rec.Data)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("transaction %d (%s), -replica +recovery:\n%.4000s", k, order[k], diff)
		}
		t.Logf("transaction %d (%s): %d were applied", k, text, result.Transactions)
		if result.Prepared != len(rowsOf(t, ref.db, "XA RECOVER")) {
			t.Errorf("%d prepared transactions", result.Prepared)
		}
		if k < len(order)-1 {
			continue
		}
		// The recovery to the end of the log must have the same data as the server that wrote the log.
		if diff := cmp.Diff(snapshot(t, i.db), got); diff != "" {
			t.Errorf("-source +recovery:\n%.4000s", diff)
		}
		if result.Prepared != 1 {
			t.Errorf("%d prepared transactions at the end, want 1", result.Prepared)
		}
		if want := []string{"shop.never", "shop.tick"}; !slices.Equal(result.DisabledEvents, want) {
			t.Errorf("the disabled events are %v, want %v", result.DisabledEvents, want)
		}
	}
}

// firstAfter returns the first transaction in the log that a copy of the data does not have.
func firstAfter(t *testing.T, order []string, i *instance, base string) string {
	t.Helper()
	r := &Recovery{Data: filepath.Join(copyTree(t, filepath.Join(base, "data")), "data"), Scratch: newDir(t), Output: io.Discard}
	must(t, os.MkdirAll(filepath.Join(r.Scratch, "tmp"), 0o700))
	r.command = func(_ string, args ...string) *exec.Cmd {
		rootfs.Own(t, r.Data)
		rootfs.Own(t, r.Scratch)
		return program(i.root, args...)
	}
	got, err := r.readBase(t.Context(), "")
	must(t, err)
	for _, id := range order {
		g, err := binlog.ParseGTID(id)
		must(t, err)
		if !got.Has(g) {
			return id
		}
	}
	t.Fatal("the copy has all transactions")
	return ""
}

// TestRealInterrupted checks that a recovery is refused if an interrupted recovery has already changed the data.
func TestRealInterrupted(t *testing.T) {
	i := newInstance(t)
	a := i.archive(t, nil)
	copied := i.copy(t)
	stop := i.write(t, 2)
	time.Sleep(3 * time.Second)
	stop()
	a.await(t, i)
	a.end(t)
	order := i.order(t)
	target, err := ParseTarget(order[len(order)-1])
	must(t, err)
	r := a.recovery(t, i, copied, target, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(r.Data, relayIndex)); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := r.runWith(ctx, ""); err == nil {
		t.Fatal("not interrupted")
	}
	if _, err := r.runWith(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "must be restored again") {
		t.Error(err)
	}
}

// TestRealUncleanBase recovers from a backup of a server that was killed. The events in its binary log have no
// checksums.
func TestRealUncleanBase(t *testing.T) {
	skipShort(t)
	options := []string{"--binlog-checksum=NONE"}
	i := newInstance(t, options...)
	a := i.archive(t, nil)
	a.end(t)
	a.keepRunning(t)
	i.exec(t, "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(80))")
	for range 300 {
		i.exec(t, "INSERT INTO shop.t (v) VALUES (UUID())")
	}
	before := i.executed(t)
	i.Kill()
	bases := map[string]string{"WithLog": copyTree(t, filepath.Join(i.dir, "d")), "WithoutLog": copyTree(t, filepath.Join(i.dir, "d"))}
	logs, err := filepath.Glob(filepath.Join(bases["WithoutLog"], "data", "binlog.*"))
	if err != nil || len(logs) < 2 {
		t.Fatal(logs, err)
	}
	for _, name := range logs {
		must(t, os.Remove(name))
	}
	i.start(t, options...)
	for range 50 {
		i.exec(t, "INSERT INTO shop.t (v) VALUES (UUID())")
	}
	i.exec(t, "FLUSH BINARY LOGS; UPDATE shop.t SET v = 'x' WHERE id < 9")
	a.await(t, i)
	a.end(t)
	order := i.order(t)
	target, err := ParseTarget(order[len(order)-1])
	must(t, err)
	want := snapshot(t, i.db)
	for name, base := range bases {
		t.Run(name, func(t *testing.T) {
			r := a.recovery(t, i, base, target, nil)
			found, err := r.readBase(t.Context(), "")
			if err == nil && !found.Equal(before) {
				t.Errorf("the base has %s, want %s", found, before)
			}
			result, err := r.runWith(t.Context(), "")
			if err != nil {
				t.Fatalf("%v\n%s", err, r.Output)
			}
			t.Logf("%d transactions were applied", result.Transactions)
			if diff := cmp.Diff(want, snapshot(t, i.serve(t, base))); diff != "" {
				t.Errorf("-source +recovery:\n%.3000s", diff)
			}
		})
	}
}

// TestRealEncryptedLog checks the recovery from the log of a server with binlog_encryption, which sends it decrypted.
func TestRealEncryptedLog(t *testing.T) {
	skipShort(t)
	original := rootfs.Find(t)
	// The copy consists of links to the original files, so their owner and content must not change.
	links, keyring := newDir(t), newDir(t)
	root := original
	root.Path = filepath.Join(links, "root")
	if out, err := exec.CommandContext(t.Context(), "cp", "-al", original.Path, root.Path).CombinedOutput(); err != nil {
		t.Skipf("cannot link the files of the server: %v: %s", err, out)
	}
	for name, text := range map[string]string{
		"usr/sbin/mysqld.my":                              `{"components": "file://component_keyring_file"}`,
		"usr/lib/mysql/plugin/component_keyring_file.cnf": `{"path": "` + filepath.Join(keyring, "k") + `", "read_only": false}`,
	} {
		must(t, os.WriteFile(filepath.Join(root.Path, name), []byte(text), 0o644)) //nolint:gosec // The server reads it.
	}
	i := newInstanceOf(t, root, "--binlog-encryption=ON")
	a := i.archive(t, nil)
	base := i.copy(t)
	i.exec(t, "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(80))")
	for range 20 {
		i.exec(t, "INSERT INTO shop.t (v) VALUES (UUID())")
	}
	i.exec(t, "FLUSH BINARY LOGS; DELETE FROM shop.t WHERE id < 5")
	if logs, err := os.ReadFile(filepath.Join(i.dir, "d", "binlog.000001")); err != nil || string(logs[:4]) != "\xfdbin" {
		t.Fatal("the log of the server is not encrypted", err)
	}
	a.await(t, i)
	a.end(t)
	target, err := ParseTarget(time.Now().UTC().Format("2006-01-02T15:04:05.999999Z07:00"))
	must(t, err)
	r := a.recovery(t, i, base, target, nil)
	r.Log.Until = target.Time
	if _, err := r.runWith(t.Context(), ""); err != nil {
		t.Fatalf("%v\n%s", err, r.Output)
	}
	if diff := cmp.Diff(snapshot(t, i.db), snapshot(t, i.serve(t, base))); diff != "" {
		t.Errorf("-source +recovery:\n%.3000s", diff)
	}
}

// skipShort skips a test that takes long.
func skipShort(t *testing.T) {
	t.Helper()
	if os.Getenv("ALL") == "" {
		t.Skip("It takes half a minute. ALL=1 runs it.")
	}
}
