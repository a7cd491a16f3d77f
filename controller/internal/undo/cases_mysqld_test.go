//go:build mysqld

package undo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRealCases undoes single accidents. It checks which rows are not restored, and the reasons.
func TestRealCases(t *testing.T) {
	f := newFleet(t)
	for name, tc := range map[string]struct {
		setup, accident, later string
		options                Options
		tables                 []Name
		// refused is a part of the expected reason why the rows of a table cannot be restored.
		refused string
		// query must return want after the undo. reasons are the expected reasons for the rows that are not restored.
		query, want, reasons string
	}{
		"DropDatabase": {
			setup: "CREATE DATABASE lost; CREATE TABLE lost.t (id INT PRIMARY KEY, v INT, KEY (v)) COMMENT 'x'; INSERT INTO " +
				"lost.t VALUES (1, 2), (3, 4)",
			accident: "DROP DATABASE lost", query: "SELECT GROUP_CONCAT(id, v) FROM lost.t", want: "12,34"},
		"Triggers": {
			setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE log (n INT PRIMARY KEY AUTO_INCREMENT); " +
				"CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NULL); INSERT INTO t VALUES (1, 1), (2, 2)",
			accident: "DELETE FROM t", refused: "triggers that would run for each row (g)",
			query: "SELECT CONCAT((SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM log))", want: "02"},
		"RunTriggers": {
			setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE log (n INT PRIMARY KEY AUTO_INCREMENT); " +
				"CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NULL); INSERT INTO t VALUES (1, 1), (2, 2)",
			accident: "DELETE FROM t", options: Options{RunTriggers: true},
			query: "SELECT CONCAT((SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM log))", want: "24"},
		"DroppedTriggers": {
			setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE log (n INT PRIMARY KEY AUTO_INCREMENT); " +
				"CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NULL); INSERT INTO t VALUES (1, 1), (2, 2)",
			accident: "DROP TABLE t", // The undo creates the trigger again, but the trigger must not run for the restored rows.
			query: "SELECT CONCAT((SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM log), (SELECT COUNT(*) FROM " +
				"information_schema.TRIGGERS " +
				"WHERE TRIGGER_SCHEMA = DATABASE()))", want: "221"},
		"AlterInAccident": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)",
			accident: "ALTER TABLE t DROP COLUMN v",
			refused:  "the transaction changed the definition of the table (column v is missing)", query: "SELECT COUNT(*) FROM t",
			want: "1"},
		"AlterLater": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)", accident: "DELETE FROM t",
			later: "ALTER TABLE t MODIFY v VARCHAR(10)", refused: "the type of column v differs", query: "SELECT COUNT(*) FROM t",
			want: "0"},
		"KeyLater": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)", accident: "DELETE FROM t",
			later: "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", refused: "has changed the primary key",
			query: "SELECT COUNT(*) FROM t",
			want:  "0"},
		"ColumnLater": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)", accident: "DELETE FROM t",
			later: "ALTER TABLE t ADD w INT DEFAULT 5 FIRST", query: "SELECT CONCAT(w, id, v) FROM t", want: "511"},
		"RequiredColumnLater": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)",
			accident: "DELETE FROM t",
			later:    "ALTER TABLE t ADD w INT NOT NULL", refused: "column w, which has no default", query: "SELECT COUNT(*) FROM t",
			want: "0"},
		"DroppedLater": {setup: "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", accident: "DELETE FROM t",
			later:   "DROP TABLE t",
			refused: "a later transaction has dropped the table", query: "SELECT 1", want: "1"},
		"CreatedLater": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)",
			accident: "DROP TABLE t",
			later:    "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (2, 9)",
			query:    "SELECT GROUP_CONCAT(id, v) FROM t", want: "11,29"},
		"MyISAM": {setup: "CREATE TABLE t (id INT PRIMARY KEY) ENGINE = MyISAM; INSERT INTO t VALUES (1)", accident: "DELETE FROM t",
			refused: "its storage engine is MyISAM", query: "SELECT COUNT(*) FROM t", want: "0"},
		"KeylessUpdate": {setup: "CREATE TABLE t (v INT); INSERT INTO t VALUES (1), (2)", accident: "UPDATE t SET v = 3 WHERE v = 1",
			refused: "nothing shows which of its rows", query: "SELECT GROUP_CONCAT(v ORDER BY v) FROM t", want: "2,3"},
		"PrefixKey": {setup: "CREATE TABLE t (v TEXT, PRIMARY KEY (v(3))); INSERT INTO t VALUES ('abcd'), ('xyz')",
			accident: "DELETE FROM t",
			later:    "INSERT INTO t VALUES ('abcX')", query: "SELECT GROUP_CONCAT(v ORDER BY v) FROM t", want: "abcX,xyz",
			reasons: "another row has one of its unique keys: 1"},
		"InvisibleKey": {setup: "SET sql_generate_invisible_primary_key = ON; CREATE TABLE t (v INT); SET " +
			"sql_generate_invisible_primary_key = OFF; " +
			"INSERT INTO t VALUES (1), (2), (2)", accident: "UPDATE t SET v = 3",
			query: "SELECT GROUP_CONCAT(my_row_id, v ORDER BY my_row_id) FROM t",
			want:  "11,22,32"},
		"GeneratedKey": {setup: "CREATE TABLE t (a INT, k INT AS (a * 2) STORED PRIMARY KEY); INSERT INTO t (a) VALUES (1), (2)",
			accident: "DELETE FROM t",
			later:    "INSERT INTO t (a) VALUES (2)", query: "SELECT GROUP_CONCAT(a, k ORDER BY k) FROM t", want: "12,24"},
		"Vector": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(3)); INSERT INTO t VALUES (1, " +
			"STRING_TO_VECTOR('[1,2.5,3]')), (2, NULL)",
			accident: "UPDATE t SET v = STRING_TO_VECTOR('[0,0]')",
			query:    "SELECT GROUP_CONCAT(id, IFNULL(VECTOR_TO_STRING(v), '-')) FROM t",
			want:     "1[1.00000e+00,2.50000e+00,3.00000e+00],2-"},
		"UniqueLater": {setup: "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE); INSERT INTO t VALUES (1, 10), (2, 20)",
			accident: "DELETE FROM t",
			later:    "INSERT INTO t VALUES (5, 10)", query: "SELECT GROUP_CONCAT(id, u ORDER BY id) FROM t", want: "220,510",
			reasons: "another row has one of its unique keys: 1"},
		"UniqueChain": {setup: "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
			accident: "UPDATE t SET u = u + 1 ORDER BY u DESC", query: "SELECT GROUP_CONCAT(id, u ORDER BY id) FROM t", want: "11,22,33"},
		"UniqueChainBack": {setup: "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE); INSERT INTO t VALUES (1, 11), (2, 12), (3, 13)",
			accident: "UPDATE t SET u = u - 1 ORDER BY u", query: "SELECT GROUP_CONCAT(id, u ORDER BY id) FROM t", want: "111,212,313"},
		"ParentDeletedLater": {setup: "CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE t (id INT PRIMARY KEY, p INT, FOREIGN KEY " +
			"(p) REFERENCES p (id)); " +
			"INSERT INTO p VALUES (1), (2); INSERT INTO t VALUES (1, 1), (2, 2)", accident: "DELETE FROM t",
			later: "DELETE FROM p WHERE id = 1",
			query: "SELECT GROUP_CONCAT(id) FROM t", want: "2", reasons: "its parent row does not exist: 1"},
		"Cycle": {setup: "CREATE TABLE a (id INT PRIMARY KEY, b INT NOT NULL); CREATE TABLE b (id INT PRIMARY KEY, a INT NOT NULL, " +
			"x INT, " +
			"FOREIGN KEY (a) REFERENCES a (id)); ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b (id); CREATE TABLE x (id INT " +
			"PRIMARY KEY); " +
			"ALTER TABLE b ADD FOREIGN KEY (x) REFERENCES x (id); INSERT INTO x VALUES (1), (2); SET foreign_key_checks = 0; " +
			"INSERT INTO a VALUES (1, 1), (2, 2); INSERT INTO b VALUES (1, 1, 1), (2, 2, 2); SET foreign_key_checks = 1",
			accident: "SET foreign_key_checks = 0; BEGIN; DELETE FROM a; DELETE FROM b; COMMIT; SET foreign_key_checks = 1",
			later:    "DELETE FROM x WHERE id = 1",
			query:    "SELECT CONCAT((SELECT GROUP_CONCAT(id) FROM a), (SELECT GROUP_CONCAT(id) FROM b))", want: "22",
			reasons: "its parent row does not exist: 1, its parent row does not exist: 1"},
		"UpdateCascade": {setup: "CREATE TABLE p (id INT PRIMARY KEY, k INT UNIQUE); CREATE TABLE t (id INT PRIMARY KEY, k INT, " +
			"FOREIGN KEY (k) REFERENCES p (k) ON UPDATE CASCADE); INSERT INTO p VALUES (1, 10); INSERT INTO t VALUES (1, 10)",
			accident: "UPDATE p SET k = 99", query: "SELECT CONCAT((SELECT k FROM p), (SELECT k FROM t))", want: "1010"},
		"Column": {setup: "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b INT); INSERT INTO t VALUES (1, 'x', 1), (2, 'x', 2), " +
			"(3, 'x', 3)",
			accident: "UPDATE t SET a = 'oops', b = 0",
			later:    "UPDATE t SET a = 'OOPS' WHERE id = 1; UPDATE t SET b = NULL WHERE id = 2; DELETE FROM t WHERE id = 3",
			query:    "SELECT GROUP_CONCAT(id, a, IFNULL(b, '-') ORDER BY id) FROM t", want: "1OOPS1,2x-"},
		"Tables": {setup: "CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO t VALUES (1); " +
			"INSERT INTO u VALUES (1)",
			accident: "BEGIN; DELETE FROM t; DELETE FROM u; COMMIT", tables: []Name{{"", "t"}},
			query: "SELECT CONCAT((SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM u))", want: "10"},
		"Names": {setup: "CREATE TABLE `we``ird .t` (`a``b` INT PRIMARY KEY, `select` TEXT); " +
			"INSERT INTO `we``ird .t` VALUES (1, CONCAT(UNHEX('1B00270A5C'), ''''))",
			accident: "DELETE FROM `we``ird .t`", query: "SELECT HEX(`select`) FROM `we``ird .t`", want: "1B00270A5C27"},
		"Check": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 20)", accident: "DELETE FROM t",
			later: "ALTER TABLE t ADD CHECK (v > 10)", query: "SELECT GROUP_CONCAT(id) FROM t", want: "2",
			reasons: "it violates a CHECK constraint: 1"},
		"Large": {setup: "CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB); INSERT INTO t SELECT 1, REPEAT(x'00', 5000000); INSERT " +
			"INTO t SELECT id + 1, v FROM t; " +
			"INSERT INTO t SELECT id + 2, v FROM t", accident: "DELETE FROM t",
			query: "SELECT CONCAT(COUNT(*), ',', SUM(LENGTH(v))) FROM t", want: "4,20000000"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := "c" + strings.ToLower(name)
			c, err := f.living.db.Conn(t.Context())
			must(t, err)
			defer c.Close() //nolint:errcheck // A test.
			run := func(statements string) {
				t.Helper()
				if _, err := c.ExecContext(t.Context(), statements); err != nil {
					t.Fatalf("%s: %v", statements, err)
				}
			}
			run("CREATE DATABASE " + schema + "; USE " + schema + "; " + tc.setup)
			before := f.living.executed(t)
			run(tc.accident)
			id := f.living.executed(t).Without(before)
			if id.Count() != 1 {
				t.Fatal(id)
			}
			if tc.later != "" {
				run("USE " + schema + "; " + tc.later)
			}
			f.stopAt(t, id.String())
			for i := range tc.tables {
				tc.tables[i].Schema = schema
			}
			plan, results := f.undoOnce(t, tc.tables, tc.options)
			var refused, reasons []string
			for _, one := range plan.Refused {
				refused = append(refused, one.Error())
			}
			for _, r := range results {
				for reason, count := range r.Reasons {
					reasons = append(reasons, fmt.Sprintf("%s: %d", reason, count))
				}
			}
			if text := strings.Join(refused, ", "); !strings.Contains(text, tc.refused) || (text == "") != (tc.refused == "") {
				t.Errorf("refused: %s", text)
			}
			if text := strings.Join(reasons, ", "); text != tc.reasons {
				t.Errorf("reasons: %s", text)
			}
			var got string
			must(t, c.QueryRowContext(t.Context(), tc.query).Scan(&got))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// undoOnce plans and applies an undo.
func (f *fleet) undoOnce(t *testing.T, tables []Name, options Options) (*Plan, []Result) {
	t.Helper()
	p := &Planner{Options: options}
	for n, target := range map[*node]**Server{f.before: &p.Before, f.after: &p.After, f.living: &p.Current} {
		var err error
		*target, err = Open(t.Context(), n.db)
		must(t, err)
		defer (*target).Close() //nolint:errcheck // A test.
	}
	plan, err := p.Plan(t.Context(), tables)
	must(t, err)
	t.Cleanup(func() { _ = plan.Close() })
	results, err := plan.Apply(t.Context(), p.Current)
	if err != nil {
		_ = plan.Statements(func(text string) error { t.Logf("%.300s", text); return nil })
		t.Fatal(err)
	}
	return plan, results
}
