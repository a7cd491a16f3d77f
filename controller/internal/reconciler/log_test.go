package reconciler

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// logInto returns a context whose logger appends to lines.
func logInto(t *testing.T, verbosity int, lines *[]string) context.Context {
	t.Helper()
	return log.IntoContext(t.Context(),
		funcr.New(func(_, line string) { *lines = append(*lines, line) }, funcr.Options{Verbosity: verbosity}))
}

// TestWritesAreLogged checks that each write is logged with its verb and object, but without the written content.
func TestWritesAreLogged(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
		Data: map[string][]byte{"password": []byte("correct horse")}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	for verbosity, want := range [][]string{nil, {
		"Create Secret  shop/orders null", "Create Secret  shop/orders secrets \\\"orders\\\" already exists",
		"Update Secret  shop/orders null",
		"Patch Deployment  shop/orders null", "Patch Deployment status shop/orders null",
		"Update Deployment scale shop/orders null", "Delete Secret  shop/orders null",
	}} {
		var lines []string
		ctx := logInto(t, verbosity, &lines)
		c := loggedClient{fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(deployment.DeepCopy()).
			WithStatusSubresource(deployment).Build()}
		s, d := secret.DeepCopy(), deployment.DeepCopy()
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
		for i, err := range []error{
			c.Create(ctx, s), client.IgnoreAlreadyExists(c.Create(ctx, secret.DeepCopy())), c.Update(ctx, s),
			c.Patch(ctx, d, client.MergeFrom(deployment)), c.Status().Patch(ctx, d, client.MergeFrom(deployment)),
			c.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale)), c.Delete(ctx, s),
		} {
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		form := regexp.MustCompile(
			`"level"=1 "msg"="Wrote to the API server" "verb"="(\w+)" "kind"="(\w+)" "subresource"="(\w*)" "namespace"="(\w+)" "name"="(\w+)" "took"="\S+" "error"="?(.*?)"?$`)
		got := make([]string, 0, len(want))
		for _, line := range lines {
			if strings.Contains(line, "correct horse") {
				t.Errorf("a password is in the log: %s", line)
			}
			got = append(got, form.ReplaceAllString(line, "$1 $2 $3 $4/$5 $6"))
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("with verbosity %d: -want, +got:\n%s", verbosity, diff)
		}
	}
}

// TestReadsAreLogged checks that one log line reports the number of reads of a reconcile.
func TestReadsAreLogged(t *testing.T) {
	var lines []string
	ctx := logInto(t, 1, &lines)
	r := countedReader{fake.NewClientBuilder().WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "b"}}).Build()}
	_, err := logReads(ctx, func(ctx context.Context) (int, error) {
		if err := r.Get(ctx, client.ObjectKey{Name: "c"}, &corev1.Secret{}); err == nil {
			t.Error("want no such Secret")
		}
		if err := r.Get(ctx, client.ObjectKey{Name: "a"}, &corev1.Secret{}); err != nil {
			return 0, err
		}
		return 0, r.List(ctx, &corev1.SecretList{})
	})
	if err != nil || len(lines) != 1 ||
		!strings.Contains(lines[0], `"level"=1 "msg"="Read the state of the instance" "requests"=3 "objects"=3 "took"=`) {
		t.Errorf("want one line, got %v, %q", err, lines)
	}
}

// TestChangesAreLogged checks that each change of an instance's state is logged once.
func TestChangesAreLogged(t *testing.T) {
	var lines []string
	ctx := logInto(t, 0, &lines)
	k := instance.Key{Kind: "MySQL", Namespace: "shop", Name: "orders"}
	s := livingDatabase(k)
	r := &instanceReconciler{
		turns: newTurns(1), gather: gatherFn(func() ([]*instance.State, error) { return []*instance.State{s}, nil }),
		writer: &entryWriter{},
		events: events.NewFakeRecorder(100), meter: newMeter(prometheus.NewRegistry()),
		reported: map[instance.Key]map[types.UID]lastReported{},
	}
	var got []string
	for i, started := range []bool{false, false, true, true} {
		s.XR.Status.Started = started
		if _, _, err := r.runPass(ctx, k); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if rest, found := strings.CutPrefix(line, `"level"=0 "msg"="The instance changed state" `); found {
				got = append(got, fmt.Sprint(i, " ", rest))
			}
		}
		lines = nil
	}
	if diff := cmp.Diff([]string{`0 "from"="" "to"="Waiting"`, `2 "from"="Waiting" "to"="Running"`}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
