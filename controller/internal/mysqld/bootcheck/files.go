package bootcheck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// maxNames of files in an error.
const maxNames = 3

// hasDictionary is true for servers that keep a list of the files that they need.
// MySQL 8.0.14 was the first to say which of them it does without.
func hasDictionary(v version.Version) bool {
	return v.Flavour == version.MySQL && (v.Major > 8 || v.Major == 8 && (v.Minor > 0 || v.Patch >= 14))
}

// tablespaces are the files of tables in a data directory, relative to it. Those
// of changes that were under way, and of InnoDB itself, belong to no table.
func tablespaces(dir *os.Root) ([]string, error) {
	found := []string{}
	err := fs.WalkDir(dir.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), "#") {
			return fs.SkipDir
		}
		if e.Type().IsRegular() && ofTable(name) {
			found = append(found, name)
		}
		return nil
	})
	return found, err
}

// dictionaryFile is where the dictionary is, which does not list it.
const dictionaryFile = "mysql.ibd"

func ofTable(name string) bool {
	return path.Ext(name) == ".ibd" && name != dictionaryFile && !strings.HasPrefix(path.Base(name), "#")
}

// compareFiles that were there when the server started with those that it knows.
// One that it removed itself was of a change that was cut short.
func compareFiles(ctx context.Context, db *sql.DB, dir *os.Root, before []string) error {
	known, err := dictionary(ctx, db)
	if err != nil {
		return err
	}
	return judgeFiles(before, known, func(name string) bool {
		if filepath.IsAbs(name) {
			_, err := os.Lstat(name)
			return !errors.Is(err, fs.ErrNotExist)
		}
		_, err := dir.Lstat(name)
		return err == nil
	})
}

// dictionary of the files that the server needs. A table whose file somebody took
// away for a while (DISCARD TABLESPACE) needs none, and temporary tables have
// theirs for as long as the server runs.
func dictionary(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT d.PATH FROM information_schema.INNODB_DATAFILES d
		JOIN information_schema.INNODB_TABLESPACES t ON t.SPACE = d.SPACE
		WHERE COALESCE(t.STATE, '') <> 'discarded' AND t.SPACE_TYPE NOT IN ('System', 'Undo')`)
	if err != nil {
		return nil, fmt.Errorf("cannot ask the server for its files: %w", err)
	}
	defer rows.Close() //nolint:errcheck // Err says what there is to say.
	known := []string{}
	for rows.Next() {
		name := ""
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if known = append(known, path.Clean(name)); len(known) > maxRows {
			return nil, errTooMany
		}
	}
	return known, rows.Err()
}

// judgeFiles: what was there before is known, or gone again; what is known is
// there.
func judgeFiles(before, known []string, there func(name string) bool) error {
	missing := slices.DeleteFunc(slices.Clone(known), there)
	if len(missing) > 0 {
		return newBrokenError("the server needs files that are missing: %s", few(missing))
	}
	strange := slices.DeleteFunc(slices.Clone(before), func(name string) bool {
		return slices.Contains(known, name) || !there(name)
	})
	if len(strange) > 0 {
		return newBrokenError("the server knows nothing of files that hold tables: %s", few(strange))
	}
	return nil
}

// few of many names.
func few(names []string) string {
	slices.Sort(names)
	quoted := make([]string, 0, maxNames)
	for _, name := range names[:min(len(names), maxNames)] {
		quoted = append(quoted, fmt.Sprintf("%.150q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
