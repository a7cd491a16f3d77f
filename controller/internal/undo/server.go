package undo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// A Server is a session with a MySQL server. An undo compares three of them.
type Server struct {
	db   *sql.DB
	conn *sql.Conn
	// other is a second session for queries while the first session still reads rows. It is nil until it is needed.
	other *Server
	// maxPacket is the maximum size of a statement in bytes.
	maxPacket int
}

// sessionSettings make the server send exact values, and do not depend on the settings of the server.
var sessionSettings = []string{
	"NAMES utf8mb4", "SESSION time_zone = '+00:00'",
	"SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,ALLOW_INVALID_DATES'",
	"SESSION transaction_isolation = 'READ-COMMITTED'", "SESSION autocommit = 1",
	"SESSION foreign_key_checks = 1", "SESSION unique_checks = 1", "SESSION sql_safe_updates = 0",
	"SESSION sql_select_limit = DEFAULT", "SESSION max_execution_time = 0", "SESSION max_sort_length = 65536",
	// A query may have to wait while the other server sorts its rows.
	"SESSION net_write_timeout = 36000", "SESSION net_read_timeout = 36000", "SESSION wait_timeout = 36000",
}

// SessionSettings returns the settings of the session in which the statements of a plan must run.
func SessionSettings() []string { return slices.Clone(sessionSettings) }

// Open prepares a session. The configuration of the pool must allow several statements in one query.
func Open(ctx context.Context, db *sql.DB) (*Server, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{db: db, conn: conn}
	for _, setting := range sessionSettings {
		if _, err := conn.ExecContext(ctx, "SET "+setting); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot set %s: %w", setting, err), conn.Close())
		}
	}
	if err := conn.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&s.maxPacket); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// Close closes the session.
func (s *Server) Close() error {
	if s.other != nil {
		return errors.Join(s.conn.Close(), s.other.Close())
	}
	return s.conn.Close()
}

// Executed returns the GTIDs of all transactions of the server.
func (s *Server) Executed(ctx context.Context) (out string, err error) {
	return out, s.conn.QueryRowContext(ctx, "SELECT @@gtid_executed").Scan(&out)
}

// systemSchemas are the databases of the server itself.
const systemSchemas = "('mysql', 'sys', 'performance_schema', 'information_schema')"

// Tables returns the names of all tables of users.
func (s *Server) Tables(ctx context.Context) (out []Name, err error) {
	found, err := s.readTexts(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' "+
		"AND TABLE_SCHEMA NOT IN "+systemSchemas+" ORDER BY 1, 2")
	for _, row := range found {
		out = append(out, Name{row[0], row[1]})
	}
	return out, err
}

// Read returns the definition of a table, or nil if there is none.
func (s *Server) Read(ctx context.Context, n Name) (*Table, error) {
	schema, table := quoteText([]byte(n.Schema)), quoteText([]byte(n.Table))
	found, err := s.readTexts(ctx, "SELECT ENGINE, TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = "+
		"'BASE TABLE' AND TABLE_SCHEMA = "+schema+" AND TABLE_NAME = "+table)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	t := &Table{Name: Name{found[0][1], found[0][2]}, Engine: found[0][0]}
	where := " WHERE TABLE_SCHEMA = " + schema + " AND TABLE_NAME = " + table
	if found, err = s.readTexts(ctx, "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA, "+
		"IS_NULLABLE = 'YES' OR COLUMN_DEFAULT IS NOT NULL OR EXTRA LIKE '%auto_increment%' FROM information_schema.COLUMNS"+where+
		" ORDER BY ORDINAL_POSITION"); err != nil {
		return nil, err
	}
	for _, row := range found {
		extra := strings.ToUpper(row[5])
		t.Columns = append(t.Columns, Column{Name: row[0], DataType: strings.ToLower(row[1]), Type: row[2], Charset: row[3],
			Collation: row[4], IsOptional: row[6] == "1",
			IsGenerated: strings.Contains(extra, "VIRTUAL GENERATED") || strings.Contains(extra, "STORED GENERATED"),
			IsTouched:   strings.Contains(extra, "ON UPDATE")})
	}
	return t, errors.Join(s.readKeys(ctx, t, where), s.readParents(ctx, t, where), s.readCreate(ctx, t, schema, table))
}

// secondSession returns a second session with the same server. It is for queries while the first one still reads rows.
func (s *Server) secondSession(ctx context.Context) (out *Server, err error) {
	if s.other == nil {
		s.other, err = Open(ctx, s.db)
	}
	return s.other, err
}

// readTexts returns the rows of a query as texts. NULL becomes an empty text.
func (s *Server) readTexts(ctx context.Context, query string) (out [][]string, err error) {
	rows, err := s.conn.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("cannot read the definitions of tables: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	read, err := newRowReader(rows)
	if err != nil {
		return nil, err
	}
	for {
		row, err := read.Next()
		if err != nil || row == nil {
			return out, err
		}
		line := make([]string, len(row))
		for i, value := range row {
			line[i] = string(value)
		}
		out = append(out, line)
	}
}

// readKeys reads the unique keys that identify each row.
func (s *Server) readKeys(ctx context.Context, t *Table, where string) error {
	found, err := s.readTexts(ctx, "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART IS NOT NULL OR NULLABLE = 'YES' OR COLUMN_NAME IS NULL "+
		"FROM information_schema.STATISTICS"+where+" AND NON_UNIQUE = 0 ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX")
	keys, excluded := map[string][]string{}, map[string]bool{}
	var names []string
	for _, row := range found {
		if keys[row[0]] == nil {
			names = append(names, row[0])
		}
		keys[row[0]] = append(keys[row[0]], row[1])
		excluded[row[0]] = excluded[row[0]] || row[2] == "1"
	}
	for _, name := range names {
		if !excluded[name] {
			t.Keys = append(t.Keys, keys[name])
		}
	}
	return err
}

func (s *Server) readParents(ctx context.Context, t *Table, where string) error {
	found, err := s.readTexts(ctx, "SELECT CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, "+
		"REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE"+where+" AND REFERENCED_TABLE_NAME IS NOT NULL "+
		"ORDER BY CONSTRAINT_NAME, ORDINAL_POSITION")
	last := ""
	for _, row := range found {
		if row[0] != last || len(t.Parents) == 0 {
			t.Parents = append(t.Parents, ForeignKey{Parent: Name{row[2], row[3]}})
		}
		last = row[0]
		f := &t.Parents[len(t.Parents)-1]
		f.Columns, f.Referenced = append(f.Columns, row[1]), append(f.Referenced, row[4])
	}
	return err
}

// readCreate reads the statements that create the table and its triggers.
func (s *Server) readCreate(ctx context.Context, t *Table, schema, table string) error {
	found, err := s.readTexts(ctx, "SHOW CREATE TABLE "+t.quotedName())
	if err != nil {
		return err
	}
	t.Create = found[0][1]
	if found, err = s.readTexts(ctx, "SHOW CREATE DATABASE IF NOT EXISTS "+quoteName(t.Schema)); err != nil {
		return err
	}
	t.CreateSchema = found[0][1]
	names, err := s.readTexts(ctx, "SELECT TRIGGER_NAME, EVENT_MANIPULATION FROM information_schema.TRIGGERS WHERE "+
		"EVENT_OBJECT_SCHEMA = "+schema+" AND EVENT_OBJECT_TABLE = "+table+" ORDER BY ACTION_ORDER")
	if err != nil {
		return err
	}
	for _, row := range names {
		if found, err = s.readTexts(ctx, "SHOW CREATE TRIGGER "+quoteName(t.Schema)+"."+quoteName(row[0])); err != nil {
			return err
		}
		t.Triggers = append(t.Triggers, Trigger{Name: row[0], Event: row[1], Mode: found[0][1], Create: found[0][2]})
	}
	return nil
}

// readChecksum returns the checksum of the rows of a table.
func (s *Server) readChecksum(ctx context.Context, n Name) (string, error) {
	found, err := s.readTexts(ctx, "CHECKSUM TABLE "+n.quotedName())
	if err != nil {
		return "", err
	}
	return found[0][1], nil
}

// A rowReader implements Rows for the result of a query.
type rowReader struct {
	rows    *sql.Rows
	targets []any
}

func newRowReader(rows *sql.Rows) (*rowReader, error) {
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	return &rowReader{rows: rows, targets: make([]any, len(names))}, nil
}

// Next implements Rows.
func (r *rowReader) Next() (Row, error) {
	if !r.rows.Next() {
		return nil, r.rows.Err()
	}
	row := make(Row, len(r.targets))
	for i := range row {
		r.targets[i] = &row[i]
	}
	return row, r.rows.Scan(r.targets...)
}

// execAll runs statements in one query, and returns the numbers of affected rows.
func (s *Server) execAll(ctx context.Context, statements ...string) (affected []int64, err error) {
	err = s.conn.Raw(func(raw any) error {
		c, ok := raw.(driver.ExecerContext)
		if !ok {
			return errors.New("the driver cannot execute statements")
		}
		result, err := c.ExecContext(ctx, strings.Join(statements, ";\n"), nil)
		if err != nil {
			return err
		}
		if all, ok := result.(mysql.Result); ok {
			affected = all.AllRowsAffected()
		}
		return nil
	})
	if err == nil && len(affected) != len(statements) {
		err = fmt.Errorf("the server ran %d of %d statements", len(affected), len(statements))
	}
	return affected, err
}

// readCurrent runs one query for each row. It calls visit with the row that the query returns, or with nil if the query
// returns no row.
func (s *Server) readCurrent(ctx context.Context, queries []string, visit func(i int, current Row) error) error {
	rows, err := s.conn.QueryContext(ctx, strings.Join(queries, ";\n"))
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	for i := range queries {
		read, err := newRowReader(rows)
		if err != nil {
			return err
		}
		row, err := read.Next()
		if err != nil {
			return err
		}
		if err := visit(i, row); err != nil {
			return err
		}
		for rows.Next() {
		}
		if more := rows.NextResultSet(); more != (i < len(queries)-1) {
			return errors.Join(errors.New("the server did not answer all queries"), rows.Err())
		}
	}
	return rows.Err()
}
