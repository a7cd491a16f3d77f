package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	pollEvery = 100 * time.Millisecond
	// stopAfter is the time for the temporary server to shut down, before it is killed.
	stopAfter = 10 * time.Minute
)

// A flavor describes either MySQL or MariaDB: the programs and options in which they differ.
type flavor struct {
	title    string
	server   string
	client   string
	prefixes []string // Prefixes of environment variables.
	// install returns the command that creates the system tables. offline contains the options that disable remote
	// connections.
	install func(s server) []string
	offline []string
	// timeZones is the program that converts the system's time zones into SQL.
	timeZones string
	cleanUp   string
	// literal and name quote SQL strings and identifiers. passFile returns an option file with a password.
	literal, name func(string) string
	passFile      func(password string) string
	// shutDown is the program that stops the server, or "" if a signal stops it.
	shutDown string
}

var mysql = flavor{
	title: "MySQL Server", server: "mysqld", client: "mysql", prefixes: []string{"MYSQL"},
	install: func(s server) []string {
		return append(s.args, "--initialize-insecure", "--default-time-zone=SYSTEM")
	},
	offline:   []string{"--skip-networking", "--mysqlx=OFF", "--default-time-zone=SYSTEM"},
	timeZones: "mysql_tzinfo_to_sql",
	literal:   plain("'"), name: plain("`"),
	passFile: func(password string) string { return "[client]\npassword=\"" + password + "\"\n" },
	shutDown: "mysqladmin",
}

var mariadb = flavor{
	title: "MariaDB Server", server: "mariadbd", client: "mariadb", prefixes: []string{"MARIADB", "MYSQL"},
	install: func(s server) []string {
		return append([]string{
			"mariadb-install-db", "--datadir=" + s.dataDir, "--auth-root-authentication-method=normal",
			"--skip-test-db", "--rpm", "--default-time-zone=SYSTEM", "--skip-log-bin", "--expire-logs-days=0",
			"--loose-innodb_buffer_pool_load_at_startup=0",
		}, s.args[1:]...)
	},
	offline:   []string{"--skip-networking", "--default-time-zone=SYSTEM", "--skip-slave-start"},
	timeZones: "mariadb-tzinfo-to-sql",
	cleanUp:   "DELETE FROM mysql.global_priv WHERE user = '' OR user = 'root' AND host <> 'localhost'; FLUSH PRIVILEGES",
	literal:   literal, name: name,
}

func detect() flavor {
	if _, err := exec.LookPath(mariadb.server); err == nil {
		return mariadb
	}
	return mysql
}

// A server is a flavor with its command line, and with paths from the server's configuration.
type server struct {
	flavor

	args            []string
	dataDir, socket string
}

// inspect asks the server's program for its effective configuration. It reports invalid settings before anything is
// written.
func inspect(ctx context.Context, f flavor, args []string) (server, error) {
	check := append(append([]string{}, args[1:]...), "--verbose", "--help",
		"--log-bin-index="+filepath.Join(os.TempDir(), "check.index"))
	cmd := exec.CommandContext(ctx, args[0], check...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return server{}, fmt.Errorf("%s failed while attempting to check config\n    command was: %s\n%s", f.server,
			strings.Join(cmd.Args, " "), complaint.String())
	}
	s := server{flavor: f, args: args, dataDir: variable(string(out), "datadir"), socket: variable(string(out), "socket")}
	if s.dataDir == "" || s.socket == "" {
		return server{}, errors.New("cannot find datadir and socket in what the server says of its configuration")
	}
	return s, nil
}

// variable returns the value of a server variable from the table at the end of the output of --verbose --help.
func variable(help, name string) string {
	for line := range strings.Lines(help) {
		// Indented lines belong to the description of an option.
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// A running is a temporary server that runs during the initialization of the database. It has the same socket as the
// final server.
type running struct {
	server

	opts  options
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

// startOffline starts the temporary server without a TCP port, and waits until it responds or exits. There is no
// timeout, because the time depends on the disk.
func startOffline(ctx context.Context, s server, o options) (*running, error) {
	r := &running{server: s, opts: o, ended: make(chan struct{})}
	args := append(append(append([]string{}, s.args[1:]...), s.offline...), "--socket="+r.socket)
	r.cmd = exec.Command(s.args[0], args...) //nolint:noctx // It runs as long as the container, unless stop shuts it down.
	r.cmd.Stdout, r.cmd.Stderr = os.Stdout, os.Stderr
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	go func() { r.err = r.cmd.Wait(); close(r.ended) }()
	for {
		if r.sql(ctx, false, strings.NewReader("SELECT 1;")) == nil {
			return r, nil
		}
		select {
		case <-r.ended:
			return nil, errors.Join(errors.New("the server ended before it was ready"), r.err)
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		case <-time.After(pollEvery):
		}
	}
}

// stop shuts the server down cleanly. For MySQL, it logs in with the new password to do so, like the official image.
func (r *running) stop(ctx context.Context) error {
	if r.shutDown == "" {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // The server may have exited already.
	} else if err := r.runClient(ctx, r.shutDown, true, nil, "shutdown"); err != nil {
		return fmt.Errorf("unable to shut down server: %w", err)
	}
	select {
	case <-r.ended:
	case <-time.After(stopAfter):
		_ = r.cmd.Process.Kill()
		return errors.New("cannot stop the server of the initialisation: it does not end")
	}
	if r.err != nil {
		return fmt.Errorf("the server of the initialisation failed: %w", r.err)
	}
	return nil
}
