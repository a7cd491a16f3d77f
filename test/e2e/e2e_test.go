// Package e2e tests the product on a real cluster. The tests boot this cluster, unless KUBECONFIG specifies an
// existing one.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := framework.Run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = 1
	}
	os.Exit(code)
}
