//go:build linux

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// statusCmd is the command `cluster status`, which prints how to connect to a cluster.
type statusCmd struct{}

func (s *statusCmd) run(c state.Cluster) error {
	p, err := client.Running(c)
	if err != nil {
		return err
	}
	if err := sayHow(os.Stdout, c); err != nil {
		return err
	}
	bytes, processes, err := memory(p.PID)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("# %d nodes, %d processes, %d MiB of memory\n", p.Nodes, processes, bytes>>20)
	return err
}

func sayHow(out io.Writer, c state.Cluster) error {
	p, running := c.Running()
	if !running {
		return fmt.Errorf("cluster %q has just ended; its logs are in %s", c.Name, c.File("logs"))
	}
	_, err := fmt.Fprintf(out, `export KUBECONFIG=%s
# kubectl get nodes          reach it
# 127.0.0.1:%d            its registry, under which every image and package is found
# make cluster-load          install the product from the working tree
# make cluster-down          end it
`, c.Kubeconfig(), p.Registry)
	return err
}
