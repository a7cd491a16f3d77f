package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestDemo runs `make demo` on this cluster, in its own namespace, and checks its output.
func TestDemo(t *testing.T) {
	t.Parallel()
	playDemo(t, "claim", "examples/original-claim/claim.yaml", "The claim is gone", "$ sql otuspassword ")
}

// TestDemoNamespaced runs the demo with the namespaced API.
func TestDemoNamespaced(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestDemo types the same steps with a claim, and TestWithoutClaim has a MySQL without one")
	playDemo(t, "namespaced", "examples/namespaced/mysql.yaml", "The MySQL is gone", `$ sql "$password" `)
}

// playDemo runs the demo with an API and its manifest, and checks the output. gone is the line that reports the
// deletion. sql is the command that the demo shows for SQL with the first password.
func playDemo(t *testing.T, api, manifest, gone, sql string) {
	t.Helper()
	ns := framework.NewNamespace(t)
	claim := framework.ReadObjects(t, manifest, ns)[0]
	for _, name := range []string{claim.GetName(), "orders", "orders-before"} {
		each := claim.DeepCopy()
		each.SetName(name)
		t.Cleanup(func() { (&framework.Server{Namespace: ns, Name: name, Claim: each}).Discard(t) })
	}
	store := "demo-store-" + ns
	framework.AllowBackupStore(t, store)
	t.Cleanup(func() {
		for _, text := range [][]string{{"backupstore", store},
			{"secret", "--namespace=" + system, store, store + "-credentials"}, {"namespace", store, "--wait=false"}} {
			if out, err := framework.Kubectl(context.WithoutCancel(t.Context()),
				append([]string{"delete", "--ignore-not-found"}, text...)...); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})

	var printed bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "make", "demo")
	cmd.Dir = framework.Repository()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+framework.Suite.Kubeconfig, "DEMO_NAMESPACE="+ns, "DEMO_STORE=true",
		"DEMO_API="+api)
	cmd.Stdout = io.MultiWriter(&printed, os.Stdout)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		t.Fatalf("the demo failed: %v", err)
	}
	const rows = "|  1 | some data   |\n|  2 | some data-2 |\n"
	rest := printed.String()
	for _, want := range []string{
		"== 4/9 ", rows,
		"== 5/9 ", " BackingUp", gone, "Verified",
		"== 6/9 ", "Restoring DB have succeed", sql, rows,
		"== 7/9 ", "The new password is accepted", "The old password is refused", "ERROR 1045", "$ sql n3w-password ", rows,
		"== 8/9 ", "kubectl mysql store-key", "True", gone, store, "Restoring DB have succeed",
		sql, rows,
		"== 9/9 ", "kubectl mysql undo", "The transaction is committed.", "lamp", "kubectl mysql restore", "lamp",
		"Done: ", "Go on by hand:", "End it:",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("want %q, and in this order, in\n%s", want, &printed)
		}
		rest = after
	}
}
