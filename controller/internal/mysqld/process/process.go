// Package process runs a server's program, which ends with this one.
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

// logClosed is how long a log may stay open once its process has ended.
const logClosed = 5 * time.Second

// A Process is a server's, or that of a program which becomes a server.
type Process struct {
	*exec.Cmd

	// Log of it, both of its outputs.
	Log *Log
	// Done is closed when it has ended; its ProcessState says how.
	Done chan struct{}

	// oomKills of the container when it started.
	oomKills int
}

// Start a command. It must not outlive this process, and the kernel means by that
// the thread that started it: hence one that does nothing else.
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

// endOfSession is how long a session goes on after its connection, or longer. A server that is told to stop while it has one sleeps
// for two seconds (close_connections in sql/mysqld.cc of MySQL).
const endOfSession = 100 * time.Millisecond

// Stop asks a server to end cleanly that runs as the account of this process, and whose sessions have ended or are about to. It has
// when Done says so.
func (p *Process) Stop() error {
	time.Sleep(endOfSession)
	err := p.Process.Signal(syscall.SIGTERM)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("cannot tell the server to stop: %w", err)
}

// Kill the process with all that it started in its group, and wait for its end. One that
// has left root's account, as entrypoints do, is out of reach of a root without CAP_KILL:
// it is not waited for, and ends with the container.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // It may have ended.
	if errors.Is(p.Process.Kill(), syscall.EPERM) {
		return
	}
	<-p.Done
}

// Ended is true once it has.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}
