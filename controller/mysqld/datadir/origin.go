package datadir

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxNote in bytes of a file in which a server notes its version.
const maxNote = 1 << 20

// Version of the server that last ran on a data directory, as its files tell;
// empty where they do not. A server notes it when it initialises or upgrades a
// directory: MySQL since 8.4 in mysql_upgrade_history, older ones and MariaDB in
// a file of one line.
func Version(dir *os.Root) string {
	history := struct {
		Upgrades []struct {
			Version string `json:"version"`
		} `json:"upgrade_history"` //nolint:tagliatelle // MySQL's spelling.
	}{}
	if json.Unmarshal(note(dir, "mysql_upgrade_history"), &history) == nil && len(history.Upgrades) > 0 {
		return history.Upgrades[len(history.Upgrades)-1].Version
	}
	for _, name := range []string{"mariadb_upgrade_info", "mysql_upgrade_info"} {
		if text := strings.Trim(string(note(dir, name)), "\x00\n "); text != "" {
			return text
		}
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
