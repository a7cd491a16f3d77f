// Package main demonstrates the product on a real cluster. The demo creates a MySQL, with or without a claim, deletes
// it and creates it again, and shows that no row is lost. Then it changes the password. It shows each command as a
// user would type it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

const description = `Shows the product on a real cluster: boots Kubernetes and Crossplane on this machine, or takes the cluster of
KUBECONFIG; installs the product; applies the original claim (or, with DEMO_API=namespaced, a MySQL without a claim), types the original SQL session, deletes the claim, creates it
again, changes the password, and has the next backup go to a store. What it shows behind a $ is what it does. It stops at the first thing that is not as
promised, and says which. The server stays at the end, and the last lines say how to end it. A cluster that is booted
has the images of MySQL and of the store only: make cluster-up adds the others.`

// interrupted is the exit code after SIGINT.
const interrupted = 130

// cli contains the command line flags of the demo.
type cli struct {
	Kubeconfig string        `env:"KUBECONFIG" help:"Cluster to use. Without it, one is booted on this machine, which needs Linux and root." placeholder:"FILE"`
	Cluster    string        `default:"dev" env:"CLUSTER" help:"Name of the cluster that is booted."`
	Namespace  string        `env:"DEMO_NAMESPACE" help:"Namespace of the claim, which is made if it is not there. By default it is \"default\", or demo-2, demo-3 … where an earlier run has left its server or its backups."`
	API        string        `name:"api" default:"claim" env:"DEMO_API" help:"API to use: \"claim\", or \"namespaced\" for the MySQL without a claim."`
	Image      string        `env:"DEMO_IMAGE" help:"Image of the server, instead of the one that the manifest asks for."`
	Store      bool          `env:"DEMO_STORE" help:"Show a backup to a store, too, which needs an image of the S3 server versitygw. A cluster that is booted has it."`
	Patience   time.Duration `default:"10m" help:"How long to wait for any one thing before it counts as broken."`
}

// Validate checks the flags.
func (c *cli) Validate() error {
	if c.Patience <= 0 {
		return fmt.Errorf("--patience=%s leaves no time for anything; say 10m, for example", c.Patience)
	}
	_, err := apiOf(c.API)
	return err
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("demo"), kong.Description(description))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.run(ctx)
	stopped := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case stopped:
		os.Exit(interrupted)
	default:
		os.Exit(1)
	}
}

// run runs the demo in the root directory of the repository, which is the working directory or one of its parents.
func (c *cli) run(ctx context.Context) error {
	s := newScreen(os.Stdout)
	d, err := newDemo(c, s)
	if err != nil {
		s.sayf("%v", err)
		return err
	}
	return d.play(ctx)
}

// enterRepository changes to the root directory of the repository, which is the working directory or one of its
// parents.
func enterRepository() error {
	for range 32 {
		if _, err := os.Stat(claimFile); err == nil {
			return nil
		}
		if err := os.Chdir(".."); err != nil {
			return err
		}
	}
	return errors.New("cannot find the repository: run this inside it")
}

// absolute makes the paths in KUBECONFIG absolute.
func absolute(kubeconfig string) (string, error) {
	if kubeconfig == "" {
		return "", nil
	}
	files := filepath.SplitList(kubeconfig)
	for i, f := range files {
		var err error
		if files[i], err = filepath.Abs(f); err != nil {
			return "", err
		}
	}
	return strings.Join(files, string(filepath.ListSeparator)), nil
}
