package exporter

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// An output collects lines of several goroutines.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// A run is an Exporter that runs a shell script instead of the real program.
type run struct {
	*Exporter

	out   *output
	ended chan error
	stop  context.CancelFunc
}

func start(t *testing.T, program ...string) *run {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context()) //nolint:gosec // The cleanup of the test calls it.
	r := &run{out: &output{}, ended: make(chan error, 1), stop: stop}
	r.Exporter = &Exporter{Account: filepath.Join(t.TempDir(), "my.cnf"), Port: 9104, Output: r.out,
		poll: 5 * time.Millisecond, pause: 5 * time.Millisecond,
		command: func(args ...string) *exec.Cmd {
			return exec.Command(program[0], append(program[1:len(program):len(program)], args...)...) //nolint:noctx // The Exporter stops it.
		}}
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(func() { stop(); <-r.ended })
	return r
}

func (r *run) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(r.Account, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *run) await(t *testing.T, text string, count int) {
	t.Helper()
	for range 2000 {
		if strings.Count(r.out.String(), text) >= count {
			return
		}
		select {
		case err := <-r.ended:
			r.ended <- err
			t.Fatalf("it ended (%v), and the server's pod is not ready:\n%s", err, r.out)
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("want %d times %q, got:\n%s", count, text, r.out)
}

// TestWaitsForAccount checks that the exporter starts once its account exists, and stops when the context ends.
func TestWaitsForAccount(t *testing.T) {
	r := start(t, "sh", "-c", "echo runs \"$@\"; trap 'echo stops; exit' TERM; while :; do sleep 0.01; done", "sh")
	r.await(t, "Waiting until the controller has created the account", 1)
	r.write(t, "") // The kubelet has not written it completely.
	time.Sleep(20 * time.Millisecond)
	if strings.Contains(r.out.String(), "runs") {
		t.Error("it starts without an account")
	}
	r.write(t, "one")
	r.await(t, "runs --config.my-cnf="+r.Account+" --web.listen-address=:9104\n", 1)
	r.stop()
	r.ended <- <-r.ended
	if !strings.HasSuffix(r.out.String(), "stops\n") {
		t.Errorf("the exporter must end before the program does:\n%s", r.out)
	}
}

// TestCrashes checks that the exporter starts again whenever it exits or cannot be started.
func TestCrashes(t *testing.T) {
	r := start(t, "sh", "-c", "echo runs; exit 7", "sh")
	r.write(t, "one")
	r.await(t, "mysqld_exporter exited (exit status 7). Starting it again in", 3)

	missing := start(t, "/nonexistent/mysqld_exporter")
	missing.write(t, "one")
	missing.await(t, "cannot start mysqld_exporter: fork/exec /nonexistent/mysqld_exporter", 2)
}

// TestNewAccount checks that the exporter is started again if the account in its file changes. If the file is deleted,
// the exporter must keep running.
func TestNewAccount(t *testing.T) {
	r := start(t, "sh", "-c", "echo runs; trap 'echo stops; exit' TERM; while :; do sleep 0.01; done", "sh")
	r.write(t, "one")
	r.await(t, "runs", 1)
	if err := os.Remove(r.Account); err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Millisecond)
	r.write(t, "one")
	time.Sleep(30 * time.Millisecond)
	if strings.Contains(r.out.String(), "stops") {
		t.Errorf("it has the same account:\n%s", r.out)
	}
	r.write(t, "two")
	r.await(t, "The account has changed", 1)
	r.await(t, "runs", 2)
}
