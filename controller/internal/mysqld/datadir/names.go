// Package datadir describes the files of a MySQL or MariaDB data directory. It decides which of them a copy needs,
// which of them a running server locks, and whether the server stopped cleanly.
package datadir

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// MySQL stores the redo log in redoDir since 8.0.30, and temporary tablespaces in tempDir since 8.0.13.
const (
	redoDir = "#innodb_redo"
	tempDir = "#innodb_temp"
)

// Skip reports whether a copy omits a file, because every server creates it when it starts. These are sockets,
// process IDs, temporary tablespaces and reserved redo log files. Private keys and their certificates are also
// omitted, because a second server must not have them. Each file was tested with real servers. The path is relative
// to the data directory.
func Skip(name string, mode fs.FileMode) bool {
	dir, base := path.Split(name)
	switch {
	case mode.Type() == fs.ModeSocket:
		return true
	case dir == "":
		return topLevelSkip(base, mode)
	case dir == redoDir+"/":
		return strings.HasSuffix(base, "_tmp")
	}
	return dir == tempDir+"/"
}

// topLevelSkip reports whether a copy omits a file at the root of the data directory. One of these files is
// mysql.sock in the official image, a symbolic link that points outside.
func topLevelSkip(base string, mode fs.FileMode) bool {
	switch {
	case mode.IsDir():
		return false
	case strings.HasSuffix(base, ".sock"), strings.HasSuffix(base, ".sock.lock"), strings.HasSuffix(base, ".pid"):
		return true
	}
	return base == "ibtmp1" || slices.Contains(keys, base)
}

// keys are the keys and certificates that a server creates for itself
// (https://dev.mysql.com/doc/refman/8.4/en/creating-ssl-rsa-files-using-mysql.html).
var keys = []string{"ca-key.pem", "ca.pem", "client-cert.pem", "client-key.pem", "private_key.pem", "public_key.pem",
	"server-cert.pem", "server-key.pem"}

// held are patterns of the files that a running server keeps open and locked.
var held = []string{
	"ibdata*", "ibtmp*", "mysql.ibd", "undo*", "*.ibu", "*.dblwr",
	redoDir + "/#ib_redo*", "ib_logfile*", "aria_log_control", "aria_log.*",
}

// Held reports whether a running server keeps the file locked all the time.
func Held(name string) bool {
	for _, pattern := range held {
		if ok, _ := path.Match(pattern, name); ok { // A test checks that all patterns are valid.
			return true
		}
	}
	return false
}

// Locked reports whether a running server locks the file while it is open.
func Locked(name string) bool { return Held(name) || path.Ext(name) == ".ibd" }
