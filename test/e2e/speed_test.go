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
)

// speedRounds is how often everything is measured; the middle one counts. One more, before them, fetches the images.
const speedRounds = 3

// A span is one of the things that people wait for, as it was measured.
type span struct {
	what, target string
	seconds      []float64
}

func (s *span) add(d time.Duration) { s.seconds = append(s.seconds, d.Seconds()) }

// middle of the rounds that count.
func (s *span) middle() float64 {
	counted := slices.Sorted(slices.Values(s.seconds[1:]))
	return counted[len(counted)/2]
}

// spans of a claim's life, and of the same objects without one.
type spans struct {
	first, hand, change, end, again span
}

// TestSpeed measures what people wait for. It asserts nothing: the machine's load is in all of it.
func TestSpeed(t *testing.T) {
	all := &spans{
		first:  span{what: "claim applied, to the first query"},
		hand:   span{what: "the same objects applied by hand"},
		change: span{what: "password in the claim, to its first login", target: "< 1"},
		end:    span{what: "claim deleted, with a proved backup, to gone", target: "< 20"},
		again:  span{what: "claim applied again, to the first restored row"},
	}
	for range 1 + speedRounds {
		var composed []*unstructured.Unstructured
		if !t.Run("claim", func(t *testing.T) { composed = all.life(t) }) || !t.Run("hand", func(t *testing.T) { all.byHand(t, composed) }) {
			return
		}
	}
	all.print()
}

func (a *spans) print() {
	a.first.target = fmt.Sprintf("%.2f times by hand, <= 1.3", a.first.middle()/a.hand.middle())
	fmt.Printf("\n%-48s %8s  %s\n", fmt.Sprintf("the middle of %d", speedRounds), "seconds", "target")
	for _, s := range []span{a.first, a.hand, a.change, a.end, a.again} {
		fmt.Printf("%-48s %8.2f  %-26s %.2f\n", s.what, s.middle(), s.target, s.seconds[1:])
	}
}

// life of one claim; it returns what was composed for it.
func (a *spans) life(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	s := newServer(t, "mysql")
	a.first.add(s.wait(t, s.password, "SELECT 1", func() { s.create(t) }))
	eventually(t, "the claim", func(ctx context.Context) error { return condition(ctx, s.claim, "Ready") })
	composed := s.composed(t)
	s.session(t)
	s.settled(t)
	next := "another-" + s.password
	a.change.add(s.wait(t, next, "SELECT 1", func() { s.setPassword(t, next) }))
	started := time.Now()
	if err := suite.kube.Delete(t.Context(), s.claim); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim's end", func(ctx context.Context) error { return gone(ctx, s.claim) })
	a.end.add(time.Since(started))
	a.again.add(s.wait(t, s.password, rows, func() { s.create(t) }))
	return composed
}

// byHand applies the same objects, as somebody would who needs no backup.
func (a *spans) byHand(t *testing.T, composed []*unstructured.Unstructured) {
	t.Helper()
	ns := namespace(t)
	pod(t, ns, "client", "")
	claim := objects(t, "examples/original-claim/claim.yaml", ns)[0]
	s := &server{namespace: ns, name: claim.GetName()}
	s.database, _, _ = unstructured.NestedString(claim.Object, "spec", "database")
	s.password, _, _ = unstructured.NestedString(claim.Object, "spec", "password")
	a.hand.add(s.wait(t, s.password, "SELECT 1", func() {
		for _, o := range composed {
			o.SetNamespace(ns)
			if err := suite.kube.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}))
}

// loop is a client that tries until it succeeds. Its options come in by the standard input.
const loop = `umask 077; cat >/tmp/options; until mysql --defaults-file=/tmp/options --connect-timeout=1 --execute="$1" "$2" 2>/tmp/error; do sleep 0.05; done`

// wait from an act to a client's first success. The client is at it in its pod before that.
func (s *server) wait(t *testing.T, password, statement string, act func()) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	options := fmt.Sprintf("[client]\nhost=%s\nuser=root\npassword=\"%s\"\n", s.name, quoted)
	ended := make(chan error, 1)
	go func() {
		_, err := in(ctx, s.namespace, "client", options, "sh", "-c", loop, "sh", statement, s.database)
		ended <- err
	}()
	eventually(t, "the client's first try", func(ctx context.Context) error {
		_, err := in(ctx, s.namespace, "client", "", "grep", "-q", "ERROR", "/tmp/error")
		return err
	})
	started := time.Now()
	act()
	if err := <-ended; err != nil {
		t.Fatalf("the client: %v; the claim says %s", err, s.said(t))
	}
	took := time.Since(started)
	if _, err := in(t.Context(), s.namespace, "client", "", "rm", "/tmp/error"); err != nil {
		t.Fatal(err)
	}
	return took
}

func (s *server) said(t *testing.T) string {
	t.Helper()
	if s.claim == nil {
		return "nothing: there is none"
	}
	return s.message(context.WithoutCancel(t.Context()))
}

func (s *server) setPassword(t *testing.T, password string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"password":%q}}`, password))
	if err := suite.kube.Patch(t.Context(), s.claim, patch); err != nil {
		t.Fatal(err)
	}
}

// settled waits until nothing is left to do for the password.
func (s *server) settled(t *testing.T) {
	t.Helper()
	eventually(t, "the credentials", func(ctx context.Context) error {
		if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(s.claim), s.claim); err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(s.claim.Object, "status", "credentials", "state"); state != "InSync" {
			return fmt.Errorf("they are %q", state)
		}
		return nil
	})
}

// composed objects as somebody would write them: without what clusters and controllers add.
func (s *server) composed(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	all := []*unstructured.Unstructured{
		object("v1", "Secret", s.namespace, s.name+"-root"),
		object("v1", "ConfigMap", s.namespace, s.name+"-config"),
		object("v1", "PersistentVolumeClaim", s.namespace, s.name+"-pvc"),
		object("v1", "Service", s.namespace, s.name),
		object("apps/v1", "Deployment", s.namespace, s.name),
	}
	for _, o := range all {
		if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		o.Object["metadata"] = map[string]any{"name": o.GetName()}
		delete(o.Object, "status")
		for _, field := range []string{"clusterIP", "clusterIPs", "volumeName"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
	}
	return all
}
