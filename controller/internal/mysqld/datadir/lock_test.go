package datadir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// holdVariable is the environment variable with the path of a file. A second process of this test locks that file as
// a server does, until its standard input is closed.
const holdVariable = "DATADIR_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdVariable); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

func hold(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	fmt.Println("held:", err)
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

// server locks a file of the data directory in another process, as a server does.
func server(t *testing.T, path string) (stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), holdVariable+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "held: <nil>\n" {
		t.Fatalf("the other process says %q", line)
	}
	return func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
}

func directory(t *testing.T, names ...string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestLock(t *testing.T) {
	held := []string{"ibdata1", "mysql.ibd", "undo_001", "#ib_16384_0.dblwr", "#innodb_redo/#ib_redo7", "ib_logfile0",
		"aria_log_control"}
	dir := directory(t, slices.Concat(held, []string{"auto.cnf", "shop/a.ibd"})...)
	for _, name := range held {
		t.Run(name, func(t *testing.T) {
			stop := server(t, filepath.Join(dir.Name(), name))
			_, err := Lock(dir)
			running := new(RunningError)
			if !errors.As(err, &running) || running.File != name || running.PID == 0 {
				t.Errorf("Lock while a server holds %s: %v", name, err)
			}
			stop()
			l, err := Lock(dir)
			if err != nil {
				t.Fatalf("Lock after the server is gone: %v", err)
			}
			if l.Len() != len(held) {
				t.Errorf("locked %d files, want %d", l.Len(), len(held))
			}
			l.Release()
		})
	}
}

// TestLockSurvivesClose checks that the lock remains if another part of this process opens and closes the file. A
// traditional POSIX lock, which servers use, would be released.
func TestLockSurvivesClose(t *testing.T) {
	dir := directory(t, "ibdata1")
	l, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	f, err := dir.Open("ibdata1")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := OpenLocked(dir, "ibdata1")
	running := new(RunningError)
	if !errors.As(err, &running) {
		t.Errorf("a second lock was given: %v, %v", second, err)
	}
}

func TestLockEmpty(t *testing.T) {
	l, err := Lock(directory(t))
	if err != nil || l.Len() != 0 {
		t.Errorf("Lock: %v", err)
	}
}
