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

// maxWorkers that check tables at once.
const maxWorkers = 4

// A table is one to check.
type table struct {
	schema, name string
	// bytes that the server thinks it has.
	bytes int64
}

func (t table) String() string { return mysqldsql.Quote(t.schema) + "." + mysqldsql.Quote(t.name) }

// listTables of all schemas that lie on disk, the largest first, so that the last
// ones take no time.
func listTables(ctx context.Context, db *sql.DB) ([]table, error) {
	rows, err := db.QueryContext(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) AS BYTES
		FROM information_schema.TABLES
		WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema')
		ORDER BY BYTES DESC, TABLE_SCHEMA, TABLE_NAME`)
	if err != nil {
		return nil, fmt.Errorf("cannot ask the server for its tables: %w", err)
	}
	defer rows.Close() //nolint:errcheck // Err says what there is to say.
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

// A checkError is one of a table's check that has no result. Others were under
// way, and only the server knows whose fault it is.
type checkError struct {
	at    []table
	cause error
}

func (e *checkError) Error() string { return fmt.Sprintf("cannot check %s: %v", e.tables(), e.cause) }

func (e *checkError) Unwrap() error { return e.cause }

func (e *checkError) tables() string {
	names := make([]string, 0, len(e.at))
	for _, t := range e.at {
		names = append(names, t.String())
	}
	return strings.Join(names, " or ")
}

// A checker checks tables, some at once, and ends with the first that is broken.
type checker struct {
	db    *sql.DB
	meter *agent.Meter

	mu       sync.Mutex
	left, at []table
	err      error
}

// checkTables one by one, over a few connections.
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

// next table, unless one was broken.
func (c *checker) next() (table, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.left) == 0 {
		return table{}, false
	}
	t := c.left[0]
	c.left, c.at = c.left[1:], append(c.at, t)
	return t, true
}

func (c *checker) finish(t table, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.Add(t.bytes)
	if err != nil && c.err == nil {
		if !isBroken(err) {
			err = &checkError{at: slices.Clone(c.at), cause: err}
		}
		c.err = err
	}
	c.at = slices.DeleteFunc(c.at, func(other table) bool { return other == t })
}

// maxAnswers about one table. A server that finds a table broken names some pages.
const maxAnswers = 10_000

var errTooMany = errors.New("the server's answer has no end")

// An answer is a row of what CHECK TABLE returns.
type answer struct{ kind, text string }

func checkTable(ctx context.Context, db *sql.DB, t table) error {
	rows, err := db.QueryContext(ctx, "CHECK TABLE "+t.String())
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err says what there is to say.
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

// excused are answers about tables that no check can find broken: of an engine
// that has none, or that only a plugin brings, which this server does not load;
// whose file somebody took away, which also counts as corrupt; or to be rebuilt
// one day.
var excused = regexp.MustCompile(`(?i)doesn't support check|unknown storage engine|has been discarded|tablespace is discarded|(?:upgrade|rebuild) required`)

// busy is the answer for a table that a prepared transaction of the copy holds.
var busy = regexp.MustCompile(`(?i)lock wait timeout`)

// judgeTable by what the server answered about it.
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
			return fmt.Errorf("the server says %.200q", a.text)
		case !fine(a):
			return newBrokenError("the server finds the table %s broken: %s", t, texts(answers))
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

// texts of what is not fine.
func texts(answers []answer) string {
	all := []string{}
	for _, a := range answers {
		if !fine(a) {
			all = append(all, fmt.Sprintf("%.200s", a.text))
		}
	}
	return strings.Join(all[:min(len(all), maxNames)], "; ")
}
