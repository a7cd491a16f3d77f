//go:build mysqld

package rotate

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// A server is a mysqld process that a test starts. It listens only on a socket, unless options are set.
type server struct {
	root    rootfs.Root
	dir     string
	mariadb bool
	options []string
	process *exec.Cmd
	ended   chan error
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newServer starts a server whose root account has the given password.
func newServer(t *testing.T, first sql.Password, options ...string) *server {
	t.Helper()
	root := rootfs.Find(t)
	dir, err := os.MkdirTemp("", "r") //nolint:usetesting // A socket's path is at most 107 bytes.
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	rootfs.Own(t, dir)
	s := &server{root: root, dir: dir, options: options}
	_, err = os.Stat(filepath.Join(root.Path, "usr", "sbin", "mariadbd"))
	s.mariadb = err == nil
	// Like the official image's entrypoint, the test creates the accounts before the server listens on the network.
	s.create(t, fmt.Sprintf("CREATE USER root@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO root@'%%' WITH GRANT "+
		"OPTION;\nALTER USER root@localhost IDENTIFIED BY '%s';\n", string(first), string(first)))
	t.Cleanup(s.kill)
	s.start(t)
	return s
}

func (s *server) create(t *testing.T, script string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(s.dir, "init.sql"), []byte(script), 0o644))
	if !s.mariadb {
		out, err := s.mysqld(t, "--initialize-insecure", "--init-file="+filepath.Join(s.dir, "init.sql")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, s.log())
		}
		return
	}
	must(t, os.MkdirAll(filepath.Join(s.dir, "d", "mysql"), 0o750))
	rootfs.Own(t, filepath.Join(s.dir, "d"))
	cmd := s.mysqld(t, "--bootstrap")
	cmd.Stdin = strings.NewReader(s.root.SystemTables(t) + script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s%s", err, out, s.log())
	}
}

func (s *server) mysqld(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{
		"--no-defaults", "--datadir=" + filepath.Join(s.dir, "d"), "--skip-networking",
		"--socket=" + filepath.Join(s.dir, "s"), "--pid-file=" + filepath.Join(s.dir, "p"),
		"--log-error=" + filepath.Join(s.dir, "error.log"),
		"--lc-messages-dir=" + s.root.Share(), "--plugin-dir=" + filepath.Join(s.root.Path, "usr", "lib", "mysql", "plugin"),
		"--general-log=1", "--general-log-file=" + filepath.Join(s.dir, "general"), "--slow-query-log=1",
		"--slow-query-log-file=" + filepath.Join(s.dir, "slow"), "--long-query-time=0",
		"--performance-schema=ON",
	}, append(slices.Clone(s.options), args...)...)
	if !s.mariadb {
		args = append(args, "--mysqlx=OFF", "--secure-file-priv=NULL")
	}
	return s.root.Command("usr/sbin/mysqld", args...)
}

func (s *server) log() string {
	raw, _ := os.ReadFile(filepath.Join(s.dir, "error.log"))
	return string(raw)
}

// start starts the server and waits until it answers.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.process, s.ended = s.mysqld(t), make(chan error, 1)
	must(t, s.process.Start())
	go func(p *exec.Cmd, ended chan<- error) { ended <- p.Wait() }(s.process, s.ended)
	for range 2400 { // On a busy machine, this can take minutes.
		if sql.IsAccessDenied(s.ping(t.Context(), "nobody has this")) {
			return
		}
		select {
		case err := <-s.ended:
			s.process = nil
			t.Fatalf("mysqld ended: %v\n%s", err, s.log())
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("mysqld does not answer\n%s", s.log())
}

func (s *server) kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	<-s.ended
	s.process = nil
}

// address returns the address of the server for this process.
func (s *server) address() sql.Server {
	for _, o := range s.options {
		if port, ok := strings.CutPrefix(o, "--port="); ok {
			return sql.Server{Address: "127.0.0.1:" + port, Trust: sql.Trust{AnyServer: true}}
		}
	}
	return sql.Server{Address: "mysql:3306", Trust: sql.Trust{AnyServer: true},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, "s"))
		}}
}

func (s *server) ping(ctx context.Context, p sql.Password) error { return s.address().Ping(ctx, p) }

func (s *server) login(t *testing.T, p sql.Password) *sql.Session {
	t.Helper()
	out, err := s.address().Login(t.Context(), p)
	must(t, err)
	t.Cleanup(out.Close)
	return out
}
