package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is the first process of a cluster. Its start time distinguishes it from a later process with the same
// process ID.
type Process struct {
	PID      int    `json:"pid"`
	Started  string `json:"started"` // In clock ticks since the boot of the machine.
	Nodes    int    `json:"nodes"`
	API      int    `json:"api"`
	Registry int    `json:"registry"`
}

const processFile = "process.json"

// Save stores the cluster's first process in a file.
func (c Cluster) Save(p Process) error {
	stat, err := readStat(p.PID)
	if err != nil {
		return fmt.Errorf("cannot look at the process that was just started: %w", err)
	}
	p.Started = stat.started
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("cannot write the process down: %w", err)
	}
	return WriteFile(c.File(processFile), b)
}

// Running returns the cluster's first process, and reports whether it is still running.
func (c Cluster) Running() (Process, bool) {
	b, err := os.ReadFile(c.File(processFile))
	if err != nil {
		return Process{}, false
	}
	var p Process
	if json.Unmarshal(b, &p) != nil {
		return Process{}, false
	}
	stat, err := readStat(p.PID)
	return p, err == nil && stat.started == p.Started && !stat.ended()
}

// Used reports whether files of an earlier run of the cluster may exist.
func (c Cluster) Used() bool {
	_, err := os.Stat(c.File(processFile))
	return err == nil
}

// Kill kills the cluster's first process. The kernel then kills all processes in its namespaces.
func (c Cluster) Kill(ctx context.Context) error {
	p, running := c.Running()
	if !running {
		return nil
	}
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot end the cluster's first process %d: %w", p.PID, err)
	}
	for running {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster's first process %d does not end: %w", p.PID, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
		_, running = c.Running()
	}
	return nil
}

// Lock prevents two commands from using the same cluster concurrently. The kernel releases the lock when the process
// exits.
func (c Cluster) Lock() (unlock func(), err error) {
	l, err := os.OpenFile(c.File("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the cluster %q: %w", c.Name, err)
	}
	if err := unix.Flock(int(l.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = l.Close() // Nothing was written.
		return nil, fmt.Errorf("cannot lock the cluster %q: another command works on it right now; wait for it, or end it "+
			"with Ctrl-C", c.Name)
	}
	return func() { _ = l.Close() }, nil
}

// WriteFile writes a file atomically.
func WriteFile(name string, b []byte) error {
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	return os.Rename(tmp, name)
}

type procStat struct{ state, threads, started string }

// ended reports whether all threads of the process have exited. If its first thread is a zombie, other threads may
// still be running. Until the last one has exited, the files and listening ports of the process stay open.
func (s procStat) ended() bool { return s.state == "Z" && s.threads == "1" }

// readStat reads fields 3, 20 and 22 of proc_pid_stat(5). The name in field 2 can contain spaces and parentheses.
func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	_, rest, ok := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return procStat{}, fmt.Errorf("cannot read the state of process %d", pid)
	}
	return procStat{state: f[0], threads: f[17], started: f[19]}, nil
}
