package image

import (
	"context"
	"os/exec"
	"syscall"
)

// isolated returns a command in namespaces of its own. Its mounts and all its processes vanish with it, even if this
// program is killed.
func isolated(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, "unshare",
		append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"}, args...)...)
}

func inGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func endGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
