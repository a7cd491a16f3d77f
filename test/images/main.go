//go:build linux

// Command images builds the servers' images for the tests, without a container engine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
)

const description = `Makes the images of the servers that tests run, from Debian packages and Go modules: MySQL, MariaDB, what stands
in for MongoDB, an S3 server, and mysqld_exporter. They are kept in .cache of the repository, where all clusters' images are. It needs root.`

// cli contains the commands and flags of the program, which kong parses.
type cli struct {
	client.Flags

	Make    makeCmd    `cmd:"" help:"Make images that are not there, without a cluster, and what the Dockerfile builds on."`
	Load    loadCmd    `cmd:"" help:"Make the images that are not there, and give them to the cluster's registry."`
	Rootfs  rootfsCmd  `cmd:"" help:"Unpack a server's image, for tests that run mysqld without a cluster."`
	Product productCmd `cmd:"" help:"Build the image of the repository's Dockerfile into a folder, for each architecture."`
}

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("images"), kong.Description(description))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.run(ctx, k.Command())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "images: %v\n", err)
		os.Exit(1)
	}
}

func (c *cli) run(ctx context.Context, command string) error {
	cluster, err := c.Cluster()
	if err != nil {
		return err
	}
	switch name, _, _ := strings.Cut(command, " "); name {
	case "make":
		return c.Make.run(ctx, cluster)
	case "load":
		return c.Load.run(ctx, cluster)
	case "product":
		return c.Product.run(ctx, cluster)
	}
	return c.Rootfs.run(ctx, cluster) // kong accepts no other commands.
}
