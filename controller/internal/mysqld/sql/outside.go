package sql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// An Outside describes data that is stored outside of the data directory. No backup contains it, and it is lost with
// the server's container.
type Outside struct {
	// Name is the table as `schema`.`table`, or the tablespace if it can contain several tables.
	Name string
	// Place is the absolute path of the file or its directory.
	Place string
	// Tablespace is true for a general tablespace.
	Tablespace bool
}

// maxOutside is the maximum number of entries that OutsideData returns.
const maxOutside = 20

// OutsideData returns the data outside of the data directory, up to maxOutside entries.
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
		return nil, s.wrapError(err, "read where its tables are stored")
	}
	linked, err := s.linkedTables(ctx, v)
	return append(out, linked...), err
}

// outsideQuery returns the query for InnoDB tablespaces with an absolute path. It omits temporary tables of MySQL 5.
// They are stored in the temporary directory and never backed up.
func outsideQuery(v version.Version) string {
	switch {
	case v.Flavour == version.MariaDB && !v.Before(10, 6):
		return "SELECT NAME, FILENAME FROM information_schema.INNODB_SYS_TABLESPACES WHERE FILENAME LIKE '/%'"
	case v.Flavour == version.MariaDB || v.Before(8, 0):
		return "SELECT t.NAME, d.PATH FROM information_schema.INNODB_SYS_DATAFILES d JOIN " +
			"information_schema.INNODB_SYS_TABLESPACES t ON t.SPACE = d.SPACE WHERE d.PATH LIKE '/%' AND d.PATH NOT LIKE " +
			"'%/#sql%'"
	}
	return "SELECT TABLESPACE_NAME, FILE_NAME FROM information_schema.FILES WHERE FILE_TYPE IN ('TABLESPACE', 'UNDO " +
		"LOG') AND FILE_NAME LIKE '/%'"
}

// outsideOf returns the Outside for a tablespace and its path. A tablespace with a single table has the name
// schema/table, and a partition has schema/table#P#partition. Other names are general tablespaces.
func outsideOf(name, place string) Outside {
	schema, table, single := strings.Cut(name, "/")
	if !single {
		return Outside{Name: Quote(name), Place: place, Tablespace: true}
	}
	if index := strings.Index(strings.ToLower(table), "#p#"); index > 0 {
		table = table[:index]
	}
	return Outside{Name: Quote(schema) + "." + Quote(table), Place: place}
}

// linkedTables returns tables of other engines whose files are symbolic links. Such tables exist only on servers with
// have_symlink. MySQL disables it since 8.0.2, and this product disables it, too.
func (s *Session) linkedTables(ctx context.Context, v version.Version) ([]Outside, error) {
	name, value := sql.NullString{}, sql.NullString{}
	if err := s.queryRows(ctx, []sql.Scanner{&name, &value}, func() {}, "SHOW VARIABLES LIKE 'have_symlink'"); err != nil {
		return nil, s.wrapError(err, "check whether its tables can be symbolic links")
	}
	if value.String != "YES" {
		return nil, nil
	}
	if v.Flavour == version.MariaDB {
		return s.linkedByOptions(ctx)
	}
	return s.linkedByStatement(ctx)
}

// linkedByOptions reads the directories from MariaDB's table options.
func (s *Session) linkedByOptions(ctx context.Context) ([]Outside, error) {
	var out []Outside
	schema, table, options := sql.NullString{}, sql.NullString{}, sql.NullString{}
	err := s.queryRows(ctx, []sql.Scanner{&schema, &table, &options}, func() {
		out = append(out, Outside{Name: Quote(s.printable(schema.String)) + "." + Quote(s.printable(table.String)),
			Place: dirOf(s.printable(options.String))})
	}, fmt.Sprintf("SELECT TABLE_SCHEMA, TABLE_NAME, CREATE_OPTIONS FROM information_schema.TABLES WHERE ENGINE <> "+
		"'InnoDB' AND CREATE_OPTIONS LIKE '%% DIRECTORY=%%' LIMIT %d", maxOutside))
	if err != nil {
		return nil, s.wrapError(err, "read which of its tables are symbolic links")
	}
	return out, nil
}

// linkedByStatement reads the directories from the CREATE statements of the tables that may be links.
func (s *Session) linkedByStatement(ctx context.Context) ([]Outside, error) {
	var names []string
	schema, table, statement := sql.NullString{}, sql.NullString{}, sql.NullString{}
	err := s.queryRows(ctx, []sql.Scanner{&schema, &table}, func() {
		names = append(names, Quote(schema.String)+"."+Quote(table.String))
	}, fmt.Sprintf("SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE ENGINE IN ('MyISAM', "+
		"'ARCHIVE') AND TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') LIMIT %d",
		maxLinked))
	if err != nil {
		return nil, s.wrapError(err, "read which of its tables can be symbolic links")
	}
	var out []Outside
	for _, name := range names {
		err := s.queryRows(ctx, []sql.Scanner{&table, &statement}, func() {}, "SHOW CREATE TABLE "+name)
		if err != nil {
			continue // The table was just dropped, or is damaged.
		}
		if place := dirOf(s.printable(statement.String)); place != "" {
			out = append(out, Outside{Name: s.printable(name), Place: place})
		}
	}
	return out[:min(len(out), maxOutside)], nil
}

// maxLinked is the maximum number of tables whose statements are read.
const maxLinked = 200

// dirOf returns the last DATA DIRECTORY or INDEX DIRECTORY in a statement or a list of options, or "". It uses the
// last one, because earlier ones may be part of a comment.
func dirOf(text string) string {
	for _, option := range []string{" DATA DIRECTORY='", " INDEX DIRECTORY='"} {
		if index := strings.LastIndex(" "+text, option); index >= 0 {
			place, _, _ := strings.Cut((" " + text)[index+len(option):], "'")
			return place
		}
	}
	return ""
}

// OutsideText describes data outside of the data directory and how to move it. It returns "" if there is none.
func OutsideText(found []Outside) string {
	if len(found) == 0 {
		return ""
	}
	names := make([]string, 0, len(found))
	for _, f := range found {
		names = append(names, f.Name+" ("+f.Place+")")
	}
	return "Data is stored outside of the data directory. It is not backed up, and it is lost when the server's " +
		"pod is deleted: " +
		fewOf(names) + ". Move it into the data directory: " + howToMove(found[0])
}

// fewOf returns a list of the first names for an error message.
func fewOf(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// howToMove returns a statement that moves the data into the data directory. It was tested with MariaDB 10.11 and
// MySQL 5.6 and 9.7. InnoDB moves the file only if it copies the table.
func howToMove(o Outside) string {
	if o.Tablespace {
		return fmt.Sprintf("ALTER TABLE … TABLESPACE = innodb_file_per_table for each table in %s, and then DROP "+
			"TABLESPACE %[1]s", o.Name)
	}
	return fmt.Sprintf("SET SESSION sql_mode = 'NO_DIR_IN_CREATE'; ALTER TABLE %s FORCE, ALGORITHM = COPY", o.Name)
}
