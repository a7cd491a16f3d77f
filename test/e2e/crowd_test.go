//go:build bench

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

const (
	// hanging deletions of one namespace.
	hanging = 200
	// readsOfCrowd a second that they may cost at most, once all of them hang: those of three looks. There are two, and
	// some for events.
	readsOfCrowd = 80
)

// TestHangingDeletions: two hundred deletions hang in one namespace, because Crossplane is paused for them. A good
// claim beside them is created, deleted and created again as before, which is printed; and what they cost is asserted.
// It leaves the cluster unfit for other tests.
func TestHangingDeletions(t *testing.T) {
	if framework.Suite.Own == nil && os.Getenv("SPOIL") == "" {
		t.Skip("it spoils the cluster, and this one is somebody else's: with SPOIL=1 it does")
	}
	alone := goodClaim(t)
	o := prototype(t)
	o.paused = true
	names := o.copies(t, hanging)
	metrics, token := framework.MetricsOf(t), framework.TokenWith(t, framework.NewNamespace(t), framework.MetricsRole)
	reads := func() float64 {
		n, err := metrics.Sum(t.Context(), token, "rest_client_requests_total", `method="GET"`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	atOnce(t, names, o.delete)
	begun := time.Now()
	beside := goodClaim(t)
	must(t, "the deletions", func(ctx context.Context) error { return o.hang(ctx, names) })
	hangs := time.Since(begun)
	time.Sleep(time.Minute) // Those that began last are looked at often.
	before := reads()
	time.Sleep(time.Minute)
	cost := (reads() - before) / 60
	fmt.Printf("\n%-44s %10s %10s %14s\n", "a good claim, seconds until", "created", "deleted", "created again")
	fmt.Printf("%-44s %10.1f %10.1f %14.1f\n", "alone", alone[0], alone[1], alone[2])
	fmt.Printf("%-44s %10.1f %10.1f %14.1f\n", fmt.Sprintf("beside %d deletions that begin and hang", hanging), beside[0],
		beside[1], beside[2])
	fmt.Printf("(all of them hang after %.0f s; from then on they cost %.1f reads a second, %.2f each)\n", hangs.Seconds(),
		cost, cost/hanging)
	if cost > readsOfCrowd {
		t.Errorf("want at most %d reads a second for a namespace, got %.1f", readsOfCrowd, cost)
	}
}

// goodClaim is how many seconds a claim takes until it answers, is gone, and answers again.
func goodClaim(t *testing.T) [3]float64 {
	t.Helper()
	s := framework.NewServer(t, framework.ClassComposition)
	seconds := func(run func()) float64 {
		begin := time.Now()
		run()
		return time.Since(begin).Seconds()
	}
	return [3]float64{
		seconds(func() { s.Create(t); s.Client().FirstAnswer(t, "SELECT 1") }),
		seconds(func() { s.Delete(t) }),
		seconds(func() { s.Create(t); s.Client().FirstAnswer(t, "SELECT 1") }),
	}
}

// delete claim and XR of a copy, as Crossplane would.
func (o *instanceObjects) delete(name string) error {
	ctx := context.Background()
	return errors.Join(
		framework.Suite.Kube.Delete(ctx, framework.NewObject("otus.homework/v1", "MySQL", o.namespace, name)),
		framework.Suite.Kube.Delete(ctx, framework.NewObject("otus.homework/v1", "XMySQL", "", "xr-"+name)))
}

// hang is nil once each copy waits for Crossplane, which it will for ever.
func (o *instanceObjects) hang(ctx context.Context, names []string) error {
	list := framework.NewList("otus.homework/v1/XMySQL")
	if err := framework.Suite.Kube.List(ctx, list); err != nil {
		return err
	}
	n := 0
	for _, xr := range list.Items {
		phase, _, _ := unstructured.NestedString(xr.Object, "status", "deletion", "phase")
		if slices.ContainsFunc(names, func(name string) bool { return xr.GetName() == "xr-"+name }) && phase == "Stopping" {
			n++
		}
	}
	if n < len(names) {
		return fmt.Errorf("%d of %d hang", n, len(names))
	}
	return nil
}
