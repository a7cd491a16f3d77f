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

// A Server describes a server's program. It is the content of version.json.
type Server struct {
	// Version is the version that the server reports to clients, such as 9.7.4 or 10.11.18-MariaDB.
	Version string `json:"version"`
	// Flavour is mysql or mariadb.
	Flavour Flavour `json:"flavour"`
	// Banner is the first line of the output of --version.
	Banner string `json:"banner"`
}

const (
	// versionTimeout is the maximum time for which the program may run to print its version.
	versionTimeout = time.Minute
	// outputDelay is the maximum time to wait for output after the program has exited.
	outputDelay = time.Second
)

// maxAnswer is the maximum size in bytes of a server's output, and of version.json.
const maxAnswer = 64 << 10

// programs are the names of the server program, with the option that disables its settings. folders are directories
// that are searched in addition to PATH.
var (
	programs = [][]string{{"mysqld", "--no-defaults"}, {"mariadbd", "--no-defaults"}}
	dirs     = []string{"/usr/sbin/", "/usr/libexec/", "/usr/local/mysql/bin/", "/usr/local/sbin/"}
)

// Ask returns the version of this image's server program. The program is run without its settings.
func Ask(ctx context.Context) (Server, error) {
	program, args, err := Find()
	if err != nil {
		return Server{}, err
	}
	out, err := askProgram(ctx, versionTimeout, program, append(args, "--version")...)
	if err != nil {
		return Server{}, fmt.Errorf("cannot get the version of %s: %w", program, err)
	}
	return FromBanner(out)
}

// askProgram runs a program of the image and returns its output. The program may be hostile. The timeout includes its
// child processes, which are killed with it.
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
		_ = killAll() // Usually no process is left.
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not exit within %s", limit)
	case out.tooLong:
		return "", fmt.Errorf("it printed more than %d bytes", maxAnswer)
	case errors.Is(err, exec.ErrWaitDelay): // The program has ended, and a child process has not.
		err = nil
	}
	return out.String(), err
}

// An answer collects the output of a program, up to a limit.
type answer struct {
	strings.Builder

	tooLong bool
}

// Write adds output. It returns an error if the output exceeds the limit.
func (a *answer) Write(p []byte) (int, error) {
	if a.Len()+len(p) > maxAnswer {
		a.tooLong = true
		return 0, io.ErrShortWrite
	}
	return a.Builder.Write(p)
}

// Find returns the server program of this image, and the arguments that disable its settings.
func Find() (program string, args []string, err error) {
	for _, p := range programs {
		for _, dir := range append([]string{""}, dirs...) {
			if program, err := exec.LookPath(dir + p[0]); err == nil {
				return program, slices.Clone(p[1:]), nil
			}
		}
	}
	return "", nil, errors.New("this image contains neither mysqld nor mariadbd: it is not an image of a MySQL server")
}

// FromBanner parses the output of a server's --version.
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

// Read reads the version in a version.json.
func Read(path string) (Version, error) {
	f, err := os.Open(path) //nolint:gosec // The caller chooses the file.
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

// decodeVersion decodes a version.json.
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
		return Server{}, fmt.Errorf("flavour %q and version %q contradict each other", s.Flavour, s.Version)
	}
	return s, nil
}
