//go:build mysqld

package initialize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// A box is a container of the server's image with its own namespaces. Its first process is the program of this test.
// If that process exits, all processes in the box are killed.
type box struct {
	// Root is the root file system of the image. Volume is a directory that is mounted as its volume.
	Root, Volume string
	// Scripts is the directory for /docker-entrypoint-initdb.d, if any.
	Scripts string
	// Env is the environment of the container.
	Env []string
	// Initialize runs an initialization. Serve starts the server as its container does, and checks which passwords
	// the server accepts.
	Initialize *initialization `json:",omitempty"`
	Serve      *passwords      `json:",omitempty"`
	// Settings is a directory that replaces the image's /etc/mysql/conf.d. Validate makes the box validate these
	// files.
	Settings string `json:",omitempty"`
	Validate bool   `json:",omitempty"`
	// Load makes the box load a dump.
	Load *loading `json:",omitempty"`
}

type initialization struct {
	XR       types.UID `json:",omitempty"`
	Allowed  bool
	Password string
	Clients  []netip.Addr `json:",omitempty"`
}

// loading contains the parameters for loading a dump in the directory of an import.
type loading struct {
	Object, Database string
	Summed           bool
}

// passwords contains root's requested password, and a query to run with it.
type passwords struct {
	Wanted string
	Query  string
	// Shell is a command to run instead of the query, with MYSQL_PWD set.
	Shell string
}

const boxVariable = "INITIALIZE_TEST_BOX"

func TestMain(m *testing.M) {
	if text := os.Getenv(boxVariable); text != "" {
		b := box{}
		err := json.Unmarshal([]byte(text), &b)
		if err == nil {
			err = b.play()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Directories in the root file system of a box: the data volume and the server's socket.
const (
	boxVolume  = "/data"
	boxSockets = "/tmp/sockets"
)

// play is the main function of the first process in a box. It does what the fields of the box request.
func (b *box) play() error {
	if err := b.enter(); err != nil {
		return fmt.Errorf("cannot enter: %w", err)
	}
	for _, e := range append(b.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") {
		name, value, _ := strings.Cut(e, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if err := os.Unsetenv(boxVariable); err != nil {
		return err
	}
	if i := b.Initialize; i != nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		_, err := (&Initialization{
			Volume: boxVolume, Directory: v1.DataDirectory, XR: i.XR, Allowed: i.Allowed, Password: sql.Password(i.Password),
			Clients: i.Clients, Sockets: boxSockets, Output: os.Stdout,
		}).Run(ctx)
		return err
	}
	if b.Validate {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		_, err := (&Validation{Volume: boxVolume, Sockets: boxSockets, Output: os.Stdout}).Run(ctx)
		return err
	}
	if l := b.Load; l != nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		_, err := (&Loading{
			Half:   datavolume.Half{Volume: boxVolume, Directory: v1.DataDirectory, XR: "uid", Name: "dump/s/" + l.Object},
			Object: l.Object, Database: l.Database, Summed: l.Summed, Sockets: boxSockets, Output: os.Stdout,
		}).Run(ctx)
		return err
	}
	return b.Serve.check()
}

// enter mounts and enters the root file system, and switches to the account of the server.
func (b *box) enter() error {
	mount := func(source, target, kind string, flags uintptr, data string) error {
		if err := unix.Mount(source, filepath.Join(b.Root, target), kind, flags, data); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
		return nil
	}
	owned := fmt.Sprintf("mode=755,uid=%[1]d,gid=%[1]d", rootfs.User)
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(b.Root, b.Root, "", unix.MS_BIND, ""),
		unix.Mount("", b.Root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""),
		mount("proc", "proc", "proc", 0, ""), mount("/dev", "dev", "", unix.MS_BIND|unix.MS_REC, ""),
		mount("tmpfs", "tmp", "tmpfs", 0, "mode=1777"), mount("tmpfs", "run/mysqld", "tmpfs", 0, owned),
		mount("tmpfs", "var/lib/mysql-files", "tmpfs", 0, owned),
		mount(b.Volume, boxVolume, "", unix.MS_BIND, ""))
	if b.Serve != nil { // The server's container mounts only the data.
		err = errors.Join(err, mount(filepath.Join(b.Volume, v1.DataDirectory), "var/lib/mysql", "", unix.MS_BIND, ""))
	}
	if b.Settings != "" {
		err = errors.Join(err, mount(b.Settings, "etc/mysql/conf.d", "", unix.MS_BIND, ""))
	}
	if b.Scripts != "" {
		err = errors.Join(err, mount(b.Scripts, "docker-entrypoint-initdb.d", "", unix.MS_BIND, ""))
	}
	if err = errors.Join(err, loopback()); err != nil {
		return err
	}
	if err := errors.Join(unix.Chroot(b.Root), unix.Chdir("/"), syscall.Setgroups(nil)); err != nil {
		return err
	}
	return errors.Join(syscall.Setgid(rootfs.User), syscall.Setuid(rootfs.User))
}

func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return errors.Join(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r), unix.Close(fd))
}

// check starts the server as its own container does, without a password in its environment, and checks its
// passwords.
func (p *passwords) check() error {
	log := &bytes.Buffer{}
	s, err := process.Start(exec.Command("docker-entrypoint.sh", oneOf("mariadbd", "mysqld")),
		&process.Log{Out: log, All: true})
	if err != nil {
		return err
	}
	tcp := sql.Server{Address: "127.0.0.1:3306", Trust: sql.Trust{AnyServer: true}}
	for sql.IsUnreachable(tcp.Ping(context.Background(), sql.Password(p.Wanted))) {
		if s.Ended() {
			return fmt.Errorf("the server ended:\n%s", log)
		}
		time.Sleep(pollInterval)
	}
	session, err := tcp.Login(context.Background(), sql.Password(p.Wanted))
	if err != nil {
		return fmt.Errorf("the wanted password over TCP: %w\n%s", err, log)
	}
	session.Close()
	if err := tcp.Ping(context.Background(), ""); !sql.IsAccessDenied(err) {
		return fmt.Errorf("no password over TCP: %w", err)
	}
	socket := exec.Command(oneOf("mysql", "mariadb"), "--no-defaults", "--user=root", "--socket=/run/mysqld/mysqld.sock",
		"-e", "SELECT 1")
	if out, err := socket.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("Access denied")) {
		return fmt.Errorf("no password over the socket: %w, %s", err, out)
	}
	if p.Shell != "" {
		shell := exec.Command("sh", "-c", p.Shell)
		shell.Env, shell.Stdout, shell.Stderr = append(os.Environ(), "MYSQL_PWD="+p.Wanted), os.Stdout, os.Stderr
		return shell.Run()
	}
	query := exec.Command(oneOf("mysql", "mariadb"), "--no-defaults", "--user=root", "--host=127.0.0.1", "-BNe", p.Query)
	query.Env = append(os.Environ(), "MYSQL_PWD="+p.Wanted)
	out, err := query.CombinedOutput()
	fmt.Print(string(out))
	return err
}

// oneOf returns the first given program that exists in the image.
func oneOf(programs ...string) string {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			return p
		}
	}
	return programs[0]
}

// A run is a running box: its first process and the output of that process.
type run struct {
	cmd  *exec.Cmd
	out  *bytes.Buffer
	done chan struct{}
}

func (b box) begin(t *testing.T) *run {
	t.Helper()
	raw, err := json.Marshal(b)
	must(t, err)
	r := &run{cmd: exec.CommandContext(t.Context(), "/proc/self/exe"), out: &bytes.Buffer{}, done: make(chan struct{})}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = []string{boxVariable + "=" + string(raw)}, r.out, r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // The kernel kills the box when this thread exits.
		err := r.cmd.Start()
		started <- err
		if err == nil {
			_ = r.cmd.Wait() // The exit status is read from ProcessState.
		}
		close(r.done)
	}()
	must(t, <-started)
	return r
}

// end waits until the box has exited and returns its output.
func (r *run) end() (string, error) {
	<-r.done
	if !r.cmd.ProcessState.Success() {
		return r.out.String(), errors.New(r.cmd.ProcessState.String())
	}
	return r.out.String(), nil
}

// killAfter kills the box with all its processes after the given duration. It returns false if the box has already
// exited.
func (r *run) killAfter(d time.Duration) bool {
	select {
	case <-r.done:
		return false
	case <-time.After(d):
		_ = r.cmd.Process.Kill() // The box may exit at the same time.
		<-r.done
		return true
	}
}

// stopAfter sends SIGTERM to the first process after the given duration, as a container runtime does. It returns
// false if the box has already exited.
func (r *run) stopAfter(t *testing.T, d time.Duration) bool {
	t.Helper()
	select {
	case <-r.done:
		return false
	case <-time.After(d):
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // The box may exit at the same time.
	r.endsByItself(t)
	return true
}

// endsByItself checks that the box soon exits on its own.
func (r *run) endsByItself(t *testing.T) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		_ = r.cmd.Process.Kill()
		<-r.done
		t.Fatalf("It does not end by itself:\n%s", r.out)
	}
}

func newBox(t *testing.T) box {
	t.Helper()
	root := rootfs.Find(t)
	must(t, os.MkdirAll(filepath.Join(root.Path, boxVolume), 0o755))
	b := box{Root: root.Path, Volume: t.TempDir()}
	rootfs.Own(t, b.Volume)
	// Smaller files make the initialization faster.
	settings := filepath.Join(root.Path, "etc/mysql/conf.d/small.cnf")
	must(t, os.WriteFile(settings, []byte("[mysqld]\nskip_log_bin\nloose_innodb_redo_log_capacity = 32M\n"), 0o644))
	must(t, os.Chmod(filepath.Dir(b.Volume), 0o755)) //nolint:gosec // The server's account needs access.
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
