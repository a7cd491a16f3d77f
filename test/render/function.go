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

// A function is the composition function as a process on this machine, started as docs/how-to/render-offline.md
// describes.
type function struct {
	address string
	cmd     *exec.Cmd
	// ended is closed when the function's process has exited.
	ended chan struct{}
}

// startFunction runs the command and waits until the function accepts calls. The function is stopped when ctx is
// cancelled.
func startFunction(ctx context.Context, command string) (*function, error) {
	_, address, ok := strings.Cut(command, "--address ")
	if !ok {
		return nil, errors.Errorf("docs/how-to/render-offline.md: %q says no --address", command)
	}
	if err := free(ctx, address); err != nil {
		return nil, err
	}
	// make arm64-test sets FUNCTION_ENV, so that the function is built for another architecture and runs in an emulator.
	f := &function{address: address, cmd: shell(ctx, "exec env $FUNCTION_ENV "+command), ended: make(chan struct{})}
	f.cmd.Stdout, f.cmd.Stderr = os.Stderr, os.Stderr
	if err := f.cmd.Start(); err != nil {
		return nil, errors.Wrap(err, "cannot start the function")
	}
	go func() {
		_ = f.cmd.Wait() // The result does not matter, because the function should not exit.
		close(f.ended)
	}()
	if err := f.wait(ctx); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// free returns an error if the address is in use, because the CLIs would call a different function at this address.
func free(ctx context.Context, address string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Wrap(err, "cannot start the function, is one running? End it, and try again")
	}
	return l.Close()
}

// wait waits until the function accepts calls.
func (f *function) wait(ctx context.Context) error {
	// The function is compiled first, possibly on a busy machine.
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

// running returns an error if the function's process has exited. In this case, another process may have answered the
// call.
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
		_ = f.cmd.Cancel() // It may have exited already.
	}
	<-f.ended
}

// shell returns a command in a shell. It has its own process group, because `go run` does not stop the program that
// it runs.
func shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
