package initialize

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// entrypoints of images, first those of the official ones.
var entrypoints = []string{"docker-entrypoint.sh", "/usr/local/bin/docker-entrypoint.sh", "/entrypoint.sh"}

// writable are options of a server that this package writes to, whatever its my.cnf says: it is told of passwords, and nobody else
// reaches it.
var writable = []string{"--read-only=OFF", "--loose-super-read-only=OFF", "--loose-offline-mode=OFF"}

const (
	// pollInterval is the time between two looks whether the server is up.
	pollInterval = 100 * time.Millisecond
	// greetingTime is how long one look waits for a server that has made its socket.
	greetingTime = 5 * time.Second
	// answerTime of a server that nobody else asks.
	answerTime = time.Minute
	// stopTime is how long the server may take to write everything out.
	stopTime = 10 * time.Minute
)

// A server is the entrypoint, which becomes the server in the end.
type server struct {
	redact.All
	*process.Process

	socket    string
	generated sql.Password
}

// startEntrypoint on a folder with a generated password for root where it makes a database, and
// with more options of the server's. How long it takes is the disk's affair, and that of
// the scripts in /docker-entrypoint-initdb.d.
func (i *Initialization) startEntrypoint(folder string, generated sql.Password, options ...string) (*server, error) {
	return i.runEntrypoint(generated, slices.Concat([]string{"--datadir=" + folder, "--skip-networking", "--socket=" + i.socket(), "--loose-mysqlx=OFF"}, writable, options)...)
}

// socket of the server.
func (i *Initialization) socket() string { return filepath.Join(i.Sockets, "s") }

// runEntrypoint with options of the server's.
func (i *Initialization) runEntrypoint(generated sql.Password, options ...string) (*server, error) {
	if err := os.RemoveAll(i.Sockets); err != nil {
		return nil, err
	}
	// The entrypoint hands it over to the server's account, where it is root.
	if err := os.Mkdir(i.Sockets, 0o755); err != nil { //nolint:gosec // There are no others in the container.
		return nil, fmt.Errorf("cannot make a folder for the socket: %w", err)
	}
	s := &server{socket: i.socket(), generated: generated}
	command := i.command
	if command == nil {
		command = entrypoint
	}
	// What begins with an option is taken for one of the server's, whatever its
	// program is called.
	cmd, err := command(options...)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(environment(cmd.Environ(), s.generated), i.environment...)
	if s.Process, err = process.Start(cmd, &process.Log{Out: i.Output, All: true}); err != nil {
		return nil, fmt.Errorf("cannot run the image's entrypoint: %w", err)
	}
	return s, nil
}

// entrypoint of this image.
func entrypoint(args ...string) (*exec.Cmd, error) {
	for _, name := range entrypoints {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, args...), nil //nolint:gosec,noctx // One of the programs above; it is killed in the end.
		}
	}
	return nil, fmt.Errorf("this image has none of %s, by which an official image makes a database: choose an image that has", strings.Join(entrypoints, ", "))
}

// environment of the entrypoint, with the generated password for root if there is one. It takes
// one only, and has no choice that the image itself may have made.
func environment(own []string, generated sql.Password) []string {
	choices := append(agent.PasswordVariables(), "MYSQL_ONETIME_PASSWORD")
	out := slices.DeleteFunc(slices.Clone(own), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(choices, name)
	})
	if generated == "" {
		return out
	}
	return append(out, "MYSQL_ROOT_PASSWORD="+string(generated))
}

// awaitServer until the entrypoint has become the server. The one that it starts for
// its own work answers at the same socket, but is another process.
func (s *server) awaitServer(ctx context.Context) error {
	for {
		if pid, ok := s.listener(ctx); ok && pid == s.Cmd.Process.Pid {
			return nil
		}
		select {
		case <-s.Done:
			return fmt.Errorf("the image's entrypoint ended before there was a server (%s): %s", s.End(), s.Log.Complaints())
		case <-ctx.Done():
			return fmt.Errorf("told to stop before the end; the next run begins anew: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// listener is the process that made the socket, once it greets clients. A server makes the socket before it has
// started: MariaDB that is told to stop between the two waits for its own thread for ever.
func (s *server) listener(ctx context.Context) (pid int, ok bool) {
	c, err := s.dial(ctx, "", "")
	if err != nil {
		return 0, false
	}
	defer c.Close() //nolint:errcheck // Nothing was said.
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		cred, cerr := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:gosec // The kernel counts them from zero.
		if ok = cerr == nil; ok {
			pid = int(cred.Pid)
		}
	})
	return pid, ok && err == nil && greets(c)
}

// greets is true of a server that takes clients: it speaks first.
func greets(c net.Conn) bool {
	if err := c.SetReadDeadline(time.Now().Add(greetingTime)); err != nil {
		return false
	}
	_, err := c.Read(make([]byte, 1))
	return err == nil
}

func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
}

// sql of a server that has just been started, beside others maybe: a first start that gives
// up begins anew, and takes longer than any answer.
func (s *server) sql() sql.Server {
	return sql.Server{Address: "localhost", Dial: s.dial, Hidden: []sql.Password{s.generated}, Trust: sql.Trust{Anybody: true}, Times: &sql.Times{Handshake: answerTime, Session: answerTime}}
}

// takeOver the server: the wanted password becomes the only one. It returns the version.
func (s *server) takeOver(ctx context.Context, wanted sql.Password) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	session, err := s.sql().Login(ctx, s.generated)
	if err != nil {
		return "", fmt.Errorf("cannot enter the new server with the password that its entrypoint was given; does a script in /docker-entrypoint-initdb.d change it? %w", err)
	}
	defer session.Close()
	version, _, err := session.Version(ctx)
	if err != nil {
		return "", err
	}
	accounts, err := session.RootAccounts(ctx)
	if err != nil {
		return "", err
	}
	switch err := session.SetPassword(ctx, accounts, wanted, false); {
	case sql.IsAgainstPolicy(err):
		return "", fmt.Errorf("the new server's rules for passwords (validate_password) do not allow the wanted one: choose another, in spec.password or in the Secret: %w", err)
	case err != nil:
		return "", err
	}
	if err := s.checkPassword(ctx, wanted); err != nil {
		return "", err
	}
	return version, nil
}

// checkPassword sees that the wanted one is accepted, and that root is let in neither
// without a password nor with the generated one.
func (s *server) checkPassword(ctx context.Context, wanted sql.Password) error {
	if err := s.sql().Ping(ctx, wanted); err != nil {
		return fmt.Errorf("the new server does not accept the password that it was just given: %w", err)
	}
	for what, wrong := range map[string]sql.Password{"no password": "", "the password of its first start": s.generated} {
		err := s.sql().Ping(ctx, wrong)
		if err == nil {
			return fmt.Errorf("the new server lets root in with %s: choose an image that does not", what)
		}
		if !sql.IsAccessDenied(err) {
			return fmt.Errorf("cannot find out whether the new server lets root in with %s: %w", what, err)
		}
	}
	return nil
}

// stop the server, in which nobody is logged in any more.
func (s *server) stop(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.awaitEnd(ctx)
}

// awaitEnd of the server.
func (s *server) awaitEnd(ctx context.Context) error {
	select {
	case <-s.Done:
	case <-ctx.Done():
		return fmt.Errorf("told to stop before the end; the next run begins anew: %w", ctx.Err())
	case <-time.After(stopTime):
		return errors.New("the server does not end")
	}
	if !s.ProcessState.Success() {
		return fmt.Errorf("the server did not stop cleanly (%s): %s", s.End(), s.Log.Complaints())
	}
	return nil
}
