package foreign

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// An UnusableError is the reason why no server of the product can use a data directory. It ends with the next step.
type UnusableError struct{ reason string }

func (e *UnusableError) Error() string { return e.reason }

func unusable(format string, args ...any) error { return &UnusableError{fmt.Sprintf(format, args...)} }

// lostAndFound belongs to the file system of a volume.
const lostAndFound = "lost+found"

// Files of Galera. grastate.dat contains the position of the member when it stopped. gvwstate.dat contains the last
// view of the cluster, and is deleted when the member leaves the cluster. galera.cache contains recent write sets for
// other members.
const (
	galeraState = "grastate.dat"
	galeraView  = "gvwstate.dat"
	galeraCache = "galera.cache"
)

// own are files that belong to one server and are not imported. The server_uuid in auto.cnf must be unique, and the
// source server may continue to run (MySQL manual, 19.1.4). Persisted variables take precedence over my.cnf, and may
// contain options that my.cnf refuses (7.1.9.3).
var own = []string{"auto.cnf", persistedOptions, lostAndFound, galeraState, galeraView, galeraCache}

const persistedOptions = "mysqld-auto.cnf"

// Skip reports whether an import omits a file of the data directory, because it belongs to the old server, to its
// cluster or to the file system.
func Skip(name string) bool { return slices.Contains(own, name) }

// Started returns the output of mysqld --version that Percona's operator for XtraDB Cluster stores at each start of
// the server, as a version. It returns "" if there is none.
func Started(dir *os.Root) string {
	raw, err := readSmall(dir, "version_info")
	if err != nil {
		return ""
	}
	server, err := version.FromBanner(string(raw))
	if err != nil {
		return ""
	}
	return server.Version
}

// A mark is a file that shows that a data directory is unusable.
type mark struct {
	// pattern matches the path of the file in the data directory.
	pattern, reason string
}

const (
	howToConvert = "Convert its tables on the old server (ALTER TABLE … ENGINE=InnoDB), uninstall the plugin and remove " +
		"the file, or import a dump"
	howToLeaveGroup = "the data directory belongs to a member of Group Replication (%s). Its relay log can contain " +
		"transactions that are not in the tables yet, and an import would lose them. Import a dump of the primary"
)

// marks lists the files of engines that the images of MySQL do not contain, and of operations that have left the
// directory incomplete.
var marks = []mark{
	{".rocksdb", "it contains data of MyRocks (%s). " + howToConvert},
	{"#rocksdb", "it contains data of MyRocks (%s). " + howToConvert},
	{"tokudb.*", "it contains data of TokuDB (%s). " + howToConvert},
	{"*.tokulog*", "it contains data of TokuDB (%s). " + howToConvert},
	{"*group_replication_applier*", howToLeaveGroup},
	{"*group_replication_recovery*", howToLeaveGroup},
	{"sst_in_progress", "a transfer of the state from another member of its cluster was interrupted (%s). " +
		"Import the volume of a member that is complete"},
	{"#clone/#status_in_progress", "a clone into this directory was interrupted (%s). Import the volume of a server that " +
		"is complete"},
}

// Check returns an UnusableError if no server of the product can use a data directory. Other errors mean that the
// directory cannot be read.
func Check(dir *os.Root) error {
	for _, check := range []func(*os.Root) error{checkMarks, checkPersisted, checkGalera, checkPrepared, checkEncryption} {
		if err := check(dir); err != nil {
			return err
		}
	}
	return nil
}

func checkMarks(dir *os.Root) error {
	for _, directory := range []string{".", "#clone"} {
		names, err := listNames(dir, directory)
		if err != nil {
			return err
		}
		for _, name := range names {
			name = path.Join(directory, name)
			for _, m := range marks {
				if ok, _ := path.Match(m.pattern, name); ok { // A test checks that all patterns are valid.
					return unusable(m.reason, printable(name))
				}
			}
		}
	}
	return nil
}

// checkPersisted refuses a member of Group Replication whose relay logs are stored elsewhere. MySQL Shell persists the
// name of the group.
func checkPersisted(dir *os.Root) error {
	raw, err := readSmall(dir, persistedOptions)
	if err != nil {
		return err
	}
	if strings.Contains(string(raw), `"group_replication_group_name"`) {
		return unusable(howToLeaveGroup, persistedOptions)
	}
	return nil
}

// howToChooseMember ends the errors about Galera. Galera itself asks users to edit this file if no member stopped
// last.
const howToChooseMember = "Import the volume of the member whose grastate.dat contains \"safe_to_bootstrap: 1\". If no " +
	"member has it, start the cluster and stop all its members, one after the other"

// checkGalera refuses a member of a Galera cluster, unless it was the last one that left the cluster. Only that member
// has all rows.
func checkGalera(dir *os.Root) error {
	_, err := dir.Lstat(galeraView)
	switch {
	case err == nil:
		return unusable("the data directory belongs to a member of a Galera cluster that did not leave the cluster before "+
			"it stopped (%s). Other members may have more rows. %s", galeraView, howToChooseMember)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, err := dir.Lstat(galeraState); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	raw, err := readSmall(dir, galeraState)
	if err != nil {
		return err
	}
	state := fieldsOf(string(raw))
	if state["safe_to_bootstrap"] == "1" {
		return nil
	}
	return unusable("the data directory belongs to a member of a Galera cluster that was not the last one to stop "+
		"(seqno %s and safe_to_bootstrap %s in %s). Other members may have more rows. %s", printable(state["seqno"]),
		printable(state["safe_to_bootstrap"]), galeraState, howToChooseMember)
}

// checkPrepared refuses a backup by Percona XtraBackup whose log is not applied to its tables.
func checkPrepared(dir *os.Root) error {
	const checkpoints = "xtrabackup_checkpoints"
	raw, err := readSmall(dir, checkpoints)
	if err != nil {
		return err
	}
	kind := fieldsOf(string(raw))["backup_type"]
	if kind == "" || kind == "full-prepared" {
		return nil
	}
	return unusable("the directory is a backup by Percona XtraBackup that is not prepared (backup_type %s in %s). Run "+
		"xtrabackup --prepare on a copy of it, or import the volume of the server", printable(kind), checkpoints)
}

// fieldsOf parses lines like "name: value" or "name = value".
func fieldsOf(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		n := strings.IndexAny(line, ":=")
		if n < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		out[strings.TrimSpace(line[:n])] = strings.TrimSpace(line[n+1:])
	}
	return out
}

// checkEncryption refuses data that only the keyring of the old server can decrypt.
func checkEncryption(dir *os.Root) error {
	name, err := datadir.Encrypted(dir)
	return refuseEncrypted(name, err)
}

// CheckRedo refuses an encrypted redo log that a server would have to read. It is for a directory whose server did not
// stop cleanly. HowStopped cannot read an encrypted log, and therefore reports an unclean shutdown.
func CheckRedo(dir *os.Root) error {
	name, err := datadir.EncryptedRedo(dir)
	return refuseEncrypted(name, err)
}

func refuseEncrypted(name string, err error) error {
	if err != nil || name == "" {
		return err
	}
	return unusable("the file %s is encrypted, and the import has no keyring to decrypt it. Decrypt all tables and "+
		"logs on the old server (ALTER TABLE … ENCRYPTION = 'N', innodb_redo_log_encrypt, innodb_undo_log_encrypt and "+
		"binlog_encryption) and stop it, or import a dump", printable(name))
}

// maxSmall is the maximum number of bytes of a file that readSmall reads.
const maxSmall = 64 << 10

// readSmall returns the content of a regular file, or nil if it does not exist or is something else, such as a
// FIFO or a symbolic link.
func readSmall(dir *os.Root, name string) ([]byte, error) {
	isFile, err := hasType(dir, name, 0)
	if err != nil || !isFile {
		return nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// listNames returns the names in a directory, or nothing if it does not exist or is something else.
func listNames(dir *os.Root, name string) ([]string, error) {
	isDirectory, err := hasType(dir, name, fs.ModeDir)
	if err != nil || !isDirectory {
		return nil, err
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// printable returns a short text from the volume for a message. It quotes a text with unusual characters.
func printable(text string) string {
	if text == "" {
		return "missing"
	}
	quoted := fmt.Sprintf("%.100q", text)
	if strings.Trim(quoted, `"`) == text && !strings.Contains(text, " ") {
		return text
	}
	return quoted
}
