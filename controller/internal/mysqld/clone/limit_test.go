//go:build mysqld && bench

package clone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A limit is a CPU limit for a command and its child processes. It is a control group, like that of a container.
type limit struct{ procs string }

// limitPeriod is the kernel's default period in microseconds.
const limitPeriod = 100_000

// newLimit returns a limit of this number of CPUs, with version 1 or 2 of control groups.
func newLimit(t *testing.T, processors float64) *limit {
	t.Helper()
	quota := int(processors * limitPeriod)
	parent, file, value := "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", fmt.Sprint(quota)
	if _, err := os.Stat(parent); err != nil {
		parent, file, value = "/sys/fs/cgroup", "cpu.max", fmt.Sprintf("%d %d", quota, limitPeriod)
	}
	group := filepath.Join(parent, fmt.Sprintf("crossplane-mysql-bench-%d", os.Getpid()))
	must(t, os.Mkdir(group, 0o755))
	t.Cleanup(func() {
		for range 50 { // Killed processes stay in the group for a moment.
			if err := os.Remove(group); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("%s stays", group)
	})
	must(t, os.WriteFile(filepath.Join(group, file), []byte(value), 0o600))
	return &limit{procs: filepath.Join(group, "cgroup.procs")}
}

// keep changes a command so that it runs in the control group.
func (l *limit) keep(cmd *exec.Cmd) {
	cmd.Args = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, l.procs, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}
