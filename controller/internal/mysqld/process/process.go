// Package process runs a server's program, which ends with this process.
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

// logClosed is how long the log may stay open after its process has ended.
const logClosed = 5 * time.Second

// A Process is the process of a server, or of a program that replaces itself by a server.
type Process struct {
	*exec.Cmd

	// Log receives both outputs of the process.
	Log *Log
	// Done is closed when the process has ended. ProcessState then contains its state.
	Done chan struct{}

	// oomKills is the container's number of killed processes at the start.
	oomKills int
}

// Start starts a command that must not outlive this process. The kernel ties the child to the thread that started
// it, so Start uses a thread that does nothing else.
func Start(command *exec.Cmd, log *Log) (*Process, error) {
	p := &Process{Cmd: command, Log: log, Done: make(chan struct{}), oomKills: oomKills(memoryEvents)}
	p.Stdout, p.Stderr, p.WaitDelay = log, log, logClosed
	if p.SysProcAttr == nil {
		p.SysProcAttr = &syscall.SysProcAttr{}
	}
	p.SysProcAttr.Setpgid, p.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.Done)
		err := p.Start()
		started <- err
		if err == nil {
			_ = p.Wait() // The state of the process says how it ended.
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// endOfSession is the minimum time that a session continues after its connection is closed. A server that is
// stopped during a session sleeps for two seconds (close_connections in sql/mysqld.cc of MySQL).
const endOfSession = 100 * time.Millisecond

// Stop asks a server for a clean shutdown. The server runs as this process's user, and its sessions must have ended
// or be about to end. Done is closed after the shutdown.
func (p *Process) Stop() error {
	time.Sleep(endOfSession)
	err := p.Process.Signal(syscall.SIGTERM)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("cannot send SIGTERM to the server: %w", err)
}

// Kill kills the process group and waits for its end. Entrypoints switch to another user, and root without CAP_KILL
// cannot kill such a process. In this case, Kill does not wait, and the process ends with the container.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // It may have ended.
	if errors.Is(p.Process.Kill(), syscall.EPERM) {
		return
	}
	<-p.Done
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}
