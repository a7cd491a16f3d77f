//go:build certmanager || providersql

package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// builds builds a third-party program of test/tools if necessary. It installs the CRDs of the program's module until
// the test ends.
func builds(t *testing.T, tool, module, crds string) (program string) {
	t.Helper()
	program = runGo(t, framework.Repository(), "run", "./test/tools", tool)
	crds = filepath.Join(runGo(t, filepath.Join(framework.Repository(), "test/tools", tool), "list", "-m", "-f",
		"{{.Dir}}", module), crds)
	framework.MustKubectl(t, "apply", "--server-side", "--filename", crds)
	t.Cleanup(func() {
		if out, err := framework.Kubectl(context.WithoutCancel(t.Context()), "delete", "--filename", crds,
			"--timeout=1m"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return program
}
