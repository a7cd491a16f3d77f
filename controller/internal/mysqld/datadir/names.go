// Package datadir knows the files of a MySQL or MariaDB data directory:
// which of them a copy needs, which of them a running server locks, and whether the
// server that wrote them stopped cleanly.
package datadir

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Folders of MySQL since 8.0.30 and 8.0.13.
const (
	redoFolder = "#innodb_redo"
	tempFolder = "#innodb_temp"
)

// Skip is true for what a copy does not need, because every server makes it anew
// when it starts: sockets and process IDs, temporary tablespaces, redo log
// files that are kept in reserve, and keys with their certificates, which must not
// be a second server's. Each was removed and made again by a real
// server. The path is relative to the data directory.
func Skip(name string, mode fs.FileMode) bool {
	folder, base := path.Split(name)
	switch {
	case mode.Type() == fs.ModeSocket:
		return true
	case folder == "":
		return topLevelSkip(base, mode)
	case folder == redoFolder+"/":
		return strings.HasSuffix(base, "_tmp")
	}
	return folder == tempFolder+"/"
}

// topLevelSkip knows the official image's mysql.sock, which is a symbolic link
// to a place outside.
func topLevelSkip(base string, mode fs.FileMode) bool {
	switch {
	case mode.IsDir():
		return false
	case strings.HasSuffix(base, ".sock"), strings.HasSuffix(base, ".sock.lock"), strings.HasSuffix(base, ".pid"):
		return true
	}
	return base == "ibtmp1" || slices.Contains(keys, base)
}

// keys that a server makes for itself, with their certificates
// (https://dev.mysql.com/doc/refman/8.4/en/creating-ssl-rsa-files-using-mysql.html).
var keys = []string{"ca-key.pem", "ca.pem", "client-cert.pem", "client-key.pem", "private_key.pem", "public_key.pem", "server-cert.pem", "server-key.pem"}

// held are patterns of the files that a running server keeps open and locked.
var held = []string{
	"ibdata*", "ibtmp*", "mysql.ibd", "undo*", "*.ibu", "*.dblwr",
	redoFolder + "/#ib_redo*", "ib_logfile*", "aria_log_control", "aria_log.*",
}

// Held is true for the files that a running server keeps locked as long as it
// runs.
func Held(name string) bool {
	for _, pattern := range held {
		if ok, _ := path.Match(pattern, name); ok { // The patterns are well formed, a test says.
			return true
		}
	}
	return false
}

// Locked is true for the files that a running server locks while it has them
// open.
func Locked(name string) bool { return Held(name) || path.Ext(name) == ".ibd" }
