//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/inside"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// execCmd is the command `cluster exec`, which runs a command on a node or in the control plane of a cluster.
type execCmd struct {
	Node    int      `help:"Number of the node to run it on; 0 is the control plane."`
	Command []string `arg:"" help:"The command and its arguments." passthrough:""`
}

func (e *execCmd) run(ctx context.Context, c state.Cluster) error {
	p, err := client.Running(c)
	if err != nil {
		return err
	}
	pid := p.PID
	if e.Node != 0 {
		if pid, err = inside.FindNode(c.Cgroup(), e.Node); err != nil {
			return err
		}
	}
	cmd := inNamespaces(ctx, pid, e.Command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return &exitError{code: exit.ExitCode()}
	}
	return err
}

// inNamespaces returns a command that runs in the network, mount and PID namespaces of the process with the given ID.
func inNamespaces(ctx context.Context, pid int, command ...string) *exec.Cmd {
	args := append([]string{"--target", strconv.Itoa(pid), "--net", "--mount", "--pid", "--"}, command...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=/run/cluster/pki/admin.kubeconfig",
		"CONTAINERD_ADDRESS=/run/containerd/containerd.sock", "CONTAINERD_NAMESPACE=k8s.io")
	return cmd
}
