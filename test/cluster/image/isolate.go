package image

import (
	"context"
	"os/exec"
	"syscall"
)

// isolated returns a command in its own namespaces. Its mounts and processes disappear together with it, even if this
// program is killed.
func isolated(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, "unshare",
		append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"}, args...)...)
}

func inGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func endGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
