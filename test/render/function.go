package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
)

// A function that runs on this machine.
type function struct {
	address string
	cmd     *exec.Cmd
}

// startFunction builds the function and starts it on a free loopback port. It
// ends with the context at the latest.
func startFunction(ctx context.Context, dir string) (*function, error) {
	bin := filepath.Join(dir, "function")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./fn")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, errors.Wrap(err, "cannot build the function")
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	f := &function{address: address, cmd: exec.CommandContext(ctx, bin, "--insecure", "--address="+address)}
	f.cmd.Stderr = os.Stderr
	if err := f.cmd.Start(); err != nil {
		return nil, errors.Wrap(err, "cannot start the function")
	}
	return f, f.wait(ctx)
}

// wait until the function takes calls.
func (f *function) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", f.address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			f.stop()
			return errors.Wrap(err, "the function does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (f *function) stop() {
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
}

// freeAddress on the loopback interface.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", errors.Wrap(err, "cannot find a free port")
	}
	return l.Addr().String(), l.Close()
}
