//go:build bench

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// many is the number of idle claims that the benchmarks create.
const many = 1000

// TestThousand measures the controller with 1,000 idle instances. Each of them has the objects that the controller
// reads: claim, composite resource, volume, PVC and Service. All Services lead to one server, and there are no
// Deployments. Crossplane is stopped during the test, because it would create them. The cluster cannot be used for
// other tests afterwards.
func TestThousand(t *testing.T) {
	if framework.Suite.Own == nil && os.Getenv("SPOIL") == "" {
		t.Skip("it spoils the cluster, and this one is somebody else's: with SPOIL=1 it does")
	}
	o := prototype(t)
	scale(t, "crossplane-system", "crossplane", 0)
	before := atRest(t)
	o.copies(t, many)
	must(t, "the controller", o.done)
	after := atRest(t)
	o.plan(t)
	planned := atRest(t)
	fmt.Printf("\n%-28s %14s %24s\n", "the controller at rest", "resident MiB", "CPU seconds in a minute")
	fmt.Printf("%-28s %14.0f %24.2f\n", "one claim", before.memory/(1<<20), before.cpu)
	fmt.Printf("%-28s %14.0f %24.2f\n", fmt.Sprintf("%d more", many), after.memory/(1<<20), after.cpu)
	fmt.Printf("%-28s %14.0f %24.2f\n", "each with a schedule", planned.memory/(1<<20), planned.cpu)
	fmt.Printf("%-28s %14s\n", "target", "< 100")
	fmt.Println("(one server answers for all of them; no pods, and Crossplane is stopped)")
}

// done returns nil once the controller has created a backup PVC and a connection Secret for each copied instance.
func (o *instanceObjects) done(ctx context.Context) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := framework.Suite.Kube.List(ctx, claims, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	if len(claims.Items) < 2*(many+1) {
		return fmt.Errorf("%d of %d volume claims are there", len(claims.Items), 2*(many+1))
	}
	secrets := &corev1.SecretList{}
	if err := framework.Suite.Kube.List(ctx, secrets, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	connections := 0
	for i := range secrets.Items {
		if strings.HasSuffix(secrets.Items[i].Name, "-connection") {
			connections++
		}
	}
	if connections <= many {
		return fmt.Errorf("%d of %d connection Secrets are there", connections, many+1)
	}
	return nil
}

// plan sets a backup schedule in each copied instance. The next backup is up to a year later.
func (o *instanceObjects) plan(t *testing.T) {
	t.Helper()
	all, err := listKind(t.Context(), "otus.homework/v1/XMySQL", "")
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"backup":{"schedule":{"cron":"0 3 1 1 *","timeZone":"Europe/Berlin","method":"Online"}}}}`))
	for i := range all {
		if err := framework.Suite.Kube.Patch(t.Context(), &all[i], patch); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "the plans", func(ctx context.Context) error {
		all, err := listKind(ctx, "otus.homework/v1/XMySQL", "")
		n := 0
		for i := range all {
			if next, _, _ := unstructured.NestedString(all[i].Object, "status", "internal", "backupSchedule", "nextAt"); next != "" {
				n++
			}
		}
		if err == nil && n <= many {
			err = fmt.Errorf("%d of %d are planned", n, many+1)
		}
		return err
	})
}

// must is like Eventually but waits longer, because a thousand objects take longer than one.
func must(t *testing.T, subject string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*framework.Patience)
	defer cancel()
	if err := framework.Poll(ctx, func() error { return check(ctx) }); err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
}

// A load contains the memory in bytes that a process uses, and its CPU time in seconds per minute.
type load struct{ memory, cpu float64 }

// atRest measures the controller for one minute, after it has been idle for ten seconds.
func atRest(t *testing.T) load {
	t.Helper()
	last, metrics, token := -1.0, framework.MetricsOf(t), framework.TokenWith(t, framework.NewNamespace(t),
		framework.MetricsRole)
	must(t, "the controller's rest", func(ctx context.Context) error {
		now, err := metrics.Value(ctx, token, "process_cpu_seconds_total")
		if err != nil {
			return err
		}
		used := now - last
		last = now
		if used > 0.2 {
			time.Sleep(10 * time.Second)
			return fmt.Errorf("it used %.2f s of CPU in 10 s", used)
		}
		return nil
	})
	before, err := metrics.Value(t.Context(), token, "process_cpu_seconds_total")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	after, err := metrics.Value(t.Context(), token, "process_cpu_seconds_total")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := metrics.Value(t.Context(), token, "process_resident_memory_bytes")
	if err != nil {
		t.Fatal(err)
	}
	return load{memory: memory, cpu: after - before}
}
