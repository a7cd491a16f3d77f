package process

import (
	"os"
	"strconv"
	"strings"
)

// OOMKilled begins what End returns of a process that the kernel killed because its container's memory limit was reached. It is the
// kubelet's word for that.
const OOMKilled = "OOMKilled"

// killed is how os.ProcessState names a process that was killed, and exitKilled how it names a shell whose child was.
const (
	killed     = "signal: killed"
	exitKilled = "exit status 137"
)

// memoryEvents are the files in which the kernel counts what it has killed in this container for memory: of cgroup v2, and of v1
// (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux).
var memoryEvents = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}

// oomKills returns how many processes of this container the kernel has killed for memory, or -1 if it does not say.
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

// End returns how a process ended, which says so if the kernel killed it for memory.
func (p *Process) End() string {
	how := p.ProcessState.String()
	return describeEnd(how, p.oomKills, oomKills(memoryEvents))
}

func describeEnd(how string, before, after int) string {
	if how != killed && how != exitKilled || before < 0 || after <= before {
		return how
	}
	return OOMKilled + ": the memory limit of its container was reached"
}
