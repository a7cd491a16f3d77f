//go:build linux

// Command cluster boots a real Kubernetes cluster with Crossplane on one Linux machine, without a container engine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/inside"
)

const description = `Boots Kubernetes and Crossplane on this machine, inside network, mount and process namespaces that nothing
leaves. It needs root and Debian packages, which it installs. Everything is built from Go modules once, which takes some
20 minutes, and kept in .cache of the repository.`

// cli contains the commands and flags of the program, which kong parses.
type cli struct {
	client.Flags

	Up     upCmd     `cmd:"" help:"Boot the cluster, unless it is running, and wait until Crossplane is Ready."`
	Check  checkCmd  `cmd:"" help:"Look at this machine, and install the Debian packages that are missing."`
	Down   downCmd   `cmd:"" help:"End the cluster and remove all that it left."`
	Status statusCmd `cmd:"" help:"Say whether the cluster is running, and how to reach it."`
	Exec   execCmd   `cmd:"" help:"Run a command in the network of the cluster's control plane, or of one of its nodes."`
}

// insides are the commands with which the program starts the processes inside a cluster. They are not for users.
var insides = map[string]func(inside.Config) error{
	inside.CommandFirst:   inside.First,
	inside.CommandControl: inside.Control,
	inside.CommandNode:    inside.Node,
}

func main() {
	if len(os.Args) == 3 && insides[os.Args[1]] != nil {
		exit(runInside(os.Args[2], insides[os.Args[1]]))
	}
	var c cli
	k := kong.Parse(&c, kong.Name("cluster"), kong.Description(description))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.run(ctx, k.Command())
	stop()
	exit(err)
}

func exit(err error) {
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.code)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// An exitError contains the exit code of a command that `cluster exec` ran. The program exits with the same code.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

func (c *cli) run(ctx context.Context, command string) error {
	cluster, err := c.Cluster()
	if err != nil {
		return err
	}
	switch command {
	case "up":
		return c.Up.run(ctx, cluster)
	case "check":
		return c.Check.run(ctx, cluster)
	case "down":
		return c.Down.run(ctx, cluster)
	case "status":
		return c.Status.run(cluster)
	default: // kong accepts no other commands.
		return c.Exec.run(ctx, cluster)
	}
}

func runInside(config string, run func(inside.Config) error) error {
	c, err := inside.ParseConfig(config)
	if err != nil {
		return err
	}
	return run(c)
}
