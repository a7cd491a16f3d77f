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

// maxNames is the maximum number of file names in an error.
const maxNames = 3

// hasDictionary reports whether the server can list the files that it needs. MySQL 8.0.14 was the first version that
// also lists which of them are discarded.
func hasDictionary(v version.Version) bool {
	return v.Flavour == version.MySQL && (v.Major > 8 || v.Major == 8 && (v.Minor > 0 || v.Patch >= 14))
}

// tablespaces returns the paths of the tables' .ibd files, relative to the data directory. It omits the data
// dictionary, and names that begin with #, which InnoDB uses for its own files and for unfinished changes.
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

// dictionaryFile is the file that contains the data dictionary. The dictionary does not list this file.
const dictionaryFile = "mysql.ibd"

func ofTable(name string) bool {
	return path.Ext(name) == ".ibd" && name != dictionaryFile && !strings.HasPrefix(path.Base(name), "#")
}

// compareFiles compares the files that existed before the start with the server's dictionary. If the server has
// removed a file, the file belonged to an interrupted change.
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

// dictionary returns the files that the server needs. It omits the files of discarded tables (DISCARD TABLESPACE),
// and of temporary tables, whose files exist only while the server runs.
func dictionary(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT d.PATH FROM information_schema.INNODB_DATAFILES d
		JOIN information_schema.INNODB_TABLESPACES t ON t.SPACE = d.SPACE
		WHERE COALESCE(t.STATE, '') <> 'discarded' AND t.SPACE_TYPE NOT IN ('System', 'Undo')`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the files of the server: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
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

// judgeFiles returns an error if a file in the dictionary does not exist. It also returns an error if a file existed
// before the server started, still exists, and is not in the dictionary.
func judgeFiles(before, known []string, exists func(name string) bool) error {
	missing := slices.DeleteFunc(slices.Clone(known), exists)
	if len(missing) > 0 {
		return newBrokenError("files that the server needs are missing: %s", few(missing))
	}
	strange := slices.DeleteFunc(slices.Clone(before), func(name string) bool {
		return slices.Contains(known, name) || !exists(name)
	})
	if len(strange) > 0 {
		return newBrokenError("these table files are not in the server's data dictionary: %s", few(strange))
	}
	return nil
}

// few returns a list of at most maxNames quoted names for an error message.
func few(names []string) string {
	slices.Sort(names)
	quoted := make([]string, 0, maxNames)
	for _, name := range names[:min(len(names), maxNames)] {
		quoted = append(quoted, fmt.Sprintf("%.150q", name))
	}
	text := strings.Join(quoted, ", ")
	if rest := len(names) - len(quoted); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}
