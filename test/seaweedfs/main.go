// Command seaweedfs runs a command while SeaweedFS, an S3 server, is running on the loopback address. The environment
// variable S3_SERVER contains its address, as package storetest expects.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout is the timeout for the start of SeaweedFS. longest is the timeout for the whole run, including the
	// command.
	startTimeout = time.Minute
	longest      = 40 * time.Minute
	// grpcOffset is the difference between the gRPC port of a component and its HTTP port.
	grpcOffset = 10000
	// credentials is the configuration of SeaweedFS with the credentials that package storetest uses.
	credentials = `{"identities":[{"name":"test","credentials":[{"accessKey":"access","secretKey":"secret-of-the-test"}],"actions":["Admin"]}]}`
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seaweedfs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) error {
	if len(command) == 0 {
		return errors.New("say a command to run beside the server")
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	address, end, err := start(ctx)
	if err != nil {
		return err
	}
	defer end()
	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // The user specifies the command.
	c.Env = append(os.Environ(), "S3_SERVER="+address)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// start starts the server. The returned function stops it and deletes its data.
func start(ctx context.Context) (address string, end func(), err error) {
	build := exec.CommandContext(ctx, "go", "run", "./test/tools", "seaweedfs")
	build.Stderr = os.Stderr
	program, err := build.Output()
	if err != nil {
		return "", nil, fmt.Errorf("cannot build the server: %w", err)
	}
	dir, err := os.MkdirTemp("", "seaweedfs-")
	if err != nil {
		return "", nil, err
	}
	ports, err := freePorts(4)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "s3.json"), []byte(credentials), 0o600)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	var log bytes.Buffer
	c := exec.CommandContext(ctx, strings.TrimSpace(string(program)), "server", "-dir="+dir, "-ip=127.0.0.1", "-ip.bind=127.0.0.1", //nolint:gosec // It was just built.
		"-master.port="+ports[0], "-volume.port="+ports[1], "-filer.port="+ports[2], "-volume.max=20",
		"-master.volumeSizeLimitMB=1024",
		"-s3", "-s3.port="+ports[3], "-s3.config="+filepath.Join(dir, "s3.json"))
	c.Stdout, c.Stderr = &log, &log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() {
		_ = c.Process.Kill() // Its data is no longer needed.
		_ = c.Wait()
		_ = os.RemoveAll(dir)
	}
	address = net.JoinHostPort("127.0.0.1", ports[3])
	if err := waitFor(ctx, address); err != nil {
		end()
		return "", nil, fmt.Errorf("%w: %s", err, log.String())
	}
	return address, end, nil
}

func waitFor(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not listen: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// freePorts returns free ports on the loopback address whose gRPC ports are free, too.
func freePorts(n int) ([]string, error) {
	var out []string
	for tries := 0; len(out) < n; tries++ {
		if tries == 100 {
			return nil, errors.New("there are no free ports")
		}
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It does not block.
		if err != nil {
			return nil, err
		}
		port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // The network is tcp.
		if err := l.Close(); err != nil {
			return nil, err
		}
		if port+grpcOffset > 65535 {
			continue
		}
		other, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+grpcOffset))) //nolint:noctx // It does not wait.
		if err != nil {
			continue
		}
		if err := other.Close(); err != nil {
			return nil, err
		}
		out = append(out, strconv.Itoa(port))
	}
	return out, nil
}
