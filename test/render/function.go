package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
)

// A function that runs on this machine, started as docs/how-to/render-offline.md says.
type function struct {
	address string
	cmd     *exec.Cmd
	// ended is closed when the function has.
	ended chan struct{}
}

// startFunction types the command and waits until the function takes calls. It ends with the context at the latest.
func startFunction(ctx context.Context, command string) (*function, error) {
	_, address, ok := strings.Cut(command, "--address ")
	if !ok {
		return nil, errors.Errorf("docs/how-to/render-offline.md: %q says no --address", command)
	}
	if err := free(ctx, address); err != nil {
		return nil, err
	}
	// FUNCTION_ENV is how make arm64-test has it built for another machine, and run here.
	f := &function{address: address, cmd: shell(ctx, "exec env $FUNCTION_ENV "+command), ended: make(chan struct{})}
	f.cmd.Stdout, f.cmd.Stderr = os.Stderr, os.Stderr
	if err := f.cmd.Start(); err != nil {
		return nil, errors.Wrap(err, "cannot start the function")
	}
	go func() {
		_ = f.cmd.Wait() // However it ended, it should not have.
		close(f.ended)
	}()
	if err := f.wait(ctx); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// free or not: the CLIs would call whatever function has the address.
func free(ctx context.Context, address string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Wrap(err, "cannot start the function, is one running? End it, and try again")
	}
	return l.Close()
}

// wait until the function takes calls.
func (f *function) wait(ctx context.Context) error {
	// It is compiled first, on a machine that may have other work.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", f.address)
		if err == nil {
			return errors.Join(c.Close(), f.running())
		}
		select {
		case <-ctx.Done():
			return errors.Wrap(err, "the function does not answer")
		case <-f.ended:
			return f.running()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// running is an error if the function is not: somebody else's may have answered in its place.
func (f *function) running() error {
	select {
	case <-f.ended:
		return errors.Errorf("the function has ended: %s", f.cmd.ProcessState)
	default:
		return nil
	}
}

func (f *function) stop() {
	if f.running() == nil {
		_ = f.cmd.Cancel() // It may have ended by now.
	}
	<-f.ended
}

// shell that runs a command as it is typed, in a process group that is ended as one: `go run` does not end what it
// runs.
func shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
