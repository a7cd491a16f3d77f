package bootcheck

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// controlFolder beside the copy holds the server's own new data directory, with which
// the options are tried.
const controlFolder = "control"

// maxSocket in bytes is what the kernel takes as a socket's path.
const maxSocket = 107

// arguments of the server's program.
type arguments struct {
	// folder and directory are a BootCheck's.
	folder, directory string
	// pageSize of the copy in bytes; 0 for the server's own.
	pageSize int
	// lowerCase is the copy's lower_case_table_names; "" for the server's own.
	lowerCase string
	// root is true if this process is root's, whom a server refuses otherwise.
	root bool
}

func (a arguments) socket() string { return filepath.Join(a.folder, "s") }

func (a arguments) temporaryFolder() string { return filepath.Join(a.folder, "tmp") }

// checkSocketPath for what the kernel would refuse: a server ends over it, which would
// count against the copy.
func (a arguments) checkSocketPath() error {
	if n := len(a.socket()); n > maxSocket {
		return fmt.Errorf("the path of the server's socket, %s, has %d bytes, and at most %d are possible", a.socket(), n, maxSocket)
	}
	return nil
}

// options that the server is told. Nobody but this program reaches it, it writes to
// nowhere else, and it is small. Settings that not all servers know are loose. It
// does not use the kernel's asynchronous I/O, of which a node has a fixed amount
// for all. Files are read and written by SQL in its temporary folder only: MariaDB, and
// MySQL before 5.6.34, do not take --secure-file-priv=NULL.
func (a arguments) options() []string {
	list := []string{
		"--no-defaults", "--loose-persisted-globals-load=OFF",
		"--datadir=" + filepath.Join(a.folder, a.directory), "--tmpdir=" + a.temporaryFolder(),
		"--socket=" + a.socket(), "--pid-file=" + a.socket() + ".pid",
		"--skip-networking", "--skip-grant-tables", "--loose-mysqlx=OFF", "--secure-file-priv=" + a.temporaryFolder(), "--local-infile=OFF",
		"--skip-log-bin", "--loose-skip-replica-start", "--loose-skip-slave-start", "--event-scheduler=DISABLED",
		"--performance-schema=OFF", "--innodb-buffer-pool-size=64M", "--innodb-log-buffer-size=8M", "--max-connections=16", "--loose-innodb-use-native-aio=OFF",
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

// control returns the same arguments for a new data directory.
func (a arguments) control() arguments {
	a.folder, a.directory = filepath.Join(a.folder, controlFolder), "data"
	return a
}

// Options that end a server as soon as it has made a new data directory. MySQL has the
// first since 5.7. Others have the second, and end with their standard input, which is empty.
const (
	initializeOption = "--initialize-insecure"
	bootstrapOption  = "--bootstrap"
)

// smallLogs keep a new data directory small.
var smallLogs = []string{"--loose-innodb-redo-log-capacity=8M", "--loose-innodb-log-file-size=8M"}

var noInitialize = regexp.MustCompile(`unknown option '` + initializeOption + `'`)

var otherCase = regexp.MustCompile(`Different lower_case_table_names settings for server \('\d'\) and data dictionary \('(\d)'\)`)

// lowerCase that a server found in the copy's dictionary when it refused to run
// with another setting; "" if it said nothing of the kind.
func lowerCase(said string) string {
	if m := otherCase.FindStringSubmatch(said); m != nil {
		return m[1]
	}
	return ""
}
