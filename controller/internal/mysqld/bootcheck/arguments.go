package bootcheck

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// controlDir is the name of a temporary directory next to the copy of the data. If mysqld does not start on the copy,
// it must create a new data directory in controlDir with the same options. If that fails too, the copy is not the
// cause.
const controlDir = "control"

// maxSocket is the kernel's limit for the path of a socket, in bytes.
const maxSocket = 107

// arguments contain what determines the command-line options of the mysqld process of a boot check.
type arguments struct {
	// dir is the directory that contains the copy of the data, and directory is the name of the copy in it.
	dir, directory string
	// pageSize is the page size of the copy in bytes, or 0 for the server's default.
	pageSize int
	// lowerCase is the lower_case_table_names of the copy, or "" for the server's default.
	lowerCase string
	// root is true if this process runs as root. A server refuses to run as root unless an option allows it.
	root bool
}

func (a arguments) socket() string { return filepath.Join(a.dir, "s") }

func (a arguments) temporaryDir() string { return filepath.Join(a.dir, "tmp") }

// checkSocketPath returns an error if the kernel would refuse the path of the socket. The server would then exit, and
// the copy would be reported as broken.
func (a arguments) checkSocketPath() error {
	if n := len(a.socket()); n > maxSocket {
		return fmt.Errorf("the path of the server's socket, %s, is %d bytes long, but the maximum is %d bytes",
			a.socket(), n,
			maxSocket)
	}
	return nil
}

// options returns the command-line options of the server. They isolate the server from the network and from other
// files, and limit its memory. Options that not all servers support have the prefix loose. Asynchronous I/O is off,
// because all processes on a node share a fixed number of requests. SQL can access files only in the temporary
// directory, because MariaDB, and MySQL before 5.6.34, do not support --secure-file-priv=NULL.
func (a arguments) options() []string {
	list := []string{
		"--no-defaults", "--loose-persisted-globals-load=OFF",
		"--datadir=" + filepath.Join(a.dir, a.directory), "--tmpdir=" + a.temporaryDir(),
		"--socket=" + a.socket(), "--pid-file=" + a.socket() + ".pid",
		"--skip-networking", "--skip-grant-tables", "--loose-mysqlx=OFF", "--secure-file-priv=" + a.temporaryDir(),
		"--local-infile=OFF",
		"--skip-log-bin", "--loose-skip-replica-start", "--loose-skip-slave-start", "--event-scheduler=DISABLED",
		"--performance-schema=OFF", "--innodb-buffer-pool-size=64M", "--innodb-log-buffer-size=8M", "--max-connections=16",
		"--loose-innodb-use-native-aio=OFF",
	}
	if a.pageSize > 0 {
		list = append(list, "--innodb-page-size="+strconv.Itoa(a.pageSize))
	}
	if a.lowerCase != "" {
		list = append(list, "--lower-case-table-names="+a.lowerCase)
	}
	if a.root {
		list = append(list, "--user=root")
	}
	return list
}

// control returns the arguments for creating an empty data directory in controlDir.
func (a arguments) control() arguments {
	a.dir, a.directory = filepath.Join(a.dir, controlDir), "data"
	return a
}

// initializeOption and bootstrapOption make a server create a new data directory and exit. MySQL supports
// initializeOption since 5.7. Other servers support bootstrapOption, and exit at the end of their standard input,
// which is empty.
const (
	initializeOption = "--initialize-insecure"
	bootstrapOption  = "--bootstrap"
)

// smallLogs are options that keep a new data directory small.
var smallLogs = []string{"--loose-innodb-redo-log-capacity=8M", "--loose-innodb-log-file-size=8M"}

var noInitialize = regexp.MustCompile(`unknown option '` + initializeOption + `'`)

var otherCase = regexp.MustCompile(
	`Different lower_case_table_names settings for server \('\d'\) and data dictionary \('(\d)'\)`)

// lowerCase returns the copy's lower_case_table_names from the error message of a server. It returns "" if the
// message is about something else.
func lowerCase(value string) string {
	if m := otherCase.FindStringSubmatch(value); m != nil {
		return m[1]
	}
	return ""
}
