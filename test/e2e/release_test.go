package e2e

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

const (
	// nextFunction is the image of a newer release. nextFunctionName is the name of its Function.
	nextFunction     = "ghcr.io/crossplane-mysql/function-mysql:next"
	nextFunctionName = "function-mysql-next"
	// nextGrace is the grace period that the newer release sets for pods.
	nextGrace = 599
)

// nextRelease contains replacements in the function's source code that simulate a newer release. The function then
// creates a different pod template and a different my.cnf.
var nextRelease = map[string][2]string{
	"fn/compose/deployment.go": {"gracePeriod int64 = 600", fmt.Sprintf("gracePeriod int64 = %d", nextGrace)},
	"fn/compose/config.go":     {"skip_name_resolve = ON", "skip_name_resolve = ON\\n# Made by the next release."},
}

// TestReleaseRestartsNoServer updates the function while clients write to three servers. The new function creates a
// different pod template and a different my.cnf, but the servers must keep running in their pods. They use the new
// template only when they are restarted: one of them by a user, and the others by the platform.
func TestReleaseRestartsNoServer(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRevision has who is restarted when, and TestChangeInPlace restarts one")
	onClass, onHostPath := framework.CopyOfComposition(t, framework.ClassComposition,
		nil), framework.HostPathComposition(t, nil)
	installNextFunction(t)
	compositions := []string{onClass, onClass, onHostPath}
	servers := make([]*tenant, 0, len(compositions))
	for _, composition := range compositions {
		s := framework.NewServer(t, composition)
		s.Create(t)
		servers = append(servers, &tenant{Server: s})
	}
	for _, s := range servers {
		s.Client().FirstAnswer(t, "SELECT 1")
		s.hasPendingRestart(t, "False")
		s.write(t)
		s.pod = s.Pods().MustFindServer(t).UID
	}

	for _, composition := range []string{onClass, onHostPath} {
		changeComposition(t, composition, map[string]any{"name": nextFunctionName}, "functionRef")
	}
	for _, s := range servers {
		s.hasPendingRestart(t, "True")
		s.Says(t, "An update of the server's pod is applied at its next restart")
	}
	for _, s := range servers {
		s.ranOn(t)
	}

	first, others := servers[0], servers[1:]
	first.stopWriting(t)
	framework.MustKubectl(t, "rollout", "restart", "deployment", "--namespace", first.Namespace, first.Name)
	first.isUpdated(t)
	for _, s := range others {
		s.ranOn(t)
		s.stopWriting(t)
	}
	for _, composition := range []string{onClass, onHostPath} {
		changeComposition(t, composition, "Now", "input", "maintenance")
	}
	for _, s := range others {
		s.isUpdated(t)
	}
	if got, want := first.Pods().MustFindServer(t).UID, first.pod; got != want {
		t.Errorf("want the first server to run on in pod %s, it is %s", want, got)
	}
}

// A tenant is a server and a client that writes through a single connection. The connection breaks if the server's pod
// is deleted.
type tenant struct {
	*framework.Server

	pod    types.UID
	writes int
	failed error
	end    func()
}

// write starts a client that writes rows to the server until stopWriting is called.
func (s *tenant) write(t *testing.T) {
	t.Helper()
	c, err := framework.Dial(t.Context(), s.Client().Forward(t), s.Password)
	if err != nil {
		t.Fatal(err)
	}
	target, ok := c.(driver.ExecerContext)
	if !ok {
		t.Fatalf("a %T does not write", c)
	}
	table := fmt.Sprintf("`%s`.written", s.Database)
	if _, err := target.ExecContext(t.Context(), "CREATE TABLE "+table+" (id INT AUTO_INCREMENT PRIMARY KEY)",
		nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context()) //nolint:gosec // stopWriting calls it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && s.failed == nil {
			if _, s.failed = target.ExecContext(t.Context(), "INSERT INTO "+table+" VALUES ()", nil); s.failed == nil { //nolint:contextcheck // A started write is completed.
				s.writes++
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	s.end = func() {
		cancel()
		<-done
		s.failed = errors.Join(s.failed, c.Close())
	}
}

// stopWriting stops the client and checks that no write has failed.
func (s *tenant) stopWriting(t *testing.T) {
	t.Helper()
	s.end()
	if s.failed != nil || s.writes == 0 {
		t.Errorf("want all writes to succeed, after %d: %v", s.writes, s.failed)
	}
	t.Logf("%d writes in %s", s.writes, s.Namespace)
}

// ranOn checks that the server is still running in the same pod without a restart.
func (s *tenant) ranOn(t *testing.T) {
	t.Helper()
	p := s.Pods().MustFindServer(t)
	if p.UID != s.pod || p.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("want the server in pod %s, it is in %s after %d restarts", s.pod, p.UID,
			p.Status.ContainerStatuses[0].RestartCount)
	}
}

// isUpdated waits until the server runs in a pod that the new release has created.
func (s *tenant) isUpdated(t *testing.T) {
	t.Helper()
	s.hasPendingRestart(t, "False")
	framework.Eventually(t, "the newer pod", func(ctx context.Context) error {
		p, err := s.Pods().FindServer(ctx)
		if err != nil {
			return err
		}
		if grace := p.Spec.TerminationGracePeriodSeconds; p.UID == s.pod || *grace != nextGrace {
			return fmt.Errorf("pod %s is there, which has %d seconds to end", p.Name, *grace)
		}
		s.pod = p.UID
		return nil
	})
	if got := s.Client().FirstAnswer(t,
		fmt.Sprintf("SELECT COUNT(*) > 0 FROM `%s`.written", s.Database)); strings.TrimSpace(got) != "1" {
		t.Errorf("its rows are not there: %q", got)
	}
}

// hasPendingRestart waits until the claim's condition PendingRestart has the given status.
func (s *tenant) hasPendingRestart(t *testing.T, want string) {
	t.Helper()
	framework.Eventually(t, "PendingRestart="+want, func(ctx context.Context) error {
		c, err := framework.FindCondition(ctx, s.Claim.DeepCopy(), "PendingRestart")
		if err == nil && c["status"] != want {
			err = fmt.Errorf("it is %v: %v", c["status"], c["message"])
		}
		return err
	})
}

// changeComposition changes a field in the first step of a Composition.
func changeComposition(t *testing.T, composition string, value any, path ...string) {
	t.Helper()
	framework.Eventually(t, "the change of Composition "+composition, func(ctx context.Context) error {
		c := framework.NewObject("apiextensions.crossplane.io/v1", "Composition", "", composition)
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		steps, _, err := unstructured.NestedSlice(c.Object, "spec", "pipeline")
		if err != nil {
			return err
		}
		step, _ := steps[0].(map[string]any)
		if err := unstructured.SetNestedField(step, value, path...); err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(c.Object, steps, "spec", "pipeline"); err != nil {
			return err
		}
		return framework.Suite.Kube.Update(ctx, c)
	})
}

// installNextFunction installs a second Function with the same package but a different image.
func installNextFunction(t *testing.T) {
	t.Helper()
	h := findHost(t)
	h.load(t, buildNextFunction(t))
	installed := framework.NewObject("pkg.crossplane.io/v1", "Function", "", "crossplane-mysql-function-mysql")
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(installed), installed); err != nil {
		t.Fatal(err)
	}
	runtime := framework.NewObject("pkg.crossplane.io/v1beta1", "DeploymentRuntimeConfig", "", nextFunctionName)
	runtime.Object["spec"] = map[string]any{"deploymentTemplate": map[string]any{"spec": map[string]any{
		"selector": map[string]any{},
		"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "package-runtime", "image": nextFunction}}}},
	}}}
	next := framework.NewObject("pkg.crossplane.io/v1", "Function", "", nextFunctionName)
	next.Object["spec"] = runtimeSpec(installed)
	for _, o := range []*unstructured.Unstructured{runtime, next} {
		if err := framework.Suite.Kube.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := framework.Suite.Kube.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		})
	}
	framework.Eventually(t, "the newer function", func(ctx context.Context) error {
		return framework.HasCondition(ctx, next.DeepCopy(), "Healthy")
	})
}

// runtimeSpec returns the spec of a Function with the package of another Function. It skips the dependencies, because
// the other Function already has them.
func runtimeSpec(installed *unstructured.Unstructured) map[string]any {
	pkg, _, _ := unstructured.NestedString(installed.Object, "spec", "package")
	return map[string]any{
		"package": pkg, "skipDependencyResolution": true,
		"runtimeConfigRef": map[string]any{"apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig",
			"name": nextFunctionName},
	}
}

// buildNextFunction builds the image of the newer release and returns the image file.
func buildNextFunction(t *testing.T) string {
	t.Helper()
	words := map[string][2]string{}
	for path, w := range nextRelease {
		words[filepath.Join(framework.Repository(), filepath.FromSlash(path))] = w
	}
	file, err := imageWithOtherWords(t.Context(), t.TempDir(), "./fn", nextFunction, words)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
