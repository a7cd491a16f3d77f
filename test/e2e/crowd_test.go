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
	// hanging is the number of claims whose deletion is blocked.
	hanging = 200
	// readsOfCrowd is the maximum number of API reads per second that the blocked deletions may cause. It corresponds to
	// three concurrent checks. The controller runs two, and events cause some more.
	readsOfCrowd = 80
)

// TestHangingDeletions blocks 200 deletions in one namespace by pausing Crossplane for their objects. At the same
// time, it creates, deletes and recreates a normal claim and prints the times. It asserts how many API reads the
// blocked deletions cause. The cluster cannot be used for other tests afterwards.
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
	time.Sleep(time.Minute) // The most recent deletions are still being checked often.
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

// goodClaim returns the seconds that it takes to create a normal claim, to delete it, and to create it again.
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

// delete deletes the claim and the composite resource of a copied instance, as Crossplane would.
func (o *instanceObjects) delete(name string) error {
	ctx := context.Background()
	return errors.Join(
		framework.Suite.Kube.Delete(ctx, framework.NewObject("otus.homework/v1", "MySQL", o.namespace, name)),
		framework.Suite.Kube.Delete(ctx, framework.NewObject("otus.homework/v1", "XMySQL", "", "xr-"+name)))
}

// hang returns nil once the controller waits for Crossplane, which is paused, in the deletion of each named copy.
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
