package main

import (
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const initDir = "/docker-entrypoint-initdb.d"

// initialize creates a new database in an empty data directory, with the settings in the environment variables.
func initialize(ctx context.Context, s server) error {
	o, err := readOptions(env{prefixes: s.prefixes, lookup: os.Getenv, readFile: os.ReadFile})
	if err != nil {
		return err
	}
	logf("Note", "Initializing database files")
	if err := install(ctx, s); err != nil {
		return err
	}
	logf("Note", "Database files initialized")
	logf("Note", "Starting temporary server")
	r, err := startOffline(ctx, s, o)
	if err != nil {
		return err
	}
	logf("Note", "Temporary server started.")
	// If an error is returned here, the container exits, which also stops the temporary server. The official images do
	// the same.
	if err := r.setUp(ctx); err != nil {
		return err
	}
	logf("Note", "Stopping temporary server")
	return r.stop(ctx)
}

func install(ctx context.Context, s server) error {
	args := s.install(s)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot make the system tables: %w", err)
	}
	return nil
}

func (r *running) setUp(ctx context.Context) error {
	if err := r.loadTimeZones(ctx); err != nil {
		return err
	}
	r.opts.choosePassword()
	login := false
	for _, text := range firstSQL(r.flavor, r.opts) {
		if err := r.sql(ctx, login, strings.NewReader(text), "mysql"); err != nil {
			return fmt.Errorf("cannot make the accounts and the database: %w", err)
		}
		login = true // The first statement sets the password.
	}
	if err := r.runFiles(ctx); err != nil {
		return err
	}
	if !r.opts.oneTime {
		return nil
	}
	return r.sql(ctx, true, strings.NewReader("ALTER USER 'root'@"+literal(r.opts.rootHost)+" PASSWORD EXPIRE;"))
}

// sql runs SQL statements on the temporary server with the mysql client.
func (r *running) sql(ctx context.Context, login bool, in io.Reader, database ...string) error {
	return r.runClient(ctx, r.client, login, in, append([]string{"--comments"}, database...)...)
}

// runClient runs a client program as root. MySQL's official image passes the password in an option file, between
// double quotes, within which a backslash is an escape character. MariaDB's image passes it in the environment.
func (r *running) runClient(ctx context.Context, program string, login bool, in io.Reader, args ...string) error {
	options := ""
	if login && r.passFile != nil && r.opts.rootPassword != "" {
		options = r.passFile(r.opts.rootPassword)
	}
	file, err := pipe(options)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	cmd := exec.CommandContext(ctx, program,
		append([]string{"--defaults-extra-file=/dev/fd/3", "--protocol=socket", "--user=root", "--host=localhost",
			"--socket=" + r.socket}, args...)...)
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = os.Environ()
	if login && r.passFile == nil {
		cmd.Env = append(cmd.Env, "MYSQL_PWD="+r.opts.rootPassword)
	}
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// pipe returns a pipe from which a short text can be read.
func pipe(text string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.WriteString(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// loadTimeZones fills the tables that CONVERT_TZ reads, if the image contains the program for that.
func (r *running) loadTimeZones(ctx context.Context) error {
	if r.opts.skipTimeZones {
		return nil
	}
	program, err := exec.LookPath(r.timeZones)
	if err != nil {
		return nil //nolint:nilerr // If the program is missing, no time zones are loaded.
	}
	cmd := exec.CommandContext(ctx, program, "/usr/share/zoneinfo")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot read the time zones: %w", err)
	}
	if err := r.sql(ctx, false, strings.NewReader(string(out)), "mysql"); err != nil {
		return fmt.Errorf("cannot load the time zones: %w", err)
	}
	return nil
}

// runFiles runs the user's scripts and SQL files in /docker-entrypoint-initdb.d, in the order of their names.
func (r *running) runFiles(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(initDir, "*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		logf("Note", "running %s", f)
		if err := r.runFile(ctx, f); err != nil {
			return fmt.Errorf("cannot run %s: %w", f, err)
		}
	}
	return nil
}

func (r *running) runFile(ctx context.Context, file string) error {
	if strings.HasSuffix(file, ".sh") {
		return r.runScript(ctx, file)
	}
	open := opener(file)
	if open == nil {
		logf("Warn", "ignoring %s", file)
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	sql, err := open(f)
	if err != nil {
		return err
	}
	if r.opts.database == "" {
		return r.sql(ctx, true, sql)
	}
	return r.sql(ctx, true, sql, r.opts.database)
}

// runScript executes a file if it is executable. Otherwise it runs the file as a shell script.
func (r *running) runScript(ctx context.Context, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "bash", file)
	if info.Mode()&0o111 != 0 {
		cmd = exec.CommandContext(ctx, file)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = r.opts.environ(r.prefixes[0], r.socket)
	return cmd.Run()
}

// opener returns a function that decompresses an SQL file. It determines the compression from the file name. It
// returns nil if the file is not an SQL file.
func opener(file string) func(io.Reader) (io.Reader, error) {
	_, ext, _ := strings.Cut(filepath.Base(file), ".sql")
	if !strings.Contains(filepath.Base(file), ".sql") {
		return nil
	}
	switch ext {
	case "":
		return func(r io.Reader) (io.Reader, error) { return r, nil }
	case ".gz":
		return func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case ".bz2":
		return func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }
	case ".zst":
		return func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) }
	}
	return nil
}
