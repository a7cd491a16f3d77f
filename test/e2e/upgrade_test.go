//go:build release

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestUpgrade installs an earlier release from its files, with three servers and clients that write. Then it upgrades
// to the later release as docs/how-to/upgrade-product.md describes, and returns to the earlier one. No server may
// restart, no write may fail, and each release must be able to restore the other's backups.
func TestUpgrade(t *testing.T) {
	removesProduct(t)
	earlier, later := pushRelease(t, "EARLIER"), pushRelease(t, "LATER")
	earlier.install(t)
	var servers []*tenant
	for range 3 {
		s := framework.NewServer(t, framework.ClassComposition)
		s.Create(t)
		servers = append(servers, &tenant{Server: s})
	}
	for _, s := range servers {
		s.Client().FirstAnswer(t, "SELECT 1")
		s.pod = s.Pods().MustFindServer(t).UID
		s.write(t)
	}
	for i, target := range []*release{later, earlier} {
		target.install(t)
		for _, s := range servers {
			s.ranOn(t)
		}
		one := servers[i]
		one.stopWriting(t)
		one.ranOn(t)
		count := one.Client().MustQuery(t, fmt.Sprintf("SELECT COUNT(*) FROM `%s`.written", one.Database))
		one.Delete(t)
		one.Create(t)
		if got := one.Client().FirstAnswer(t, fmt.Sprintf("SELECT COUNT(*) FROM `%s`.written", one.Database)); got != count {
			t.Errorf("%s: want %s rows, got %s", target.version, count, got)
		}
		one.pod = one.Pods().MustFindServer(t).UID
	}
	last := servers[2]
	last.ranOn(t)
	last.stopWriting(t)
	later.install(t)
	last.ranOn(t)
	servers[1].Delete(t) // The earlier release created this instance, and the later one backs it up.
	servers[1].Backups().AreVerified(t, 2)
}

// A release is a directory with the files of a release of this product, whose images are in the cluster's registry.
type release struct{ version, dir string }

// pushRelease pushes the release in the directory that an environment variable specifies.
func pushRelease(t *testing.T, variable string) *release {
	t.Helper()
	r := &release{dir: os.Getenv(variable)}
	charts, err := filepath.Glob(filepath.Join(r.dir, "crossplane-mysql-*.tgz"))
	if err != nil || len(charts) != 1 || !filepath.IsAbs(r.dir) {
		t.Fatalf("%s is %q, and has to be the folder of a release: make release-test", variable, r.dir)
	}
	r.version = "v" + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(charts[0]), "crossplane-mysql-"), ".tgz")
	var process struct{ Registry int }
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(framework.Suite.Kubeconfig), "process.json"))
	if err == nil {
		err = json.Unmarshal(raw, &process)
	}
	if err != nil {
		t.Fatalf("cannot find the registry of the cluster: %v", err)
	}
	tool := func(name string) string { return runGo(t, framework.Repository(), "run", "./test/tools", name) }
	push := exec.CommandContext(t.Context(), "go", "run", "-C", "package/build", "./release", "push", "--version",
		r.version, "--from", r.dir,
		"--to", fmt.Sprintf("127.0.0.1:%d/crossplane-mysql", process.Registry), "--cli", tool("cli"), "--helm", tool("helm"))
	push.Dir = framework.Repository()
	if out, err := push.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// install installs the release with kubectl, replacing the existing one, and waits until all parts are updated.
func (r *release) install(t *testing.T) {
	t.Helper()
	t.Logf("installing %s", r.version)
	for _, file := range []string{"records.yaml", "controller.yaml", "platform.yaml", "packages.yaml"} {
		if file == "platform.yaml" {
			framework.MustKubectl(t, "wait", "--for=condition=Established", "--timeout=1m", "crd/platforms.crossplane-mysql.io")
		}
		framework.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "--filename", filepath.Join(r.dir, file))
	}
	framework.MustKubectl(t, "rollout", "status", "--namespace=crossplane-mysql-system", "--timeout=3m",
		"deployment/crossplane-mysql")
	framework.Eventually(t, "the packages of "+r.version, func(ctx context.Context) error {
		out, err := framework.Kubectl(ctx, "get", "pkgrev", "--output",
			`jsonpath={range .items[?(@.spec.desiredState=="Active")]}{.spec.image} {.status.conditions[?(@.type=="RevisionHealthy")].status} {.status.conditions[?(@.type=="RuntimeHealthy")].status}{"\n"}{end}`)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for _, line := range lines {
			if !strings.Contains(line, ":"+r.version+" True") || strings.Contains(line, "False") {
				return errors.New(line)
			}
		}
		if len(lines) < 2 {
			return fmt.Errorf("there are %d", len(lines))
		}
		return nil
	})
	framework.MustKubectl(t, "wait", "--for=condition=Offered", "--timeout=2m", "xrd/xmysqls.otus.homework")
}
