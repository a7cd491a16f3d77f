package sql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// An Outside is data that is stored outside of the data directory: no backup holds it, and it
// is lost with the server's container.
type Outside struct {
	// Name of the table as `schema`.`table`, or of the tablespace if it has several tables.
	Name string
	// Place is the absolute path of the file, or of its folder.
	Place string
	// Tablespace is true of a tablespace that has a name of its own.
	Tablespace bool
}

// maxOutside are named at once.
const maxOutside = 20

// OutsideData returns what is stored outside of the data directory, at most maxOutside of them.
func (s *Session) OutsideData(ctx context.Context) ([]Outside, error) {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return nil, err
	}
	out, name, place := []Outside{}, sql.NullString{}, sql.NullString{}
	err = s.queryRows(ctx, []sql.Scanner{&name, &place}, func() {
		out = append(out, outsideOf(s.printable(name.String), s.printable(place.String)))
	}, fmt.Sprintf("%s ORDER BY 2 LIMIT %d", outsideQuery(v), maxOutside))
	if err != nil {
		return nil, s.wrapError(err, "see where its tables are stored")
	}
	linked, err := s.linkedTables(ctx, v)
	return append(out, linked...), err
}

// outsideQuery asks for the tablespaces of InnoDB that have an absolute path, by name and path. Temporary
// tables of MySQL 5 are in its folder for temporary files, and in no backup on purpose.
func outsideQuery(v version.Version) string {
	switch {
	case v.Flavour == version.MariaDB && !v.Before(10, 6):
		return "SELECT NAME, FILENAME FROM information_schema.INNODB_SYS_TABLESPACES WHERE FILENAME LIKE '/%'"
	case v.Flavour == version.MariaDB || v.Before(8, 0):
		return "SELECT t.NAME, d.PATH FROM information_schema.INNODB_SYS_DATAFILES d JOIN information_schema.INNODB_SYS_TABLESPACES t ON t.SPACE = d.SPACE WHERE d.PATH LIKE '/%' AND d.PATH NOT LIKE '%/#sql%'"
	}
	return "SELECT TABLESPACE_NAME, FILE_NAME FROM information_schema.FILES WHERE FILE_TYPE IN ('TABLESPACE', 'UNDO LOG') AND FILE_NAME LIKE '/%'"
}

// outsideOf a tablespace. One of a single table is called schema/table, and that of a partition schema/table#P#partition.
func outsideOf(name, place string) Outside {
	schema, table, single := strings.Cut(name, "/")
	if !single {
		return Outside{Name: Quote(name), Place: place, Tablespace: true}
	}
	if at := strings.Index(strings.ToLower(table), "#p#"); at > 0 {
		table = table[:at]
	}
	return Outside{Name: Quote(schema) + "." + Quote(table), Place: place}
}

// linkedTables are those of other engines, whose files are symbolic links. Only a server with have_symlink has
// such tables: MySQL has it off since 8.0.2, and this product turns it off.
func (s *Session) linkedTables(ctx context.Context, v version.Version) ([]Outside, error) {
	name, value := sql.NullString{}, sql.NullString{}
	if err := s.queryRows(ctx, []sql.Scanner{&name, &value}, func() {}, "SHOW VARIABLES LIKE 'have_symlink'"); err != nil {
		return nil, s.wrapError(err, "see whether its tables may be links")
	}
	if value.String != "YES" {
		return nil, nil
	}
	if v.Flavour == version.MariaDB {
		return s.linkedByOptions(ctx)
	}
	return s.linkedByStatement(ctx)
}

// linkedByOptions asks MariaDB, which lists the folders with a table's other options.
func (s *Session) linkedByOptions(ctx context.Context) ([]Outside, error) {
	var out []Outside
	schema, table, options := sql.NullString{}, sql.NullString{}, sql.NullString{}
	err := s.queryRows(ctx, []sql.Scanner{&schema, &table, &options}, func() {
		out = append(out, Outside{Name: Quote(s.printable(schema.String)) + "." + Quote(s.printable(table.String)), Place: folderOf(s.printable(options.String))})
	}, fmt.Sprintf("SELECT TABLE_SCHEMA, TABLE_NAME, CREATE_OPTIONS FROM information_schema.TABLES WHERE ENGINE <> 'InnoDB' AND CREATE_OPTIONS LIKE '%% DIRECTORY=%%' LIMIT %d", maxOutside))
	if err != nil {
		return nil, s.wrapError(err, "see which of its tables are links")
	}
	return out, nil
}

// linkedByStatement asks MySQL for the statement of each table that may be a link.
func (s *Session) linkedByStatement(ctx context.Context) ([]Outside, error) {
	var names []string
	schema, table, statement := sql.NullString{}, sql.NullString{}, sql.NullString{}
	err := s.queryRows(ctx, []sql.Scanner{&schema, &table}, func() {
		names = append(names, Quote(schema.String)+"."+Quote(table.String))
	}, fmt.Sprintf("SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE ENGINE IN ('MyISAM', 'ARCHIVE') AND TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') LIMIT %d", maxLinked))
	if err != nil {
		return nil, s.wrapError(err, "see which of its tables may be links")
	}
	var out []Outside
	for _, name := range names {
		err := s.queryRows(ctx, []sql.Scanner{&table, &statement}, func() {}, "SHOW CREATE TABLE "+name)
		if err != nil {
			continue // It has just been dropped, or is damaged.
		}
		if place := folderOf(s.printable(statement.String)); place != "" {
			out = append(out, Outside{Name: s.printable(name), Place: place})
		}
	}
	return out[:min(len(out), maxOutside)], nil
}

// maxLinked tables are looked at one by one.
const maxLinked = 200

// folderOf the last DATA DIRECTORY, or INDEX DIRECTORY, of a statement or of a list of options; empty without one.
// Comments stand before it.
func folderOf(text string) string {
	for _, option := range []string{" DATA DIRECTORY='", " INDEX DIRECTORY='"} {
		if at := strings.LastIndex(" "+text, option); at >= 0 {
			place, _, _ := strings.Cut((" " + text)[at+len(option):], "'")
			return place
		}
	}
	return ""
}

// OutsideText says which data is stored outside, and how it is moved; empty where there is none.
func OutsideText(found []Outside) string {
	if len(found) == 0 {
		return ""
	}
	names := make([]string, 0, len(found))
	for _, f := range found {
		names = append(names, f.Name+" ("+f.Place+")")
	}
	return "Data is stored outside of the data directory: no backup holds it, and it is lost when the server's pod ends: " + fewOf(names) + ". Move it into the data directory: " + howToMove(found[0])
}

// fewOf many names.
func fewOf(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// howToMove is tried with MariaDB 10.11, and with MySQL 5.6 and 9.7: without a copy InnoDB leaves the file where it is.
func howToMove(o Outside) string {
	if o.Tablespace {
		return fmt.Sprintf("ALTER TABLE each of the tables in %s TABLESPACE = innodb_file_per_table, and DROP TABLESPACE %[1]s", o.Name)
	}
	return fmt.Sprintf("SET SESSION sql_mode = 'NO_DIR_IN_CREATE'; ALTER TABLE %s FORCE, ALGORITHM = COPY", o.Name)
}
