package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/hostile"
)

func TestPause(t *testing.T) {
	cases := map[string]struct {
		reason   string
		times    int
		duration time.Duration
		start    string
		want     time.Duration
	}{
		"Once":     {reason: "After the first failure, the delay must be short.", times: 1, start: "a", want: 2 * time.Second},
		"Twice":    {reason: "After the second failure, the delay must be doubled.", times: 2, start: "a", want: 4 * time.Second},
		"Often":    {reason: "After eight failures, the delay must be several minutes.", times: 8, start: "a", want: 256 * time.Second},
		"TooOften": {reason: "The delay must not exceed its maximum.", times: 1000, start: "a", want: 5 * time.Minute},
		"Slow": {reason: "A slow but successful server must use at most a quarter of a worker.", duration: 6 * time.Second, start: "a",
			want: 18 * time.Second},
		"Slowest": {reason: "The delay of a slow server must not exceed the delay of a server that does not respond.",
			duration: time.Hour, start: "b",
			want: 5 * time.Minute},
		"StartedOnce": {reason: "A restart of the server must not increase the delay.", times: 1, start: "b", want: 2 * time.Second},
		"StartedOften": {reason: "A restart may have fixed the server, so the delay must be reduced.",
			times: 20, start: "b", want: 30 * time.Second},
		"StartedForEver": {reason: "Frequent restarts by a malicious user must not remove the delay.", times: 1000, start: "b",
			want: 30 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, k, now := newStrains(), instance.Key{Namespace: "shop", Name: "db"}, time.Unix(0, 0)
			for range tc.times {
				s.recordStrain(k, "a", now, rotate.Result{Strained: true})
			}
			if tc.times == 0 {
				s.recordStrain(k, "a", now, rotate.Result{Well: true, Slow: tc.duration})
			}
			if got, _ := s.pauseOf(k, tc.start, now); got != tc.want {
				t.Errorf("%s Got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// livingDatabase returns a Database without a volume whose server accepts clients.
func livingDatabase(k instance.Key) *instance.State {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetName(k.Name + "-x")
	u.SetUID(types.UID(k.Name))
	xr := &instance.Composite{Unstructured: u, Type: v1.TypeMySQL}
	xr.Spec.Password = new("correct horse")
	xr.Conditions = []metav1.Condition{{Type: v1.ConditionServing, Status: metav1.ConditionTrue}}
	xr.Status.Certified = true
	publish(&xr.Status, aPlan())
	return instance.NewState(instance.Subject{Instance: k.Instance(u.GetUID()), XR: xr})
}

// A gatherLiving returns a livingDatabase for each key.
type gatherLiving struct{}

func (gatherLiving) GatherXRs(_ context.Context, k instance.Key) ([]*instance.State, error) {
	return []*instance.State{livingDatabase(k)}, nil
}

func (gatherLiving) ReadData(context.Context, *instance.State) error { return nil }

// newCredentials returns a reconciler with a clock and a fake API server that contains only the Platform object.
func newCredentials(t *testing.T, r rotator, clock func() time.Time) *passwordReconciler {
	t.Helper()
	kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).
		WithObjects(&v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName}}).Build()
	patched := interceptor.NewClient(kube, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
			...client.SubResourcePatchOption) error {
			return nil
		},
	})
	return &passwordReconciler{
		gather: gatherLiving{}, reader: kube, writer: change.Writer{Client: patched}, rotator: r,
		certifier: keeperOf{aPlan()}, events: events.NewFakeRecorder(100),
		clock: clock, meter: newMeter(prometheus.NewRegistry()), asked: map[instance.Key]asking{}, turns: newTurns(10),
		strains: newStrains(), retries: newRetries(),
	}
}

// A rotatorFn is a rotator that calls a function.
type rotatorFn func(in rotate.Input) rotate.Result

func (rotatorFn) ForgetInstance(v1.Instance, []types.UID) {}

func (f rotatorFn) Reconcile(_ context.Context, in rotate.Input) (rotate.Result, error) {
	return f(in), nil
}

// TestTurns checks that ten servers which never respond use two of ten workers, and that an instance of another
// namespace gets a worker at once.
func TestTurns(t *testing.T) {
	release, entered := make(chan struct{}), make(chan string, 100)
	c := newCredentials(t, rotatorFn(func(in rotate.Input) rotate.Result {
		entered <- in.Instance.Namespace
		if in.Instance.Namespace == "hostile" {
			<-release
		}
		return rotate.Result{}
	}), time.Now)
	var all sync.WaitGroup
	waiting := make(chan string, 10)
	for i := range 10 {
		all.Go(func() {
			k := instance.Key{Kind: v1.KindDatabase, Namespace: "hostile", Name: fmt.Sprintf("db-%d", i)}
			if r, err := c.Reconcile(t.Context(), k); err != nil {
				t.Error(err)
			} else if r.RequeueAfter == nextTurn {
				waiting <- k.Name
			}
		})
	}
	for range 2 {
		<-entered
	}
	for range 8 { // The others get no worker.
		<-waiting
	}
	if _, err := c.Reconcile(t.Context(),
		instance.Key{Kind: v1.KindDatabase, Namespace: "good", Name: "good"}); err != nil {
		t.Error(err)
	}
	if got := <-entered; got != "good" || len(entered) > 0 {
		t.Errorf("%s has its turn, and %d more", got, len(entered))
	}
	close(release)
	all.Wait()
	if len(c.turns.busy) > 0 {
		t.Errorf("turns that nobody gave back: %v", c.turns.busy)
	}
	for n, want := range map[int]int{1: 1, 3: 1, 10: 2, 40: 10} {
		if got := newTurns(n).most; got != want {
			t.Errorf("of %d workers a namespace has %d, want %d", n, got, want)
		}
	}
}

// TestBackOff checks that a hostile server is contacted less and less often, regardless of events of its instance,
// and that its status is printable.
func TestBackOff(t *testing.T) {
	want := []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for _, trick := range hostile.Tricks() {
		if slices.Contains([]string{"silent", "drip", "dreamer", "unprintable", "echo"}, trick.Name) {
			continue // These servers are only slow, or send text that is allowed.
		}
		t.Run(trick.Name, func(t *testing.T) {
			dials := 0
			now := time.Unix(1, 0)
			r := &rotate.Rotator{Kube: fake.NewClientBuilder().Build(),
				Dial: func(context.Context, string, string) (net.Conn, error) {
					dials++
					client, server := net.Pipe()
					go hostile.Server{Trick: trick}.Play(server)
					return client, nil
				}}
			spy := &rotatorSpy{rotator: r}
			c := newCredentials(t, spy, func() time.Time { return now })
			k := instance.Key{Kind: v1.KindDatabase, Namespace: "hostile", Name: "db"}
			got := make([]time.Duration, 0, len(want))
			for range want {
				first, err := c.Reconcile(t.Context(), k)
				before := dials
				second, err2 := c.Reconcile(t.Context(), k) // This call simulates an event.
				if err != nil || err2 != nil || second.RequeueAfter != first.RequeueAfter || dials != before {
					t.Fatalf("%v, %v, %v, %v, %d dials", first, err, second, err2, dials-before)
				}
				got = append(got, first.RequeueAfter/time.Second)
				now = now.Add(first.RequeueAfter)
			}
			if slices.ContainsFunc([]rune(spy.last.Credentials.Message), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("the status says %q", spy.last.Credentials.Message)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the pauses in seconds, -want, +got:\n%s", diff)
			}
		})
	}
}

// TestLeftAlone checks that the rotator gets the last delay of a server until the server responds normally again.
// Another error in between does not change the delay.
func TestLeftAlone(t *testing.T) {
	now := time.Unix(1, 0)
	var got []time.Duration
	var result rotate.Result
	c := newCredentials(t, rotatorFn(func(in rotate.Input) rotate.Result {
		got = append(got, in.LeftAlone)
		return result
	}), func() time.Time { return now })
	k := instance.Key{Kind: v1.KindDatabase, Namespace: "busy", Name: "db"}
	for _, result = range []rotate.Result{{Strained: true}, {}, {Strained: true}, {Well: true, Slow: 6 * time.Second},
		{Well: true}, {}} {
		if _, err := c.Reconcile(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 2 * time.Second, 4 * time.Second, 18 * time.Second, 0},
		got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestRetries checks that the delay after errors keeps doubling while a reconcile waits for a worker, and is reset
// after a success.
func TestRetries(t *testing.T) {
	failing := errors.New("no")
	c := newCredentials(t, nil, time.Now)
	c.turns = newTurns(1)
	k := instance.Key{Kind: v1.KindDatabase, Namespace: "hostile", Name: "db"}
	reconcile := func(turn bool, result error) time.Duration {
		c.rotator = failingRotator{result}
		if !turn {
			c.turns.takeTurn(k.Namespace)
			defer c.turns.giveTurn(k.Namespace)
		}
		// controller-runtime does the same in pkg/internal/controller.
		if _, err := c.Reconcile(t.Context(), k); err != nil {
			return c.retries.When(k)
		}
		c.retries.Forget(k)
		return 0
	}
	got := []time.Duration{reconcile(true, failing), reconcile(false, nil), reconcile(true, failing), reconcile(true, nil),
		reconcile(true, failing)}
	want := []time.Duration{5 * time.Millisecond, 0, 10 * time.Millisecond, 0, 5 * time.Millisecond}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// A failingRotator always returns the same error.
type failingRotator struct{ err error }

func (failingRotator) ForgetInstance(v1.Instance, []types.UID) {}

func (f failingRotator) Reconcile(context.Context, rotate.Input) (rotate.Result, error) {
	return rotate.Result{}, f.err
}

// A rotatorSpy calls another rotator, and stores its last result.
type rotatorSpy struct {
	rotator

	last rotate.Result
}

func (*rotatorSpy) ForgetInstance(v1.Instance, []types.UID) {}

func (s *rotatorSpy) Reconcile(ctx context.Context, in rotate.Input) (rotate.Result, error) {
	var err error
	s.last, err = s.rotator.Reconcile(ctx, in)
	return s.last, err
}
