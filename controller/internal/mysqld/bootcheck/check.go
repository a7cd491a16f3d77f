package bootcheck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// maxWorkers is the maximum number of tables that are checked concurrently.
const maxWorkers = 4

// A table identifies a table to check with CHECK TABLE.
type table struct {
	schema, name string
	// bytes is the table's size according to the server.
	bytes int64
}

func (t table) String() string { return mysqldsql.Quote(t.schema) + "." + mysqldsql.Quote(t.name) }

// listTables returns the tables on disk of all schemas, the largest first, so that the last checks are short.
func listTables(ctx context.Context, db *sql.DB) ([]table, error) {
	rows, err := db.QueryContext(ctx,
		`SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) AS BYTES
		FROM information_schema.TABLES
		WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema')
		ORDER BY BYTES DESC, TABLE_SCHEMA, TABLE_NAME`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the tables of the server: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	tables := []table{}
	for rows.Next() {
		t := table{}
		if err := rows.Scan(&t.schema, &t.name, &t.bytes); err != nil {
			return nil, err
		}
		if tables = append(tables, t); len(tables) > maxRows {
			return nil, errTooMany
		}
	}
	return tables, rows.Err()
}

// A checkError is the error of a check that was interrupted. It lists all tables that were being checked at that
// time, because any of them may have caused the error.
type checkError struct {
	unchecked []table
	cause     error
}

func (e *checkError) Error() string { return fmt.Sprintf("cannot check %s: %v", e.tables(), e.cause) }

func (e *checkError) Unwrap() error { return e.cause }

func (e *checkError) tables() string {
	names := make([]string, 0, len(e.unchecked))
	for _, t := range e.unchecked {
		names = append(names, t.String())
	}
	return strings.Join(names, " or ")
}

// A checker checks tables concurrently, and stops at the first broken table.
type checker struct {
	db    *sql.DB
	meter *agent.Meter

	mu            sync.Mutex
	left, running []table
	err           error
}

// checkTables checks all tables over a few connections.
func checkTables(ctx context.Context, db *sql.DB, tables []table, out io.Writer) error {
	total := int64(0)
	for _, t := range tables {
		total += t.bytes
	}
	c := &checker{db: db, meter: agent.StartMeter(out, agent.PhaseCheck, total), left: tables}
	defer c.meter.Stop()
	workers := sync.WaitGroup{}
	for range min(runtime.GOMAXPROCS(0), maxWorkers) {
		workers.Go(func() { c.work(ctx) })
	}
	workers.Wait()
	return c.err
}

func (c *checker) work(ctx context.Context) {
	for {
		t, ok := c.next()
		if !ok {
			return
		}
		c.finish(t, checkTable(ctx, c.db, t))
	}
}

// next returns the next table to check. It returns false after the last table, or after the check of a table failed.
func (c *checker) next() (table, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.left) == 0 {
		return table{}, false
	}
	t := c.left[0]
	c.left, c.running = c.left[1:], append(c.running, t)
	return t, true
}

func (c *checker) finish(t table, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.Add(t.bytes)
	if err != nil && c.err == nil {
		if !isBroken(err) {
			err = &checkError{unchecked: slices.Clone(c.running), cause: err}
		}
		c.err = err
	}
	c.running = slices.DeleteFunc(c.running, func(other table) bool { return other == t })
}

// maxAnswers is the maximum number of result rows for one table. A server may report several pages of a broken table.
const maxAnswers = 10_000

var errTooMany = errors.New("the server's result has too many rows")

// An answer is a result row of CHECK TABLE.
type answer struct{ kind, text string }

func checkTable(ctx context.Context, db *sql.DB, t table) error {
	rows, err := db.QueryContext(ctx, "CHECK TABLE "+t.String())
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	answers := []answer{}
	for rows.Next() {
		name, op, a := "", "", answer{}
		if err := rows.Scan(&name, &op, &a.kind, &a.text); err != nil {
			return err
		}
		if answers = append(answers, a); len(answers) > maxAnswers {
			return errTooMany
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return judgeTable(t, answers)
}

// excused matches results of CHECK TABLE that do not prove that a table is broken. The table's engine may have no
// check, or may be in a plugin that this server does not load. A user may have discarded the table's file, which the
// server reports as corrupt. Or the table must be rebuilt before an upgrade.
var excused = regexp.MustCompile(
	`(?i)doesn't support check|unknown storage engine|has been discarded|tablespace is discarded|(?:upgrade|rebuild) required`)

// busy matches the result for a table that is locked by a prepared transaction of the copy.
var busy = regexp.MustCompile(`(?i)lock wait timeout`)

// judgeTable returns an error if the result rows of CHECK TABLE show that the table is broken.
func judgeTable(t table, answers []answer) error {
	if len(answers) == 0 {
		return errors.New("the server returned nothing")
	}
	if slices.ContainsFunc(answers, func(a answer) bool { return excused.MatchString(a.text) }) {
		return nil
	}
	for _, a := range answers {
		switch {
		case busy.MatchString(a.text):
			return fmt.Errorf("the server reports %.200q", a.text)
		case !fine(a):
			return newBrokenError("the server reports that the table %s is corrupt: %s", t, texts(answers))
		}
	}
	return nil
}

func fine(a answer) bool {
	switch strings.ToLower(a.kind) {
	case "status":
		return a.text == "OK" || a.text == "Table is already up to date"
	case "error":
		return false
	}
	return !strings.Contains(strings.ToLower(a.text), "corrupt")
}

// texts returns the messages of the result rows of CHECK TABLE that report a problem.
func texts(answers []answer) string {
	all := []string{}
	for _, a := range answers {
		if !fine(a) {
			all = append(all, fmt.Sprintf("%.200s", a.text))
		}
	}
	return strings.Join(all[:min(len(all), maxNames)], "; ")
}
