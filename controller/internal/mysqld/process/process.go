// Package process runs a server's program. The program is killed if this process exits.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// logClosed is the maximum time to wait, after the process has exited, until its child processes close the log.
const logClosed = 5 * time.Second

// A Process is the process of a server, or of an entrypoint that executes the server in the same process.
type Process struct {
	*exec.Cmd

	// Log receives the standard output and the standard error of the process.
	Log *Log
	// Done is closed when the process has exited. ProcessState then contains its state.
	Done chan struct{}

	// oomKills is the number of killed processes in the container when this process was started.
	oomKills int
}

// Start starts a command that must not outlive this process. The kernel kills the child when the thread that started
// it exits, so Start uses a thread that does nothing else.
func Start(command *exec.Cmd, log *Log) (*Process, error) {
	p := &Process{Cmd: command, Log: log, Done: make(chan struct{}), oomKills: oomKills(memoryEvents)}
	p.Stdout, p.Stderr, p.WaitDelay = log, log, logClosed
	if p.SysProcAttr == nil {
		p.SysProcAttr = &syscall.SysProcAttr{}
	}
	p.SysProcAttr.Setpgid = true
	dieWithParent(p.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.Done)
		err := p.Start()
		started <- err
		if err == nil {
			_ = p.Wait() // ProcessState contains how the process exited.
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// endOfSession is the delay before Stop sends the signal, so that the server notices that its sessions are closed. A
// server that is stopped during a session sleeps for two seconds (close_connections in sql/mysqld.cc of MySQL).
const endOfSession = 100 * time.Millisecond

// Stop tells a server to shut down cleanly. The server must run as this process's user, and the caller must have
// closed all sessions. Done is closed after the shutdown.
func (p *Process) Stop() error {
	time.Sleep(endOfSession)
	err := p.Process.Signal(syscall.SIGTERM)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("cannot send SIGTERM to the server: %w", err)
}

// Kill kills the process group and waits until the process has exited. Entrypoints switch to another user, and root
// without CAP_KILL cannot kill such a process. In this case, Kill does not wait, and the process is killed with the
// container.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // The process may have exited already.
	if errors.Is(p.Process.Kill(), syscall.EPERM) {
		return
	}
	<-p.Done
}

// Ended reports whether the process has exited.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}
