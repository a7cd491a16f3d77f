//go:build chart || release

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// removesProduct removes the product that the test suite has installed with kubectl.
func removesProduct(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"configurations.pkg.crossplane.io", "functions.pkg.crossplane.io"} {
		removesPackages(t, kind)
	}
	framework.Eventually(t, "the end of the XRDs", func(ctx context.Context) error {
		out, err := framework.Kubectl(ctx, "get", "xrd", "--output", "name")
		if err == nil && strings.Contains(out, "otus") {
			err = errors.New(out)
		}
		return err
	})
	framework.MustKubectl(t, "delete", "--ignore-not-found", "--timeout=2m", "--filename",
		framework.Repository()+"/package/install.yaml")
	for _, part := range []string{"platform", "controller", "records"} {
		framework.MustKubectl(t, "delete", "--ignore-not-found", "--timeout=2m", "--kustomize", "controller/deploy/"+part)
	}
}

// removesPackages deletes all packages of a kind until none is left. Crossplane installs a package again if another
// package still depends on it.
func removesPackages(t *testing.T, kind string) {
	t.Helper()
	framework.Eventually(t, "the end of the "+kind, func(ctx context.Context) error {
		if out, err := framework.Kubectl(ctx, "delete", kind, "--all", "--timeout=1m"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		time.Sleep(3 * time.Second) // Crossplane may be installing a package again.
		out, err := framework.Kubectl(ctx, "get", kind, "--output", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New(out)
		}
		return err
	})
}
