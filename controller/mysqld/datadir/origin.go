package datadir

import (
	"encoding/json"
	"io"
	"os"
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
