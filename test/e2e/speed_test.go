//go:build bench

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// speedRounds is the number of measurements. The median is printed. One more round is run first, without being
// counted, because it pulls the images.
const speedRounds = 3

// A span contains the times of an operation that users wait for, such as creating a claim, one time for each round.
type span struct {
	subject, target string
	seconds         []float64
}

func (s *span) add(d time.Duration) { s.seconds = append(s.seconds, d.Seconds()) }

// middle returns the median time of all rounds except the first, which also pulls the images.
func (s *span) middle() float64 {
	counted := slices.Sorted(slices.Values(s.seconds[1:]))
	return counted[len(counted)/2]
}

// spans contains the durations of all measured operations on a claim. hand is the duration of creating the same
// objects without the product, for comparison.
type spans struct {
	first, hand, change, end, restart span
}

// TestSpeed measures the operations that users wait for. It asserts nothing, because the times depend on the load of
// the machine.
func TestSpeed(t *testing.T) {
	all := &spans{
		first:   span{subject: "claim applied, to the first query"},
		hand:    span{subject: "the same objects applied by hand"},
		change:  span{subject: "password in the claim, to its first login", target: "< 1"},
		end:     span{subject: "claim deleted, with a proved backup, to gone", target: "< 20"},
		restart: span{subject: "claim applied again, to the first restored row"},
	}
	for range 1 + speedRounds {
		var composed []*unstructured.Unstructured
		if !t.Run("claim", func(t *testing.T) { composed = all.instanceID(t) }) ||
			!t.Run("hand", func(t *testing.T) { all.byHand(t, composed) }) {
			return
		}
	}
	all.print()
}

func (a *spans) print() {
	a.first.target = fmt.Sprintf("%.2f times by hand, <= 1.3", a.first.middle()/a.hand.middle())
	fmt.Printf("\n%-48s %8s  %s\n", fmt.Sprintf("the middle of %d", speedRounds), "seconds", "target")
	for _, s := range []span{a.first, a.hand, a.change, a.end, a.restart} {
		fmt.Printf("%-48s %8.2f  %-26s %.2f\n", s.subject, s.middle(), s.target, s.seconds[1:])
	}
}

// instanceID creates, changes, deletes and recreates a claim, and adds the times to a. It returns the claim's composed
// objects.
func (a *spans) instanceID(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	s := framework.NewServer(t, "mysql")
	a.first.add(waitForAnswer(t, s, s.Password, "SELECT 1", func() { s.Create(t) }))
	framework.Eventually(t, "the claim", func(ctx context.Context) error {
		return framework.HasCondition(ctx, s.Claim, "Ready")
	})
	composed := composedOf(t, s)
	s.Client().TypeSession(t)
	waitUntilSettled(t, s)
	next := "another-" + s.Password
	a.change.add(waitForAnswer(t, s, next, "SELECT 1", func() { setPassword(t, s, next) }))
	started := time.Now()
	if err := framework.Suite.Kube.Delete(t.Context(), s.Claim); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the claim's end", func(ctx context.Context) error { return framework.IsGone(ctx, s.Claim) })
	a.end.add(time.Since(started))
	a.restart.add(waitForAnswer(t, s, s.Password, framework.Rows, func() { s.Create(t) }))
	return composed
}

// byHand measures the time until a server responds that is created from the same objects without the product.
func (a *spans) byHand(t *testing.T, composed []*unstructured.Unstructured) {
	t.Helper()
	ns := framework.NewNamespace(t)
	framework.StartToolbox(t, ns, "client", "")
	claim := framework.ReadObjects(t, "examples/original-claim/claim.yaml", ns)[0]
	s := &framework.Server{Namespace: ns, Name: claim.GetName()}
	s.Database, _, _ = unstructured.NestedString(claim.Object, "spec", "database")
	s.Password, _, _ = unstructured.NestedString(claim.Object, "spec", "password")
	a.hand.add(waitForAnswer(t, s, s.Password, "SELECT 1", func() {
		applyByHand(t, ns, composed)
	}))
}

// applyByHand creates the composed objects of a claim in another namespace.
func applyByHand(t *testing.T, ns string, composed []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range composed {
		o := o.DeepCopy()
		o.SetNamespace(ns)
		if err := framework.Suite.Kube.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// loop is a shell script that runs a statement with the mysql client until it succeeds. It reads the client's options
// from standard input.
const loop = `umask 077; cat >/tmp/options; until mysql --defaults-file=/tmp/options --connect-timeout=1 --execute="$1" "$2" 2>/tmp/error; do sleep 0.05; done`

// waitForAnswer returns the time from a call of act until a client succeeds for the first time. The client already
// retries in its pod before the call.
func waitForAnswer(t *testing.T, s *framework.Server, password, statement string, act func()) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), framework.Patience)
	defer cancel()
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	options := fmt.Sprintf("[client]\nhost=%s\nuser=root\npassword=\"%s\"\n", s.Name, quoted)
	ended := make(chan error, 1)
	go func() {
		_, err := framework.Exec(ctx, s.Namespace, "client", options, "sh", "-c", loop, "sh", statement, s.Database)
		ended <- err
	}()
	framework.Eventually(t, "the client's first try", func(ctx context.Context) error {
		_, err := framework.Exec(ctx, s.Namespace, "client", "", "grep", "-q", "ERROR", "/tmp/error")
		return err
	})
	started := time.Now()
	act()
	if err := <-ended; err != nil {
		t.Fatalf("the client: %v; the claim says %s", err, messageNow(t, s))
	}
	took := time.Since(started)
	if _, err := framework.Exec(t.Context(), s.Namespace, "client", "", "rm", "/tmp/error"); err != nil {
		t.Fatal(err)
	}
	return took
}

func messageNow(t *testing.T, s *framework.Server) string {
	t.Helper()
	if s.Claim == nil {
		return "nothing: there is none"
	}
	return s.Message(context.WithoutCancel(t.Context()))
}

func setPassword(t *testing.T, s *framework.Server, password string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"password":%q}}`, password))
	if err := framework.Suite.Kube.Patch(t.Context(), s.Claim, patch); err != nil {
		t.Fatal(err)
	}
}

// waitUntilSettled waits until the server accepts the password in the claim.
func waitUntilSettled(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the credentials", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(s.Claim), s.Claim); err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(s.Claim.Object, "status", "internal", "credentials", "state"); state != "InSync" {
			return fmt.Errorf("they are %q", state)
		}
		return nil
	})
}

// composedOf returns the composed objects of the claim as a user would write them, without the fields that the
// cluster and controllers add.
func composedOf(t *testing.T, s *framework.Server) []*unstructured.Unstructured {
	t.Helper()
	all := []*unstructured.Unstructured{
		framework.NewObject("v1", "Secret", s.Namespace, s.Name+"-root"),
		framework.NewObject("v1", "Secret", s.Namespace, s.Name+"-tls"), // The controller creates it, and every pod needs it.
		framework.NewObject("v1", "ConfigMap", s.Namespace, s.Name+"-config"),
		framework.NewObject("v1", "PersistentVolumeClaim", s.Namespace, s.DataPVC()),
		framework.NewObject("v1", "Service", s.Namespace, s.Name),
		framework.NewObject("apps/v1", "Deployment", s.Namespace, s.Name),
	}
	for _, o := range all {
		if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if o.GetName() == s.Name+"-root" { // The function removes that key after the first login.
			if err := unstructured.SetNestedField(o.Object, "", "data", "initialize"); err != nil {
				t.Fatal(err)
			}
		}
		o.Object["metadata"] = map[string]any{"name": o.GetName()}
		delete(o.Object, "status")
		for _, field := range []string{"clusterIP", "clusterIPs", "volumeName"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
	}
	return all
}
