package inside

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Launch is a cluster whose first process was started. Lifeline and Reports are the pipes to it.
type Launch struct {
	PID      int
	Lifeline *os.File
	Reports  *os.File
}

// Start creates the namespaces and the first process in them. That process waits until the caller writes a byte to
// Launch.Lifeline.
func Start(c Config, api, registry *net.TCPListener) (*Launch, error) {
	lifelineR, lifelineW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	files := []*os.File{lifelineR, reportW}
	for _, l := range []*net.TCPListener{api, registry} {
		f, err := l.File()
		if err != nil {
			return nil, fmt.Errorf("cannot hand on a socket: %w", err)
		}
		files = append(files, f)
	}
	cmd, err := self(c, CommandFirst)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(logFile(c.Dir, "first"))
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot make namespaces: %w", err)
	}
	for _, f := range append(files, log) {
		_ = f.Close() // The child has its own descriptor.
	}
	go cmd.Wait() //nolint:errcheck // This reaps the process. Its reports contain the result.
	return &Launch{PID: cmd.Process.Pid, Lifeline: lifelineW, Reports: reportR}, nil
}

// self returns a command that runs this program again. It works even if the program's file was deleted, as by `go
// run`.
func self(c Config, command string) (*exec.Cmd, error) {
	args, err := c.arguments(command)
	if err != nil {
		return nil, err
	}
	return exec.Command("/proc/self/exe", args...), nil //nolint:noctx // This program must outlive every context.
}

// First is the first process in the namespaces. It starts the control plane and reaps orphaned processes, such as
// container shims. When the control plane exits, First exits, and the kernel kills all other processes.
func First(c Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	args, err := c.arguments(CommandControl)
	if err != nil {
		return err
	}
	child, err := syscall.ForkExec("/proc/self/exe", append([]string{"cluster"}, args...), &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2, lifelineFile, reportFile, apiFile, registryFile},
	})
	if err != nil {
		return fmt.Errorf("cannot start the control plane: %w", err)
	}
	for f := lifelineFile; f <= registryFile; f++ {
		_ = unix.Close(f) // Only the child may hold these files. The launcher sees the pipe close when it exits.
	}
	return reap(child)
}

func reap(child int) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot wait for children: %w", err)
		}
		if pid == child {
			return fmt.Errorf("the control plane ended with status %d", status.ExitStatus())
		}
	}
}
