//go:build mysqld

// Package rootfs runs a real server in tests, from a root file system as
// mmdebstrap makes it of the packages base-files, mysql-server-core and
// mysql-client-core, or those of MariaDB. Nothing is installed and nothing is
// mounted: its programs are run by its own loader.
package rootfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Variable names the root file system.
const Variable = "MYSQLD_ROOTFS"

// SmallServer are options of one that fills 300 MiB less when it starts. Tests start many. A
// smaller buffer pool is too small for pages of 64 KiB.
func SmallServer() []string {
	return []string{"--performance-schema=OFF", "--innodb-log-buffer-size=1M", "--innodb-buffer-pool-size=32M"}
}

// User that a server runs as where the test is root's, and its group.
const User = 999

// A Root is the root file system of a server.
type Root struct {
	Path string

	loader, libraries string
}

// Find the root file system.
func Find(t *testing.T) Root {
	t.Helper()
	path := os.Getenv(Variable)
	if path == "" {
		t.Fatalf("%s is not set", Variable)
	}
	return Root{
		Path:      path,
		loader:    within(t, path, one(t, filepath.Join(path, "lib*", "ld-linux-*.so.*"))),
		libraries: one(t, filepath.Join(path, "usr", "lib", "*-linux-gnu")) + ":" + one(t, filepath.Join(path, "lib", "*-linux-gnu")), // Two until Debian 12.
	}
}

// within the root file system is what a link in it leads to.
func within(t *testing.T, path, name string) string {
	t.Helper()
	to, err := os.Readlink(name)
	if err != nil || !filepath.IsAbs(to) {
		return name
	}
	return filepath.Join(path, to)
}

// Share is the folder of the server's messages, character sets and scripts. MariaDB 11 has another one.
func (r Root) Share() string {
	own := filepath.Join(r.Path, "usr", "share", "mariadb")
	if _, err := os.Stat(filepath.Join(own, "charsets")); err == nil {
		return own
	}
	return filepath.Join(r.Path, "usr", "share", "mysql")
}

// IsMariaDB is true of a server of MariaDB.
func (r Root) IsMariaDB() bool {
	_, err := os.Stat(filepath.Join(r.Path, "usr", "sbin", "mariadbd"))
	return err == nil
}

// SystemTables returns the statements that make the schema mysql, for a server of MariaDB with
// --bootstrap. The folder of that schema must be there.
func (r Root) SystemTables(t *testing.T) string {
	t.Helper()
	out := "use mysql;\n"
	for _, name := range []string{"mysql_system_tables", "mysql_system_tables_data", "maria_add_gis_sp_bootstrap"} {
		for _, prefix := range []string{"mariadb", "mysql"} { // MariaDB 11 has renamed them.
			raw, err := os.ReadFile(filepath.Join(r.Share(), strings.Replace(name, "mysql", prefix, 1)+".sql")) //nolint:gosec // Test data.
			if err == nil {
				out += string(raw) + "\n"
				break
			}
		}
	}
	if !strings.Contains(out, "CREATE TABLE") {
		t.Fatalf("%s has no statements that make the system tables", r.Path)
	}
	return out + "flush privileges;\n"
}

// Client is the command of a program. It ends by itself, its caller ends it, or the kernel does
// where the test was killed.
func (r Root) Client(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(r.loader, append([]string{"--library-path", r.libraries, filepath.Join(r.Path, program)}, args...)...) //nolint:gosec,noctx // Test data, and the caller ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Command is the same as the User: a server does not run as root.
func (r Root) Command(program string, args ...string) *exec.Cmd {
	cmd := r.Client(program, args...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: User, Gid: User}
	}
	return cmd
}

// Own gives a folder and all in it to the User, where the test is root's.
func Own(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, User, User)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("there is no %s", pattern)
	}
	return found[0]
}
