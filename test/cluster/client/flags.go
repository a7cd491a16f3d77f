// Package client contains code that the programs for a cluster share: the flags that identify the cluster, the
// progress output, and the programs that they call.
package client

import (
	"errors"
	"fmt"
	"os"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// Flags are the command line flags that select a cluster.
type Flags struct {
	Root string `help:"The repository's folder (default: looked for from here upwards)." placeholder:"DIR" type:"existingdir"`
	Name string `default:"dev" env:"CLUSTER" help:"Name of the cluster; several may run beside each other."`
}

// Cluster returns the cluster that the flags select. The cluster does not have to be running.
func (f Flags) Cluster() (state.Cluster, error) {
	if os.Geteuid() != 0 {
		return state.Cluster{}, errors.New(machine.NotRoot)
	}
	root := f.Root
	if root == "" {
		var err error
		if root, err = state.FindRoot("."); err != nil {
			return state.Cluster{}, err
		}
	}
	return state.New(root, f.Name)
}

// Running returns the cluster's first process, or an error that says how to boot the cluster.
func Running(c state.Cluster) (state.Process, error) {
	p, ok := c.Running()
	if !ok {
		return p, fmt.Errorf("cluster %q is not running: make cluster-up", c.Name)
	}
	return p, nil
}
