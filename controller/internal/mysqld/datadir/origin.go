package datadir

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// maxNote in bytes of a file in which a server notes its version.
const maxNote = 1 << 20

// Version of the server that last ran on a data directory; empty where nobody knows. MySQL since 8.4
// notes it there itself, whenever it initialises or upgrades a directory, and that is certain.
// Before that it is the version of the program that was started last, if it can have run on these
// files; then what a server said to somebody who logged in; then a file of one line, which
// mysql_upgrade and MariaDB's wrote, if somebody ran them.
func Version(dir *os.Root, started, said string) string {
	if noted := history(dir); noted != "" {
		return noted
	}
	if v, err := version.Parse(started); err == nil && canHaveRun(dir, v) {
		return started
	}
	if said != "" {
		return said
	}
	for _, name := range []string{"mariadb_upgrade_info", "mysql_upgrade_info"} {
		if text := strings.Trim(string(note(dir, name)), "\x00\n "); text != "" {
			return text
		}
	}
	return ""
}

// canHaveRun is true if a server of a version can have been at work on files that have no history: it
// upgrades all of them before it takes clients, or leaves them as they were. MySQL has the data
// dictionary in mysql.ibd since 8.0, which no other server opens (MySQL manual, 16.1).
func canHaveRun(dir *os.Root, v version.Version) bool {
	_, err := dir.Lstat("mysql.ibd")
	dictionary := err == nil
	if v.Flavour != version.MySQL {
		return !dictionary
	}
	return v.Before(8, 4) && dictionary == !v.Before(8, 0)
}

// history is the newest version in the file that MySQL keeps since 8.4.
func history(dir *os.Root) string {
	history := struct {
		Upgrades []struct {
			Version string `json:"version"`
		} `json:"upgrade_history"` //nolint:tagliatelle // MySQL's spelling.
	}{}
	if json.Unmarshal(note(dir, "mysql_upgrade_history"), &history) == nil && len(history.Upgrades) > 0 {
		return history.Upgrades[len(history.Upgrades)-1].Version
	}
	return ""
}

// own schemas of the servers: they are there before anybody's.
var own = []string{"mysql", "performance_schema", "sys"}

// HasDatabase is true if somebody's database is in a data directory: a folder
// that is not the server's own. An official image makes the accounts of root
// first and the database after them; without one, a first start never ended.
func HasDatabase(dir *os.Root) (bool, error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() && !strings.HasPrefix(e.Name(), "#") && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(own, e.Name())
	}), nil
}

func note(dir *os.Root, name string) []byte {
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	raw, err := io.ReadAll(io.LimitReader(f, maxNote))
	if err != nil {
		return nil
	}
	return raw
}
