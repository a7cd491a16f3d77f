// Package main is the entrypoint of the MySQL and MariaDB images for tests. It imitates the entrypoints of the
// official images, so that tests with these images are also valid for the official ones. It initializes an empty data
// directory according to the environment variables, without opening a TCP port. Then it executes the server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		logf("ERROR", "%v", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := detect()
	args = command(f, args)
	if args[0] != f.server && args[0] != "mysqld" || wantsHelp(args[1:]) {
		return become(args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	logf("Note", "Entrypoint for %s started.", f.title)
	s, err := inspect(ctx, f, args)
	if err != nil {
		return err
	}
	if err := stepDown(s); err != nil {
		return err
	}
	done, err := initialized(s.dataDir)
	if err != nil {
		return err
	}
	if !done {
		if err := initialize(ctx, s); err != nil {
			return err
		}
		logf("Note", "%s init process done. Ready for start up.", f.title)
	}
	// Until now, this process had to handle signals. From now on, the server handles them, and no signal is lost in
	// between.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return become(args)
}

// command adds the server's program if only options are given, as in `docker run IMAGE --option`.
func command(f flavor, args []string) []string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return append([]string{f.server}, args...)
	}
	return args
}

// wantsHelp reports whether the arguments make the server only print information, for which it needs no database.
func wantsHelp(args []string) bool {
	for _, a := range args {
		switch a {
		case "-?", "--help", "--print-defaults", "-V", "--version":
			return true
		}
	}
	return false
}

// initialized reports whether the data directory contains a database, which has system tables. The server itself checks
// the rest of the directory.
func initialized(dataDir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dataDir, "mysql"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot look into the data directory: %w", err)
	}
	return true, nil
}

// become executes the server in this process. The server is then the container's first process and receives its
// signals.
func become(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("cannot find the program: %w", err)
	}
	if err := syscall.Exec(path, args, os.Environ()); err != nil {
		return fmt.Errorf("cannot start %s: %w", path, err)
	}
	return nil
}

// logf writes lines in the format of the servers' logs.
func logf(level, format string, a ...any) {
	timestamp := time.Now().UTC().Format(time.RFC3339)
	_, _ = fmt.Fprintf(os.Stderr, "%s [%s] [Entrypoint]: %s\n", timestamp, level, fmt.Sprintf(format, a...))
}
