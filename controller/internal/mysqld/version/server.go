package version

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Server is what a server's program says of itself, as the file version.json.
type Server struct {
	// Version as the server gives it to clients, such as 9.7.4 or
	// 10.11.18-MariaDB.
	Version string `json:"version"`
	// Flavour is mysql or mariadb.
	Flavour Flavour `json:"flavour"`
	// Banner is the whole first line.
	Banner string `json:"banner"`
}

const (
	// versionTimeout of a server that is asked for its version.
	versionTimeout = time.Minute
	// outputDelay is how long a program's output is waited for once it has ended.
	outputDelay = time.Second
)

// maxAnswer in bytes of a server's answer, and of version.json.
const maxAnswer = 64 << 10

// programs by which a server is found, with what keeps it from reading its
// settings, and the folders besides those of PATH.
var (
	programs = [][]string{{"mysqld", "--no-defaults"}, {"mariadbd", "--no-defaults"}}
	folders  = []string{"/usr/sbin/", "/usr/libexec/", "/usr/local/mysql/bin/", "/usr/local/sbin/"}
)

// Ask the server program of this image for its version, without any of its
// settings.
func Ask(ctx context.Context) (Server, error) {
	program, args, err := Find()
	if err != nil {
		return Server{}, err
	}
	out, err := askProgram(ctx, versionTimeout, program, append(args, "--version")...)
	if err != nil {
		return Server{}, fmt.Errorf("cannot ask %s for its version: %w", program, err)
	}
	return FromBanner(out)
}

// askProgram, which is the image's, and may be anything. Its time is that of all that
// it starts, and what it started ends with it.
func askProgram(ctx context.Context, limit time.Duration, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := &answer{}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // One of the programs above.
	cmd.Stdout, cmd.WaitDelay = out, outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killAll := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = killAll
	err := cmd.Run()
	if cmd.Process != nil {
		_ = killAll() // Mostly there is nobody any more.
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end within %s", limit)
	case out.tooLong:
		return "", fmt.Errorf("it prints more than %d bytes", maxAnswer)
	case errors.Is(err, exec.ErrWaitDelay): // It has ended, and somebody whom it left behind has not.
		err = nil
	}
	return out.String(), err
}

// An answer of a program, which is refused where it gets too long.
type answer struct {
	strings.Builder

	tooLong bool
}

// Write a piece.
func (a *answer) Write(p []byte) (int, error) {
	if a.Len()+len(p) > maxAnswer {
		a.tooLong = true
		return 0, io.ErrShortWrite
	}
	return a.Builder.Write(p)
}

// Find the server program of this image, and the arguments that keep it from
// reading its settings.
func Find() (program string, args []string, err error) {
	for _, p := range programs {
		for _, folder := range append([]string{""}, folders...) {
			if program, err := exec.LookPath(folder + p[0]); err == nil {
				return program, slices.Clone(p[1:]), nil
			}
		}
	}
	return "", nil, errors.New("this image has neither mysqld nor mariadbd: it is not a MySQL server's")
}

// FromBanner reads what a server prints when it is asked for its version.
func FromBanner(text string) (Server, error) {
	text = strings.TrimSpace(text)
	n, err := number(text)
	if err != nil {
		return Server{}, err
	}
	v, err := Parse(n)
	if err != nil {
		return Server{}, err
	}
	line, _, _ := strings.Cut(text, "\n")
	return Server{Version: n, Flavour: v.Flavour, Banner: v1.PrintableText(line, v1.MaxForeignText)}, nil
}

// Read a version.json.
func Read(path string) (Version, error) {
	f, err := os.Open(path) //nolint:gosec // The caller says which file.
	if err != nil {
		return Version{}, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	s, err := decodeVersion(f)
	if err != nil {
		return Version{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return Parse(s.Version)
}

// decodeVersion what is in a version.json.
func decodeVersion(r io.Reader) (Server, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxAnswer))
	if err != nil {
		return Server{}, err
	}
	s := Server{}
	if err := json.Unmarshal(raw, &s); err != nil {
		return Server{}, err
	}
	v, err := Parse(s.Version)
	if err != nil {
		return Server{}, err
	}
	if v.Flavour != s.Flavour {
		return Server{}, fmt.Errorf("it contradicts itself: flavour %q, version %q", s.Flavour, s.Version)
	}
	return s, nil
}
