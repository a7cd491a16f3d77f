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

// entrypoints are the entrypoints of images. The entrypoint of the official images is first.
var entrypoints = []string{"docker-entrypoint.sh", "/usr/local/bin/docker-entrypoint.sh", "/entrypoint.sh"}

// writable are options that make the server writable regardless of its my.cnf, so that this package can set
// passwords. No other client can connect to the server.
var writable = []string{"--read-only=OFF", "--loose-super-read-only=OFF", "--loose-offline-mode=OFF"}

const (
	// pollInterval is the time between two checks whether the server is ready.
	pollInterval = 100 * time.Millisecond
	// greetingTime is the maximum time that one check waits for the greeting of a server whose socket exists.
	greetingTime = 5 * time.Second
	// answerTime is the timeout for queries. The server has no other clients.
	answerTime = time.Minute
	// stopTime is the timeout for a clean shutdown of the server.
	stopTime = 10 * time.Minute
)

// A server is the process of the image's entrypoint. At the end, the entrypoint executes the server in the same
// process.
type server struct {
	redact.All
	*process.Process

	socket    string
	generated sql.Password
}

// startEntrypoint starts the entrypoint on a directory, with additional options for the server. If it creates a
// database, root gets the generated password. How long this takes depends on the disk and on the scripts in
// /docker-entrypoint-initdb.d.
func (i *Initialization) startEntrypoint(dir string, generated sql.Password, options ...string) (*server, error) {
	return i.runEntrypoint(generated,
		slices.Concat([]string{"--datadir=" + dir, "--skip-networking", "--socket=" + i.socket(), "--loose-mysqlx=OFF"},
			writable, options)...)
}

func (i *Initialization) socket() string { return filepath.Join(i.Sockets, "s") }

// runEntrypoint starts the entrypoint with options for the server.
func (i *Initialization) runEntrypoint(generated sql.Password, options ...string) (*server, error) {
	if err := os.RemoveAll(i.Sockets); err != nil {
		return nil, err
	}
	// If the entrypoint runs as root, it changes the owner to the server's account.
	if err := os.Mkdir(i.Sockets, 0o755); err != nil { //nolint:gosec // The container has no other users.
		return nil, fmt.Errorf("cannot create a directory for the socket: %w", err)
	}
	s := &server{socket: i.socket(), generated: generated}
	command := i.command
	if command == nil {
		command = entrypoint
	}
	// The entrypoint passes its arguments to the server if the first one is an option, so the program's name is not
	// needed.
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

// entrypoint returns the command of this image's entrypoint.
func entrypoint(args ...string) (*exec.Cmd, error) {
	for _, name := range entrypoints {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, args...), nil //nolint:gosec,noctx // A program above, killed at the end.
		}
	}
	return nil, fmt.Errorf("this image contains no entrypoint that can create a database: choose an image with one of "+
		"%s, like the official images", strings.Join(entrypoints, ", "))
}

// environment returns the environment of the entrypoint. It contains the generated password for root, if there is
// one. Other password variables are removed, because the entrypoint accepts only one, and the image may set another.
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

// awaitServer waits until the entrypoint executes the server in its own process. Before that, it starts a temporary
// server with the same socket, which has a different process ID.
func (s *server) awaitServer(ctx context.Context) error {
	for {
		if pid, ok := s.listener(ctx); ok && pid == s.Cmd.Process.Pid {
			return nil
		}
		select {
		case <-s.Done:
			return fmt.Errorf("the image's entrypoint exited before it started a server (%s): %s", s.End(), s.Log.Complaints())
		case <-ctx.Done():
			return fmt.Errorf("interrupted, and the next run starts from the beginning: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// listener returns the process that created the socket, and reports whether it greets clients. A server creates the
// socket before it is ready. The caller must not stop MariaDB before it greets clients, because it would then hang
// forever.
func (s *server) listener(ctx context.Context) (pid int, ok bool) {
	c, err := s.dial(ctx, "", "")
	if err != nil {
		return 0, false
	}
	defer c.Close() //nolint:errcheck // Nothing was sent.
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		cred, cerr := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:gosec // A file descriptor is never negative.
		if ok = cerr == nil; ok {
			pid = int(cred.Pid)
		}
	})
	return pid, ok && err == nil && greets(c)
}

// greets reports whether the server accepts clients. In the MySQL protocol, the server sends the first packet.
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

// sql returns the connection parameters for a server that was just started. The timeouts are long, because many
// servers may start at the same time, and a failed initialization has to start again.
func (s *server) sql() sql.Server {
	return sql.Server{Address: "localhost", Dial: s.dial, Hidden: []sql.Password{s.generated},
		Trust: sql.Trust{AnyServer: true}, Times: &sql.Times{Handshake: answerTime, Session: answerTime}}
}

// takeOver makes the requested password the only valid one of root, and returns the version of the server.
func (s *server) takeOver(ctx context.Context, wanted sql.Password) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	session, err := s.sql().Login(ctx, s.generated)
	if err != nil {
		return "", fmt.Errorf("cannot log in to the new server with the password that its entrypoint received. "+
			"Check that no script in /docker-entrypoint-initdb.d changes it: %w", err)
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
		return "", fmt.Errorf("the new server's password policy (validate_password) does not allow the requested "+
			"password. Choose another one in spec.password or in the Secret: %w", err)
	case err != nil:
		return "", err
	}
	if err := s.checkPassword(ctx, wanted); err != nil {
		return "", err
	}
	return version, nil
}

// checkPassword checks that root can log in with the requested password. Root must not be able to log in without a
// password or with the generated one.
func (s *server) checkPassword(ctx context.Context, wanted sql.Password) error {
	if err := s.sql().Ping(ctx, wanted); err != nil {
		return fmt.Errorf("the new server does not accept its new password: %w", err)
	}
	for subject, wrong := range map[string]sql.Password{"no password": "",
		"the initial password": s.generated} {
		err := s.sql().Ping(ctx, wrong)
		if err == nil {
			return fmt.Errorf("the image is not safe, because root can log in to the new server with %s: choose another image",
				subject)
		}
		if !sql.IsAccessDenied(err) {
			return fmt.Errorf("cannot check whether root can log in to the new server with %s: %w", subject, err)
		}
	}
	return nil
}

// stop stops the server. The caller must close all sessions first.
func (s *server) stop(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.awaitEnd(ctx)
}

// awaitEnd waits until the server has exited.
func (s *server) awaitEnd(ctx context.Context) error {
	select {
	case <-s.Done:
	case <-ctx.Done():
		return fmt.Errorf("interrupted, and the next run starts from the beginning: %w", ctx.Err())
	case <-time.After(stopTime):
		return errors.New("the server did not exit")
	}
	if !s.ProcessState.Success() {
		return fmt.Errorf("the server did not stop cleanly (%s): %s", s.End(), s.Log.Complaints())
	}
	return nil
}
