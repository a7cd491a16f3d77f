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

// maxMarker is the maximum size in bytes of a file that contains a version.
const maxMarker = 1 << 20

// Version returns the version of the server that last used a data directory, or "" if it is unknown. It uses the first
// of these sources that has a version:
//
//   - the file that MySQL since 8.4 writes when it initializes or upgrades a directory
//   - the program that was started last, if it can have used these files
//   - the version that a server reported to a client
//   - the file that mysql_upgrade or mariadb-upgrade wrote, if a user ran it
func Version(dir *os.Root, started, text string) string {
	if noted := history(dir); noted != "" {
		return noted
	}
	if v, err := version.Parse(started); err == nil && canHaveRun(dir, v) {
		return started
	}
	if text != "" {
		return text
	}
	for _, name := range []string{"mariadb_upgrade_info", "mysql_upgrade_info"} {
		if text := strings.Trim(string(readMarker(dir, name)), "\x00\n "); text != "" {
			return text
		}
	}
	return ""
}

// canHaveRun reports whether a server of this version can have used a data directory without a history file. A server
// upgrades all files before it accepts clients, or leaves them unchanged. MySQL stores the data dictionary in
// mysql.ibd since 8.0, and no other server opens this file (MySQL manual, 16.1).
func canHaveRun(dir *os.Root, v version.Version) bool {
	_, err := dir.Lstat("mysql.ibd")
	dictionary := err == nil
	if v.Flavour != version.MySQL {
		return !dictionary
	}
	return v.Before(8, 4) && dictionary == !v.Before(8, 0)
}

// history returns the newest version in the history file that MySQL writes since 8.4.
func history(dir *os.Root) string {
	history := struct {
		Upgrades []struct {
			Version string `json:"version"`
		} `json:"upgrade_history"` //nolint:tagliatelle // MySQL's spelling.
	}{}
	if json.Unmarshal(readMarker(dir, "mysql_upgrade_history"), &history) == nil && len(history.Upgrades) > 0 {
		return history.Upgrades[len(history.Upgrades)-1].Version
	}
	return ""
}

// own are the system schemas, which every server has. All other schemas belong to users.
var own = []string{"mysql", "performance_schema", "sys"}

// HasDatabase reports whether a data directory contains a user's database, which is a directory that is not a system
// schema. An official image first creates the accounts of root, and then the database. If there is no database, the
// initialization was not completed.
func HasDatabase(dir *os.Root) (bool, error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() && !strings.HasPrefix(e.Name(), "#") && !strings.HasPrefix(e.Name(), ".") &&
			!slices.Contains(own, e.Name())
	}), nil
}

func readMarker(dir *os.Root, name string) []byte {
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	raw, err := io.ReadAll(io.LimitReader(f, maxMarker))
	if err != nil {
		return nil
	}
	return raw
}
