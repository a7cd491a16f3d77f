//go:build mysqld

package archive

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// A server is a mysqld process that a test starts. It has its own data directory and listens only on a socket.
type server struct {
	root           rootfs.Root
	volume, socket string
	version        string
	options        []string
	// user is the user and the group of the server if the test runs as root. The default is rootfs.User.
	user uint32
	// program is the path of another mysqld. The default is the one of the root file system.
	program string
	process *exec.Cmd
	ended   chan error
}

func newServer(t *testing.T) *server {
	t.Helper()
	short, err := os.MkdirTemp("", "m") //nolint:usetesting // A socket's path is at most 107 bytes.
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	s := &server{root: rootfs.Find(t), options: rootfs.SmallServer(), socket: filepath.Join(short, "s"),
		volume: filepath.Join(short, "v")}
	must(t, os.Mkdir(s.volume, 0o750))
	rootfs.Own(t, short)
	out, err := s.root.Command("usr/sbin/mysqld", "--no-defaults", "--version").Output()
	must(t, err)
	v, err := version.FromBanner(string(out))
	must(t, err)
	s.version = v.Version
	t.Cleanup(func() {
		if s.process != nil {
			s.kill(t)
		}
	})
	return s
}

func (s *server) mysqld(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := s.root.Command("usr/sbin/mysqld", slices.Concat([]string{
		"--no-defaults", "--datadir=" + filepath.Join(s.volume, v1.DataDirectory), "--skip-networking", "--mysqlx=OFF",
		"--socket=" + s.socket, "--pid-file=" + s.socket + ".pid", "--log-error=" + s.socket + ".err",
		"--lc-messages-dir=" + filepath.Join(s.root.Path, "usr", "share", "mysql"),
		"--plugin-dir=" + filepath.Join(s.root.Path, "usr", "lib", "mysql", "plugin"), "--secure-file-priv=NULL",
	}, s.options, args)...)
	if s.program != "" { // The arguments of the loader are --library-path, its value and the program.
		cmd.Args[3] = s.program
	}
	if s.user != 0 && os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.user, Gid: s.user}
	}
	return cmd
}

func (s *server) initialise(t *testing.T) {
	t.Helper()
	if out, err := s.mysqld(t, "--initialize-insecure").CombinedOutput(); err != nil {
		t.Fatalf("mysqld --initialize-insecure: %v\n%s%s", err, out, s.log())
	}
}

func (s *server) log() string {
	raw, _ := os.ReadFile(s.socket + ".err")
	return string(raw)
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.process, s.ended = s.mysqld(t), make(chan error, 1)
	must(t, s.process.Start())
	go func(p *exec.Cmd, ended chan<- error) { ended <- p.Wait() }(s.process, s.ended)
	for range 600 {
		if _, err := s.query("select 1"); err == nil {
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

// stop sends SIGTERM, the first signal that the kubelet sends.
func (s *server) stop(t *testing.T) {
	t.Helper()
	must(t, s.process.Process.Signal(syscall.SIGTERM))
	if err := <-s.ended; err != nil {
		t.Fatalf("mysqld ended with %v\n%s", err, s.log())
	}
	s.process = nil
}

// kill sends SIGKILL, as the kubelet does after the termination grace period.
func (s *server) kill(t *testing.T) {
	t.Helper()
	_ = s.process.Process.Kill()
	<-s.ended
	s.process = nil
}

func (s *server) query(sql string) (string, error) {
	cmd := s.root.Client("usr/bin/mysql", "--no-defaults", "--user=root", "--socket="+s.socket, "--batch",
		"--skip-column-names")
	cmd.Stdin = strings.NewReader(sql)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, failure.String())
	}
	return string(out), nil
}

func (s *server) must(t *testing.T, sql string) string {
	t.Helper()
	out, err := s.query(sql)
	must(t, err)
	return out
}
