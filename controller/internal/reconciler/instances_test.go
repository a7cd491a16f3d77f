package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

var errBoom = errors.New("boom")

type gatherFn func() ([]*instance.State, error)

func (f gatherFn) Gather(context.Context, instance.Key) ([]*instance.State, error) { return f() }

// An entryWriter records changes instead of writing them.
type entryWriter struct {
	wrote []string
	err   error
	after func()
}

func (w *entryWriter) Apply(_ context.Context, changes []change.Change) error {
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		w.wrote = append(w.wrote, string(c.Verb)+" "+c.Object.GetName())
	}
	if w.after != nil {
		w.after()
	}
	return w.err
}

// claimOf returns a claim that is being deleted, with or without the controller's finalizer.
func claimOf(finalizers ...string) *instance.Composite {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetName("db")
	u.SetFinalizers(finalizers)
	u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	return &instance.Composite{Unstructured: u}
}

func TestReconcile(t *testing.T) {
	conflict := kerrors.NewConflict(schema.GroupResource{}, "db", errBoom)
	cases := map[string]struct {
		reason    string
		instances []*instance.State
		err       error
		werr      error
		want      reconcile.Result
		fails     error
		wrote     []string
	}{
		"Quiet":  {reason: "There is nothing to do, so the instance must not be reconciled again.", instances: []*instance.State{{}}},
		"Gather": {reason: "A read error must be returned, so that the read is retried without any write.", err: errBoom, fails: errBoom},
		"Acts": {reason: "The state must be read again after each step, until there is nothing to do.",
			instances: []*instance.State{instance.NewState(instance.Subject{Claim: claimOf(v1.Finalizer)})},
			wrote:     []string{"Patch db"}},
		"Conflict": {reason: "Another client changed the object first, which is not an error.",
			instances: []*instance.State{instance.NewState(instance.Subject{Claim: claimOf(v1.Finalizer)})}, werr: conflict,
			want: reconcile.Result{RequeueAfter: settle}, wrote: []string{"Patch db"}},
		"Write": {reason: "An error of a write must be returned, so that the step is retried with an increasing delay.",
			instances: []*instance.State{instance.NewState(instance.Subject{Claim: claimOf(v1.Finalizer)})}, werr: errBoom,
			fails: errBoom,
			wrote: []string{"Patch db"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := &entryWriter{err: tc.werr}
			w.after = func() { tc.instances[0].Claim.SetFinalizers(nil) }
			r := &instanceReconciler{
				turns:  newTurns(1),
				gather: gatherFn(func() ([]*instance.State, error) { return tc.instances, tc.err }), writer: w,
				events: events.NewFakeRecorder(10), meter: newMeter(prometheus.NewRegistry()),
				reported: map[instance.Key]map[types.UID]lastReported{},
			}
			got, err := r.Reconcile(context.Background(), instance.Key{Name: "db"})
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.fails) || (err != nil) != (tc.fails != nil) {
				t.Errorf("%s\nerror %v\n-want, +got:\n%s", tc.reason, err, diff)
			}
			if diff := cmp.Diff(tc.wrote, w.wrote, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestSooner checks that the shortest delay of several instances or BackupRecords is used. An instance that needs no
// reconcile does not affect the delay of another one.
func TestSooner(t *testing.T) {
	for _, tc := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}} {
		if got := sooner(tc.a, tc.b); got != tc.want {
			t.Errorf("of %d and %d: want %d, got %d", tc.a, tc.b, tc.want, got)
		}
	}
}

// TestPace checks that a long wait increases the interval between reconciles, and that progress resets it.
func TestPace(t *testing.T) {
	r := &instanceReconciler{reported: map[instance.Key]map[types.UID]lastReported{}}
	k, began := instance.Key{Name: "db"}, time.Unix(1000, 0)
	stops, backsUp := steps.Step{Action: steps.Wait, Phase: v1.DeletionStopping}, steps.Step{Action: steps.Wait,
		Phase: v1.DeletionBackingUp}
	for i, tc := range []struct {
		elapsed time.Duration
		step    steps.Step
		want    time.Duration
	}{
		{0, stops, time.Second},
		{2 * time.Second, stops, time.Second},
		{8 * time.Second, stops, 2 * time.Second},
		{time.Hour, stops, slowest},
		{time.Hour, backsUp, time.Second},
		{time.Hour + 20*time.Second, backsUp, 5 * time.Second},
		{time.Hour + 30*time.Second, steps.Step{Action: steps.CreateBackupJob}, time.Second},
		{time.Hour + 31*time.Second, backsUp, time.Second},
	} {
		s := instance.NewState(instance.Subject{Instance: k.Instance("uid"), ReadAt: began.Add(tc.elapsed)})
		if got := pace(time.Second, r.recordWait(k, s, tc.step), r.crowdOf("")); got != tc.want {
			t.Errorf("look %d: want a pause of %v, got %v", i, tc.want, got)
		}
	}
	r.recordWait(k, instance.NewState(instance.Subject{Instance: k.Instance("another"), ReadAt: began}), stops)
	if len(r.reported[k]) != 2 {
		t.Errorf("want two lives known, got %v", r.reported[k])
	}
	if r.recordWait(instance.Key{Name: "other"}, &instance.State{}, steps.Step{Action: steps.NoOp}); len(r.reported) != 1 {
		t.Errorf("want nothing kept of what does not wait, got %v", r.reported)
	}
}

// TestRecordCrossplane checks how long this process has seen Crossplane keep its finalizer on an XR. A pause resets the
// duration, but writes do not.
func TestRecordCrossplane(t *testing.T) {
	r := &instanceReconciler{events: events.NewFakeRecorder(100), reported: map[instance.Key]map[types.UID]lastReported{}}
	k, began := instance.Key{Namespace: "default", Name: "db"}, time.Unix(100000, 0)
	for i, tc := range []struct {
		elapsed time.Duration
		held    bool
		paused  bool
		want    time.Duration
	}{
		{0, true, false, 0},
		{time.Minute, true, false, time.Minute},
		{2 * time.Minute, true, true, 0},
		{3 * time.Minute, true, false, 0},
		{9 * time.Minute, true, false, 6 * time.Minute},
		{10 * time.Minute, false, false, 0},
		{11 * time.Minute, true, false, 0},
	} {
		u := &unstructured.Unstructured{}
		u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		if tc.held {
			u.SetFinalizers([]string{instance.FinalizerCrossplane})
		}
		if tc.paused {
			u.SetAnnotations(map[string]string{instance.AnnotationPaused: "true"})
		}
		s := instance.NewState(instance.Subject{Instance: k.Instance("uid"), ReadAt: began.Add(tc.elapsed),
			XR: &instance.Composite{Unstructured: u}})
		if got := r.recordCrossplane(k, s); got != tc.want {
			t.Errorf("look %d: want %v, got %v", i, tc.want, got)
		}
		// These calls must not reset the duration.
		r.announceStep(t.Context(), k, s,
			steps.Step{Action: steps.Wait, Phase: v1.DeletionStopping, Message: tc.elapsed.String()})
		r.recordWait(k, s, steps.Step{Action: steps.Wait, Phase: v1.DeletionStopping})
	}
	s := instance.NewState(instance.Subject{Instance: k.Instance("another"), ReadAt: began,
		XR: &instance.Composite{Unstructured: &unstructured.Unstructured{}}})
	if got := r.recordCrossplane(k, s); got != 0 || len(r.reported[k]) != 1 {
		t.Errorf("want nothing kept of what nobody holds, got %v and %v", got, r.reported[k])
	}
}

// TestCrowd checks that 200 waiting instances of one namespace together cause two reconciles per second. Instances of
// another namespace keep their interval. An instance that no longer waits is not counted.
func TestCrowd(t *testing.T) {
	const crowd = 200
	r := &instanceReconciler{reported: map[instance.Key]map[types.UID]lastReported{}}
	wait := steps.Step{Action: steps.Wait, Phase: v1.DeletionBackingUp}
	entry := func(namespace, name string, step steps.Step) {
		k := instance.Key{Namespace: namespace, Name: name}
		r.recordWait(k, instance.NewState(instance.Subject{Instance: k.Instance("uid"), ReadAt: time.Unix(1000, 0)}), step)
	}
	for i := range crowd - 1 {
		entry("hostile", strconv.Itoa(i), wait)
	}
	refused := instance.Key{Namespace: "hostile", Name: "refused"}
	r.recordRefusal(refused, instance.NewState(instance.Subject{Instance: refused.Instance("uid")}),
		&instance.Refusal{Message: "exceeded quota"})
	entry("good", "db", wait)
	for namespace, want := range map[string]time.Duration{"hostile": crowd * time.Second / 2, "good": time.Second,
		"empty": time.Second} {
		if got := pace(time.Second, 0, r.crowdOf(namespace)); got != want {
			t.Errorf("%s: want a pause of %v, got %v", namespace, want, got)
		}
	}
	for i := range crowd - 1 {
		entry("hostile", strconv.Itoa(i), steps.Step{Action: steps.CreateBackupJob})
	}
	if got := r.crowdOf("hostile"); got != 1 {
		t.Errorf("want one left that waits, got %d", got)
	}
}

// TestTurnsOfInstances checks that a namespace whose reconciles never finish uses two of ten workers. An instance of
// another namespace must get a worker at once.
func TestTurnsOfInstances(t *testing.T) {
	release, entered, waiting := make(chan struct{}), make(chan string, 100), make(chan struct{}, 10)
	r := &instanceReconciler{turns: newTurns(10), reported: map[instance.Key]map[types.UID]lastReported{},
		meter: newMeter(prometheus.NewRegistry())}
	r.gather = gatherOf(func(k instance.Key) {
		entered <- k.Namespace
		if k.Namespace == "hostile" {
			<-release
		}
	})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			got, err := r.Reconcile(t.Context(), instance.Key{Namespace: "hostile", Name: strconv.Itoa(i)})
			if err != nil {
				t.Error(err)
			} else if got.RequeueAfter == nextTurn {
				waiting <- struct{}{}
			}
		})
	}
	for range 8 {
		<-waiting
	}
	if got, err := r.Reconcile(t.Context(), instance.Key{Namespace: "good", Name: "db"}); err != nil ||
		got.RequeueAfter != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	close(release)
	all.Wait()
	close(entered)
	namespaces := map[string]int{}
	for n := range entered {
		namespaces[n]++
	}
	if diff := cmp.Diff(map[string]int{"hostile": 2, "good": 1}, namespaces); diff != "" || len(r.turns.busy) > 0 {
		t.Errorf("%d turns were not given back; looked after: -want, +got:\n%s", len(r.turns.busy), diff)
	}
}

// A gatherOf is a gatherer that calls a function with the key, and returns no instances.
type gatherOf func(k instance.Key)

func (f gatherOf) Gather(_ context.Context, k instance.Key) ([]*instance.State, error) {
	f(k)
	return nil, nil
}

// TestRefusalBy checks that users see the refusal of a store or a server in the same way as the refusal of a quota.
// Temporary errors of the API server are not shown.
func TestRefusalBy(t *testing.T) {
	step := steps.Step{Action: steps.RecordBackup}
	refusal := func(r instance.Refusal) *instance.Refusal { r.Of = string(step.Action); return &r }
	down := errors.New("down")
	for name, tc := range map[string]struct {
		err  error
		want *instance.Refusal
	}{
		"Quota": {kerrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", down),
			refusal(instance.Refusal{Message: `Publish: pods "a" is forbidden: down`})},
		"Server": {change.NewServerError(down, false), refusal(instance.Refusal{Message: "down", Passing: true})},
		"Final":  {change.NewServerError(down, true), refusal(instance.Refusal{Message: "down"})},
		"Missing": {change.NewServerError(change.NewMissingError(down), false),
			refusal(instance.Refusal{Message: "down", Missing: true})},
		"API":     {kerrors.NewServiceUnavailable("down"), nil},
		"Unknown": {down, nil},
		"None":    {nil, nil},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("Publish: %w", err)
		}
		if diff := cmp.Diff(tc.want, refusalBy(err, step)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
	}
}

// TestRefusedInOtherWords checks a webhook whose refusal contains the request ID. The step is retried after a delay,
// and not in the same reconcile.
func TestRefusedInOtherWords(t *testing.T) {
	for name, words := range map[string]string{"Digits": "request 4f%02d1c-a9 denied", "Letters": "request %c denied"} {
		asked, letter := 0, 'a'
		w := refusingWriter(func() error {
			asked++
			letter++
			n := any(asked)
			if name == "Letters" {
				n = letter
			}
			return kerrors.NewForbidden(schema.GroupResource{Resource: "mysqls"}, "db", fmt.Errorf(words, n))
		})
		k := instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"}
		r := &instanceReconciler{
			gather: gatherFn(func() ([]*instance.State, error) {
				return []*instance.State{instance.NewState(instance.Subject{Instance: k.Instance(""), Claim: claimOf(v1.Finalizer)})}, nil
			}), writer: w,
			events: events.NewFakeRecorder(100), meter: newMeter(prometheus.NewRegistry()), turns: newTurns(10),
			reported: map[instance.Key]map[types.UID]lastReported{},
		}
		got, err := r.Reconcile(t.Context(), k)
		if err != nil || asked > 3 || got.RequeueAfter < whileRefused {
			t.Errorf("%s: asked %d times, %v, %v", name, asked, got, err)
		}
	}
}

// A refusingWriter returns the error of a function for each write.
type refusingWriter func() error

// Apply calls the function.
func (w refusingWriter) Apply(context.Context, []change.Change) error { return w() }

// TestSteady checks that a refusal which differs only in numbers is treated as the same.
func TestSteady(t *testing.T) {
	refusal := func(message string, passing bool) *instance.Refusal {
		return &instance.Refusal{Of: "RecordBackup", Message: message, Passing: passing}
	}
	first := refusal("write tcp 10.0.0.7:53122: reset", true)
	if got := steady(refusal("write tcp 10.0.0.7:53124: reset", true), first); got != first {
		t.Errorf("another port is news: %+v", got)
	}
	webhook := refusal("denied by policy, request 4f1c-a9", false)
	if got := steady(refusal("denied by policy, request 77e0-b2", false), webhook); got != webhook {
		t.Errorf("another request is news: %+v", got)
	}
	for name, now := range map[string]*instance.Refusal{
		"None": nil, "Words": refusal("do not permit this request", true), "Quota": refusal("write tcp 10.0.0.7:53124: reset", false),
		"Action": {Of: "GiveAccess", Message: first.Message, Passing: true},
	} {
		if got := steady(now, first); got != now {
			t.Errorf("%s: it is passed over: %+v", name, got)
		}
	}
}

// TestRefused checks that the next state contains a refusal by a quota, and that the step is retried later. When the
// step succeeds, the refusal must be removed.
func TestRefused(t *testing.T) {
	quota := kerrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "backup-db-pvc",
		errors.New("exceeded quota"))
	var saw []*instance.Refusal
	w := &entryWriter{err: fmt.Errorf("Patch of MySQL: %w", quota)}
	r := &instanceReconciler{turns: newTurns(1), writer: w, events: events.NewFakeRecorder(10),
		meter: newMeter(prometheus.NewRegistry()), reported: map[instance.Key]map[types.UID]lastReported{}}
	var last *instance.State
	r.gather = gatherFn(func() ([]*instance.State, error) {
		if last != nil {
			saw = append(saw, last.Refusal)
		}
		last = instance.NewState(instance.Subject{Claim: claimOf(v1.Finalizer)})
		if w.err == nil && len(saw) > 2 {
			last.Claim.SetFinalizers(nil)
		}
		return []*instance.State{last}, nil
	})
	got, err := r.Reconcile(t.Context(), instance.Key{Name: "db"})
	if err != nil || got.RequeueAfter != whileRefused || len(w.wrote) != 2 {
		t.Errorf("want a second look, and another in a while, got %v after %d writes, %v", got.RequeueAfter, len(w.wrote),
			err)
	}
	want := &instance.Refusal{Of: string(steps.RemoveClaimFinalizer),
		Message: `Patch of MySQL: persistentvolumeclaims "backup-db-pvc" is forbidden: exceeded quota`}
	if diff := cmp.Diff([]*instance.Refusal{nil, want}, append(saw, last.Refusal)); diff != "" {
		t.Errorf("what the looks knew: -want, +got:\n%s", diff)
	}
	w.err = nil
	if _, err := r.Reconcile(t.Context(), instance.Key{Name: "db"}); err != nil || last.Refusal != nil {
		t.Errorf("want nothing left of it, got %v, %v", last.Refusal, err)
	}
}

// TestReconcileEnds checks that a reconcile terminates even if another client reverts each step.
func TestReconcileEnds(t *testing.T) {
	w := &entryWriter{}
	r := &instanceReconciler{
		turns: newTurns(1),
		gather: gatherFn(func() ([]*instance.State, error) {
			return []*instance.State{instance.NewState(instance.Subject{Claim: claimOf(v1.Finalizer)})}, nil
		}), writer: w,
		events: events.NewFakeRecorder(100), meter: newMeter(prometheus.NewRegistry()),
		reported: map[instance.Key]map[types.UID]lastReported{},
	}
	if _, err := r.Reconcile(context.Background(), instance.Key{}); err == nil || len(w.wrote) != maxSteps {
		t.Errorf("%d writes, %v", len(w.wrote), err)
	}
	if n := len(r.events.(*events.FakeRecorder).Events); n != 1 {
		t.Errorf("the same event %d times", n)
	}
}

// TestSay checks that each event is sent once, regardless of the number of steps and instances.
func TestSay(t *testing.T) {
	k := instance.Key{Name: "db"}
	instances := []*instance.State{
		instance.NewState(instance.Subject{Claim: claimOf(), Instance: k.Instance("one")}),
		instance.NewState(instance.Subject{Claim: claimOf(), Instance: k.Instance("two")}),
	}
	heard := events.NewFakeRecorder(10)
	r := &instanceReconciler{events: heard, reported: map[instance.Key]map[types.UID]lastReported{}}
	for _, step := range []steps.Step{
		{Action: steps.CreateBackupJob, Phase: v1.DeletionBackingUp, Message: "Backing up the data"},
		{Action: steps.MarkRunning, Phase: v1.DeletionBackingUp, Message: "Backing up the data"},
		{Action: steps.Wait, Phase: v1.DeletionBlocked, Message: "It waits"},
		{Action: steps.Wait, Phase: v1.DeletionBlocked, Message: "It waits"},
		{Action: steps.NoOp},
		{Action: steps.MarkRunning, Phase: v1.DeletionBackingUp, Message: "It goes on"},
		{Action: steps.RecordBackup, Phase: v1.DeletionBackingUp, Message: "It is whole"},
		{Action: steps.MarkVerified, Phase: v1.DeletionBackingUp, Message: "It is whole"},
	} {
		for _, s := range instances {
			r.announceStep(t.Context(), k, s, step)
		}
	}
	close(heard.Events)
	got := []string{}
	for e := range heard.Events {
		got = append(got, e)
	}
	want := []string{"Normal BackupStarted Backing up the data", "Normal BackupStarted Backing up the data",
		"Warning DeletionBlocked It waits", "Warning DeletionBlocked It waits",
		"Normal BackupStarted It goes on", "Normal BackupStarted It goes on", "Normal BackupVerified It is whole",
		"Normal BackupVerified It is whole"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if r.forgetInstances(k, nil); len(r.reported) != 0 {
		t.Errorf("what was said of lives that are over is kept: %v", r.reported)
	}
}
