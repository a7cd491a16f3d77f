package process

import (
	"os"
	"strconv"
	"strings"
)

// OOMKilled is the beginning of the text that End returns for a process that was killed because its container reached
// the memory limit. The kubelet uses the same word.
const OOMKilled = "OOMKilled"

// killed is the state of a killed process in os.ProcessState. exitKilled is the state of a shell whose child was
// killed.
const (
	killed     = "signal: killed"
	exitKilled = "exit status 137"
)

// memoryEvents are the kernel's files that contain how many processes of this container were killed because memory
// ran out. The first is for cgroup v2, the second for v1 (Documentation/admin-guide/cgroup-v2.rst and
// cgroup-v1/memory.rst of Linux).
var memoryEvents = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}

// oomKills returns how many processes of this container the kernel has killed because memory ran out. It returns -1
// if the number is unknown.
func oomKills(files []string) int {
	for _, name := range files {
		raw, err := os.ReadFile(name) //nolint:gosec // One of the kernel's files above.
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
				if n, err := strconv.Atoi(strings.TrimSpace(count)); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// End returns the state of the exited process as text. The text begins with OOMKilled if the kernel killed the
// process because memory ran out.
func (p *Process) End() string {
	state := p.ProcessState.String()
	return describeEnd(state, p.oomKills, oomKills(memoryEvents))
}

func describeEnd(state string, before, after int) string {
	if state != killed && state != exitKilled || before < 0 || after <= before {
		return state
	}
	return OOMKilled + ": the memory limit of its container was reached"
}
