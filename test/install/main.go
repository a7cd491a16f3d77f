//go:build linux

// Command install builds the product from the working tree and installs it in a cluster of this repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
)

const description = `Builds the product from the working tree and installs it in a cluster that runs: its image with its Dockerfile, its
packages with the library of the CLI that a user would take, and what a user applies with kubectl.`

// cli contains the flags of the program, which kong parses.
type cli struct {
	client.Flags

	Timeout time.Duration `default:"15m" help:"How long building and installing may take."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("install"), kong.Description(description))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "install: %v\n", err)
		os.Exit(1)
	}
}

func (c *cli) run(ctx context.Context) error {
	cluster, err := c.Cluster()
	if err != nil {
		return err
	}
	return load(ctx, cluster, c.Timeout)
}
