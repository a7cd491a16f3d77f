//go:build chart || release

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// removesProduct as the suite has installed it with kubectl.
func removesProduct(t *testing.T) {
	t.Helper()
	framework.MustKubectl(t, "delete", "configurations.pkg.crossplane.io,functions.pkg.crossplane.io", "--all", "--timeout=2m")
	framework.Eventually(t, "the end of the XRDs", func(ctx context.Context) error {
		out, err := framework.Kubectl(ctx, "get", "xrd", "--output", "name")
		if err == nil && strings.Contains(out, "otus") {
			err = errors.New(out)
		}
		return err
	})
	framework.MustKubectl(t, "delete", "--ignore-not-found", "--timeout=2m", "--filename", framework.Repository()+"/package/install.yaml")
	for _, part := range []string{"platform", "controller", "records"} {
		framework.MustKubectl(t, "delete", "--ignore-not-found", "--timeout=2m", "--kustomize", "controller/deploy/"+part)
	}
}
