package inside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// restartAfter is the delay before a component of the cluster, such as the kubelet, is restarted.
const restartAfter = time.Second

// logTail is the number of bytes of a component's log that are shown if the component exits during the boot.
const logTail = 3000

// quick is the minimum time that a component must run. If it exits earlier, this counts as a failed start.
const quick = 10 * time.Second

// A supervisor runs components of the cluster, such as the API server, and restarts them when they exit. If a component
// exits too often during the boot, the boot fails.
type supervisor struct {
	dir string
	// retries is the maximum number of restarts of a component during the boot.
	retries int
	booted  atomic.Bool
	failed  chan error
}

func newSupervisor(dir string, retries int) *supervisor {
	return &supervisor{dir: dir, retries: retries, failed: make(chan error, 1)}
}

// run starts a component and keeps it running. It writes the component's output to its own log.
func (s *supervisor) run(name string, args ...string) {
	go func() {
		for failures := 0; ; time.Sleep(restartAfter) {
			start := time.Now()
			err := s.once(name, args)
			failures++
			if time.Since(start) > quick {
				failures = 0
			}
			if !s.booted.Load() && failures > s.retries {
				s.fail(fmt.Errorf("%s ended while the cluster was booting: %w; its last lines:\n%s", name, err,
					tail(logFile(s.dir, name))))
				return
			}
		}
	}()
}

func (s *supervisor) once(name string, args []string) error {
	log, err := os.OpenFile(logFile(s.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                         //nolint:errcheck // The component has written its output.
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // Components stop with the cluster's first process.
	cmd.Stdout, cmd.Stderr = log, log
	// Run the garbage collector less often, which saves CPU time at the cost of memory. With the default of 100, an API
	// server spends a fifth of its time on garbage collection.
	cmd.Env = append(os.Environ(), "GOGC=300")
	if err := cmd.Run(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

func (s *supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default: // Only the first failure is reported, because it is the cause.
	}
}

// until repeats try until it succeeds. It returns an error if the context ends or if a component exits.
func (s *supervisor) until(ctx context.Context, subject string, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s takes too long: %w", subject, err)
		case err := <-s.failed:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func logFile(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }

func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	s := string(b)
	if len(s) > logTail {
		s = s[len(s)-logTail:]
		_, s, _ = strings.Cut(s, "\n")
	}
	return strings.TrimRight(s, "\n")
}

// command runs a short-running program and waits for it.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
