//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/inside"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// cleanTime is the timeout for killing a cluster and removing its files.
const cleanTime = time.Minute

// upCmd is the command `cluster up`, which boots a cluster.
type upCmd struct {
	Nodes int `default:"2" env:"NODES" help:"Number of nodes, 1 to 9."`
	Port  int `help:"Port of the API server on 127.0.0.1; the registry's is the next one (default: derived from the name and the clone)."`
}

func (u *upCmd) run(ctx context.Context, c state.Cluster) error {
	if u.Nodes < 1 || u.Nodes > 9 {
		return fmt.Errorf("cannot boot %d nodes: say 1 to 9", u.Nodes)
	}
	unlock, err := c.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	p := client.NewProgress()
	if _, running := c.Running(); !running {
		if err := u.start(ctx, c, p); err != nil {
			return err
		}
	}
	if err := installCrossplane(ctx, c, p); err != nil {
		return err
	}
	p.Sayf("cluster %q is up", c.Name)
	return sayHow(os.Stdout, c)
}

// start boots the cluster. If the boot fails, no process is left.
func (u *upCmd) start(ctx context.Context, c state.Cluster, p *client.Progress) error {
	if c.Used() {
		p.Sayf("an earlier run of cluster %q ended without cleaning up: doing it now", c.Name)
	}
	if err := clean(ctx, c); err != nil {
		return err
	}
	api, registry := c.Ports()
	if u.Port != 0 {
		api, registry = u.Port, u.Port+1
	}
	if err := client.Check(ctx, machine.Cluster, c, p, api, registry); err != nil {
		return err
	}
	tools, err := client.BuildTools(ctx, c.Root, p, "kube", "core", "coredns", "helm")
	if err != nil {
		return err
	}
	images := client.ImageBuilder(c, p)
	images.Tools = tools
	if _, err := images.Ensure(ctx, images.Pause, images.CoreDNS, images.Crossplane); err != nil {
		return err
	}
	if err := u.boot(ctx, c, p, tools["kube"], api, registry); err != nil {
		return errors.Join(err, clean(ctx, c))
	}
	return nil
}

func (u *upCmd) boot(ctx context.Context, c state.Cluster, p *client.Progress, kube string, api, registry int) error {
	listeners := make([]*net.TCPListener, 0, 2)
	for _, port := range []int{api, registry} {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			return fmt.Errorf("cannot listen: %w", err)
		}
		defer l.Close() //nolint:errcheck // The cluster has its own descriptor by then.
		listeners = append(listeners, l)
	}
	if err := os.MkdirAll(c.File("logs"), 0o700); err != nil {
		return err
	}
	p.Sayf("booting Kubernetes with %d node(s)", u.Nodes)
	launch, err := inside.Start(inside.Config{
		Name: c.Name, Dir: c.Dir(), Images: c.Images(), Kube: kube, Cgroup: c.Cgroup(), Nodes: u.Nodes, API: api,
	}, listeners[0], listeners[1])
	if err != nil {
		return err
	}
	defer launch.Lifeline.Close() //nolint:errcheck // The cluster notices that it is closed.
	if err := c.Save(state.Process{PID: launch.PID, Nodes: u.Nodes, API: api, Registry: registry}); err != nil {
		return err
	}
	if err := follow(ctx, launch, p); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(c.File("pki/outside.kubeconfig"))
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	if err := state.WriteFile(c.Kubeconfig(), kubeconfig); err != nil {
		return err
	}
	// From now on, the cluster does not depend on this program.
	_, err = launch.Lifeline.WriteString("\n")
	return err
}

// follow starts the boot, and prints the reports of the cluster's first process until the boot is complete. It returns
// an error if the boot fails.
func follow(ctx context.Context, launch *inside.Launch, p *client.Progress) error {
	defer launch.Reports.Close() //nolint:errcheck // It was read to its end.
	stop := context.AfterFunc(ctx, func() { _ = launch.Reports.Close() })
	defer stop()
	if _, err := launch.Lifeline.WriteString("\n"); err != nil {
		return fmt.Errorf("cannot let the boot begin: %w", err)
	}
	reports := json.NewDecoder(launch.Reports)
	for {
		var r inside.Report
		err := reports.Decode(&r)
		switch {
		case ctx.Err() != nil:
			return errors.New("interrupted")
		case errors.Is(err, io.EOF):
			return errors.New("cannot boot: the first process ended without a word; see logs/first.log in the cluster's folder")
		case err != nil:
			return fmt.Errorf("cannot follow the boot: %w", err)
		case r.Error != "":
			return fmt.Errorf("cannot boot: %s", r.Error)
		case r.Ready:
			return nil
		}
		p.Sayf("%s", r.Step)
	}
}
