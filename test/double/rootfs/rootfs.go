//go:build mysqld

// Package rootfs runs a real MySQL or MariaDB server in tests. The server is in a root file system that mmdebstrap
// has created from Debian packages: base-files, mysql-server-core and mysql-client-core, or the corresponding
// packages of MariaDB. Nothing is installed or mounted on the machine. Instead, each program is started with the
// dynamic loader and the libraries of that file system.
package rootfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Variable is the environment variable with the path of the root file system.
const Variable = "MYSQLD_ROOTFS"

// SmallServer returns options that reduce the memory and the buffers of a server. Tests start many servers, and each
// of them writes 300 MiB less when it starts. The buffer pool cannot be smaller, because pages of 64 KiB must fit
// into it.
func SmallServer() []string {
	return []string{"--performance-schema=OFF", "--innodb-log-buffer-size=1M", "--innodb-buffer-pool-size=32M"}
}

// User is the user and group ID of a server if the test runs as root.
const User = 999

// A Root is a root file system that contains a MySQL or MariaDB server.
type Root struct {
	Path string

	loader, libraries string
}

// Find returns the root file system in the environment variable MYSQLD_ROOTFS. The test fails if it is not set.
func Find(t *testing.T) Root {
	t.Helper()
	path := os.Getenv(Variable)
	if path == "" {
		t.Fatalf("%s is not set", Variable)
	}
	return Root{
		Path:   path,
		loader: within(t, path, one(t, filepath.Join(path, "lib*", "ld-linux-*.so.*"))),
		// Debian 12 and earlier releases have two library directories.
		libraries: one(t, filepath.Join(path, "usr", "lib", "*-linux-gnu")) + ":" +
			one(t, filepath.Join(path, "lib", "*-linux-gnu")),
	}
}

// within returns the target of a link inside the root file system.
func within(t *testing.T, path, name string) string {
	t.Helper()
	target, err := os.Readlink(name)
	if err != nil || !filepath.IsAbs(target) {
		return name
	}
	return filepath.Join(path, target)
}

// Share returns the directory with the server's messages, character sets and scripts. It has a different name in
// MariaDB 11.
func (r Root) Share() string {
	own := filepath.Join(r.Path, "usr", "share", "mariadb")
	if _, err := os.Stat(filepath.Join(own, "charsets")); err == nil {
		return own
	}
	return filepath.Join(r.Path, "usr", "share", "mysql")
}

// IsMariaDB reports whether the server is MariaDB.
func (r Root) IsMariaDB() bool {
	_, err := os.Stat(filepath.Join(r.Path, "usr", "sbin", "mariadbd"))
	return err == nil
}

// SystemTables returns the statements with which MariaDB creates the schema mysql (--bootstrap). The directory of
// that schema must exist.
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

// Client returns a command that runs a program of the root file system. The kernel kills the program if the test is
// killed.
func (r Root) Client(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(r.loader, append([]string{"--library-path", r.libraries, filepath.Join(r.Path, program)}, args...)...) //nolint:gosec,noctx // Test data, and the caller ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Command returns a command like Client, but with the user User, because a server does not run as root.
func (r Root) Command(program string, args ...string) *exec.Cmd {
	cmd := r.Client(program, args...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: User, Gid: User}
	}
	return cmd
}

// Own changes the owner of a directory and its contents to User if the test runs as root.
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
