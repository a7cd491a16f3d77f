package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// A role determines what a second process of the test binary does. That process simulates the agent or a server.
type role struct {
	Backup  *Backup  `json:"backup,omitempty"`
	Restore *Restore `json:"restore,omitempty"`
	Import  *Import  `json:"import,omitempty"`
	// Hold is the path of a file that the process locks until it is killed, as a mysqld process locks its tablespaces.
	Hold string `json:"hold,omitempty"`
	// Crash is the step of the backup, restore or import after which the process kills itself. After the step Pause, it
	// waits for a signal.
	Crash string `json:"crash,omitempty"`
	Pause string `json:"pause,omitempty"`
	// Mount is the mount point of a small file system that only this process sees. Bytes is its size.
	Mount string `json:"mount,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
	// AsJob is true if the process has the user and the groups of an import Job instead of those of the test.
	AsJob bool `json:"-"`
}

const roleVariable = "ARCHIVE_TEST_ROLE"

func TestMain(m *testing.M) {
	if text := os.Getenv(roleVariable); text != "" {
		os.Exit(play(text))
	}
	os.Exit(m.Run())
}

func play(text string) int {
	r := role{}
	if err := json.Unmarshal([]byte(text), &r); err != nil { //nolint:musttag // Both sides are this program.
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if r.Mount != "" {
		if err := unix.Mount("tmpfs", r.Mount, "tmpfs", 0, fmt.Sprintf("size=%d", r.Bytes)); err != nil {
			panic(err)
		}
	}
	report, err := agent.Report{}, error(nil)
	switch {
	case r.Hold != "":
		holdFile(r.Hold)
	case r.Backup != nil:
		r.Backup.Output, r.Backup.hook = io.Discard, r.hook(ctx)
		report, err = r.Backup.Run(ctx)
	case r.Restore != nil:
		r.Restore.Output, r.Restore.hook = io.Discard, r.hook(ctx)
		report, err = r.Restore.Run(ctx)
	case r.Import != nil:
		r.Import.Output, r.Import.hook = io.Discard, r.hook(ctx)
		report, err = r.Import.Run(ctx)
	}
	if r.Mount != "" {
		tellFiles(r.Mount)
	}
	raw, _ := report.Encode()
	fmt.Printf("%s", raw)
	return agent.CodeOf(err)
}

func tellFiles(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		in, _ := os.ReadDir(path)
		if err == nil && path != dir && len(in) == 0 { // This is a file or an empty directory.
			fmt.Println("left:", d.Name())
		}
		return err
	})
}

func (r role) hook(ctx context.Context) func(string) {
	return func(step string) {
		switch step {
		case r.Crash:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case r.Pause:
			fmt.Println("paused")
			<-ctx.Done()
		}
	}
}

func holdFile(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	fmt.Println("held:", err)
	select {}
}

// start starts another process of the test binary, which plays the role.
func (r role) start(t *testing.T) (*exec.Cmd, io.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if r.Backup != nil {
		r.Backup.Output = nil
	}
	if r.Restore != nil {
		s := *r.Restore
		s.Output, r.Restore = nil, &s
	}
	if r.Import != nil {
		i := *r.Import
		i.Output, r.Import = nil, &i
	}
	raw, err := json.Marshal(r) //nolint:musttag // Both sides are this program.
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), roleVariable+"="+string(raw))
	cmd.Stderr = os.Stderr
	if r.Mount != "" {
		cmd.SysProcAttr = privateMounts()
	}
	if r.AsJob {
		cmd.Path = copyProgram(t, self)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: jobCredential()}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// jobCredential returns the user and the groups of an import Job (agent.PodSecurity, agent.ImportGroups).
func jobCredential() *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(agent.ServerUID), Gid: uint32(agent.ServerUID)}
	for _, group := range agent.ImportGroups(false) {
		c.Groups = append(c.Groups, uint32(group)) //nolint:gosec // Small constants.
	}
	return c
}

// copyProgram copies a program to a directory that other users may read. Only the user of the test may read the
// directory in which go test builds it.
func copyProgram(t *testing.T, program string) string {
	t.Helper()
	raw, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(sharedDir(t), "program")
	if err := os.WriteFile(path, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// sharedDir returns a temporary directory that all users may read. The directory of t.TempDir has a parent that only
// one user may read.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shared") //nolint:usetesting // See above.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // Other users read it.
		t.Fatal(err)
	}
	return dir
}

// privateMounts returns attributes for a process with private mounts. Users who are not root get them in a user
// namespace.
func privateMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// run starts another process of the test binary in a role, and waits until it exits.
func (r role) run(t *testing.T) (code int, output string) {
	t.Helper()
	cmd, out := r.start(t)
	raw, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	failure := new(exec.ExitError)
	if err := cmd.Wait(); err != nil && !errors.As(err, &failure) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(raw)
}
