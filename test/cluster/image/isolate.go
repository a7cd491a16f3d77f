package image

import (
	"context"
	"os/exec"
	"syscall"
)

// isolated runs a program in namespaces of its own: its mounts vanish with it, and so does everything that it started,
// also when we are killed.
func isolated(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, "unshare",
		append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"}, args...)...)
}

func inGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func endGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
