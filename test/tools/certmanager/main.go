// Command certmanager runs the part of cert-manager that signs certificates: its controllers for issuers, for the
// approval of requests, and for the CA issuer. Its module has no main package.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	"golang.org/x/sync/errgroup"
)

const usage = "usage: certmanager KUBECONFIG"

// workers is the number of workers of each controller.
const workers = 1

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1) //nolint:gocritic // Nothing is left to stop.
	}
}

// run runs the controllers until the context is cancelled.
func run(ctx context.Context, kubeconfig string) error {
	g, ctx := errgroup.WithContext(ctx)
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig, KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
	})
	if err != nil {
		return err
	}
	known := controller.Known()
	for _, name := range []string{issuers.ControllerName, clusterissuers.ControllerName, approver.ControllerName,
		ca.CRControllerName} {
		c, err := known[name](factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		g.Go(func() error { return c.Run(workers, ctx) })
	}
	shared, err := factory.Build("informers")
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return g.Wait()
}
