package change

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// secret with what the tests tell apart: what a change wrote, and what others did.
func secret(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"of": "db"}}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

// set a key.
func set(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
}

// read an object as the API server has it.
func read(t *testing.T, kube client.Client, name string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// data of what is there, by name and key.
func data(t *testing.T, kube client.Client) map[string]string {
	t.Helper()
	l := &corev1.SecretList{}
	if err := kube.List(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range l.Items {
		out[s.Name] = ""
		for k, v := range s.Data {
			out[s.Name+"/"+k] = string(v)
			delete(out, s.Name)
		}
	}
	return out
}

// TestApply: what holds is written, in its order, up to the first that is refused.
func TestApply(t *testing.T) {
	there := secret("a", map[string]string{"k": "was"})
	refused := kerrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "big", errors.New("too big"))
	for name, tc := range map[string]struct {
		reason string
		// read are the changes that are decided on what was read.
		changes func(a *corev1.Secret) []Change
		// meanwhile is what somebody else does before they are written.
		meanwhile func(*testing.T, client.Client)
		want      map[string]string
		refused   func(error) bool
	}{
		"Patch": {reason: "As it was read.", changes: func(a *corev1.Secret) []Change {
			return []Change{PatchObject(a, set("k", "is"))}
		}, want: map[string]string{"a/k": "is"}},
		"PatchLate": {reason: "Somebody wrote it since.", changes: func(a *corev1.Secret) []Change {
			return []Change{PatchObject(a, set("k", "is")), NewObject(secret("b", nil))}
		}, meanwhile: func(t *testing.T, kube client.Client) {
			t.Helper()
			s := read(t, kube, "a")
			set("other", "theirs")(s)
			if err := kube.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}, want: map[string]string{"a/k": "was", "a/other": "theirs"}, refused: kerrors.IsConflict},
		"PatchTwice": {reason: "The second stands on the first, and not on what was read.", changes: func(a *corev1.Secret) []Change {
			return []Change{PatchObject(a, set("k", "is")), PatchObject(a, set("l", "too"))}
		}, want: map[string]string{"a/k": "is", "a/l": "too"}},
		"PatchGone": {reason: "An object that is gone is an error,", changes: func(a *corev1.Secret) []Change {
			return []Change{PatchObject(a, set("k", "is"))}
		}, meanwhile: deletes("a"), want: map[string]string{}, refused: kerrors.IsNotFound},
		"OrGone": {reason: "but where that is as good.", changes: func(a *corev1.Secret) []Change {
			return []Change{PatchObject(a, set("k", "is")).OrGone(), NewObject(secret("b", nil))}
		}, meanwhile: deletes("a"), want: map[string]string{"b": ""}},
		"Create": {reason: "What is made can be changed at once.", changes: func(*corev1.Secret) []Change {
			b := secret("b", map[string]string{"k": "new"})
			return []Change{NewObject(b), PatchObject(b, set("l", "too"))}
		}, want: map[string]string{"a/k": "was", "b/k": "new", "b/l": "too"}},
		"CreateTwice": {reason: "The first is it.", changes: func(*corev1.Secret) []Change {
			return []Change{NewObject(secret("b", map[string]string{"k": "new"})), NewObject(secret("b", map[string]string{"k": "newer"}))}
		}, want: map[string]string{"a/k": "was", "b/k": "new"}},
		"CreateTaken": {reason: "What somebody else made is left to the next look, the rest goes on.", changes: func(a *corev1.Secret) []Change {
			b := secret("b", map[string]string{"k": "new"})
			return []Change{NewObject(b), PatchObject(b, set("l", "too")), PatchObject(a, set("k", "is"))}
		}, meanwhile: creates(secret("b", map[string]string{"k": "theirs"})), want: map[string]string{"a/k": "is", "b/k": "theirs"}},
		"Delete": {reason: "This object.", changes: func(a *corev1.Secret) []Change {
			return []Change{DeleteObject(a, "")}
		}, want: map[string]string{}},
		"DeleteLater": {reason: "And none that has its name by now.", changes: func(a *corev1.Secret) []Change {
			return []Change{DeleteObject(a, "")}
		}, meanwhile: func(t *testing.T, kube client.Client) {
			t.Helper()
			deletes("a")(t, kube)
			later := secret("a", map[string]string{"k": "later"})
			later.UID = "uid-later"
			creates(later)(t, kube)
		}, want: map[string]string{"a/k": "later"}, refused: kerrors.IsConflict},
		"Otherwise": {reason: "What is not taken as it would be, is made otherwise.", changes: func(*corev1.Secret) []Change {
			big, small := NewObject(secret("big", nil)), NewObject(secret("small", nil))
			big.Otherwise = &small
			return []Change{big}
		}, want: map[string]string{"a/k": "was", "small": ""}},
		"Refused": {reason: "Or nothing.", changes: func(a *corev1.Secret) []Change {
			return []Change{NewObject(secret("big", nil)), PatchObject(a, set("k", "is"))}
		}, want: map[string]string{"a/k": "was"}, refused: kerrors.IsForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientBuilder().WithObjects(there.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if o.GetName() == "big" {
						return refused
					}
					return k.Create(ctx, o, opts...)
				},
				// The fake one asks for no UID.
				Delete: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					return deleteAsAsked(ctx, k, o, opts)
				},
			}).Build()
			a := read(t, kube, "a")
			changes := tc.changes(a)
			if tc.meanwhile != nil {
				tc.meanwhile(t, kube)
			}
			err := Writer{Client: kube}.Apply(t.Context(), changes)
			if tc.refused == nil && err != nil || tc.refused != nil && !tc.refused(err) {
				t.Errorf("%s got error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, data(t, kube)); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
			if string(a.Data["k"]) != "was" {
				t.Error("what was read is changed")
			}
		})
	}
}

func deletes(name string) func(*testing.T, client.Client) {
	return func(t *testing.T, kube client.Client) {
		t.Helper()
		if err := kube.Delete(t.Context(), read(t, kube, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func creates(s *corev1.Secret) func(*testing.T, client.Client) {
	return func(t *testing.T, kube client.Client) {
		t.Helper()
		if err := kube.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// deleteAsAsked refuses another object than the one that is meant, as the API server does.
func deleteAsAsked(ctx context.Context, k client.WithWatch, o client.Object, opts []client.DeleteOption) error {
	want := (&client.DeleteOptions{}).ApplyOptions(opts)
	have := &corev1.Secret{}
	if err := k.Get(ctx, client.ObjectKeyFromObject(o), have); err != nil {
		return err
	}
	if p := want.Preconditions; p != nil && p.UID != nil && *p.UID != have.UID {
		return kerrors.NewConflict(schema.GroupResource{Resource: "secrets"}, o.GetName(), fmt.Errorf("the UID is %s", have.UID))
	}
	return k.Delete(ctx, have)
}

// TestPatchOfFields: a status is patched as it was read, or whatever was written since; a UID would not be looked at.
func TestPatchOfFields(t *testing.T) {
	o := secret("a", nil)
	o.ResourceVersion = "7"
	c := PatchStatusFields(o, map[string]any{"message": nil})
	for want, c := range map[string]Change{`{"metadata":{"resourceVersion":"7"},"status":{"message":null}}`: c, `{"status":{"message":null}}`: c.WhoeverWrote()} {
		p, err := c.patch()
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Data(o)
		if err != nil || string(got) != want {
			t.Errorf("want %s, got %s, %v", want, got, err)
		}
	}
}

// TestAddFinalizer: ours comes beside what others have written since, to this object, and to no later one of its name.
func TestAddFinalizer(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		// was is who held it when it was read, and is who does when it is written, since by somebody else or not. Where later is true
		// that is another object.
		was, is      []string
		since, later bool
		want         []string
		refused      bool
	}{
		"AsRead":    {reason: "Nobody wrote.", was: []string{"theirs"}, want: []string{"theirs", "ours"}},
		"Since":     {reason: "Nobody's is lost, and nothing has to be read again.", was: []string{"theirs"}, is: []string{"theirs", "another"}, since: true, want: []string{"theirs", "another", "ours"}},
		"First":     {reason: "There is no list that it could be added to.", want: []string{"ours"}},
		"Overtaken": {reason: "And the list that somebody else has made since is not overwritten.", is: []string{"theirs"}, since: true, want: []string{"theirs"}, refused: true},
		"Later":     {reason: "It was another object.", was: []string{"theirs"}, is: []string{"theirs"}, since: true, later: true, want: []string{"theirs"}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := secret("a", nil)
			o.Finalizers = tc.was
			kube := fake.NewClientBuilder().WithObjects(o).Build()
			c := AddFinalizer(read(t, kube, "a"), "ours")
			if tc.since {
				now := read(t, kube, "a")
				now.Finalizers, now.Labels = tc.is, map[string]string{"written": "since"}
				if tc.later {
					now.UID = "uid-later"
				}
				if err := kube.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			if err := (Writer{Client: kube}).Apply(t.Context(), []Change{c}); (err != nil) != tc.refused {
				t.Errorf("%s Got %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, read(t, kube, "a").Finalizers); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestScale: a Deployment gets the replicas that it is to have, and one that somebody wrote since stays as it is.
func TestScale(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		label    string
		want     int32
		conflict bool
	}{
		"AsRead": {reason: "Nobody was faster.", want: 0},
		"Late":   {reason: "Somebody wrote it since.", label: "theirs", want: 1, conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
			kube := fake.NewClientBuilder().WithObjects(d).Build()
			is := func() *appsv1.Deployment {
				now := &appsv1.Deployment{}
				if err := kube.Get(t.Context(), client.ObjectKeyFromObject(d), now); err != nil {
					t.Fatal(err)
				}
				return now
			}
			read := is()
			if tc.label != "" {
				now := is()
				now.Labels = map[string]string{tc.label: "yes"}
				if err := kube.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			err := Writer{Client: kube}.Apply(t.Context(), []Change{ScaleDeployment(read, 0)})
			if kerrors.IsConflict(err) != tc.conflict || err != nil && !tc.conflict {
				t.Errorf("%s Got %v", tc.reason, err)
			}
			if got := *is().Spec.Replicas; got != tc.want {
				t.Errorf("%s Want %d replicas, got %d", tc.reason, tc.want, got)
			}
		})
	}
}

// A toldStores is told what is to be done in a store, and may fail.
type toldStores struct {
	told []string
	err  map[Verb]error
}

func (s *toldStores) Publish(_ context.Context, store string, _ *v1.StoreNote) error {
	return s.do(Publish, store)
}

func (s *toldStores) Tidy(_ context.Context, store string, _ *v1.StoreNote) error {
	return s.do(Tidy, store)
}

func (s *toldStores) Remove(_ context.Context, store string, _ v1.BackedUpInstance, _, _ string) error {
	return s.do(Remove, store)
}

func (s *toldStores) Discard(_ context.Context, store string, _ v1.BackedUpInstance, _ string) error {
	return s.do(Discard, store)
}

func (s *toldStores) Access(_ context.Context, what *Remote) (map[string][]byte, error) {
	return map[string][]byte{"k": []byte("to " + what.Folder)}, s.do(GiveAccess, what.Store)
}

func (s *toldStores) do(v Verb, store string) error {
	s.told = append(s.told, string(v)+" "+store)
	return s.err[v]
}

// TestInStore: what follows waits for what is done in a store.
func TestInStore(t *testing.T) {
	failed := errors.New("the store is down")
	about := secret("a", nil)
	for name, tc := range map[string]struct {
		reason  string
		changes []Change
		err     map[Verb]error
		api     bool // The error is the API server's.
		ends    bool
		told    []string
		want    map[string]string
	}{
		"All": {reason: "In its order.", changes: []Change{
			InStore(Publish, about, Remote{Store: "s"}), InStore(Tidy, about, Remote{Store: "s"}), InStore(Remove, about, Remote{Store: "s"}), PatchObject(about, set("k", "is")),
		}, told: []string{"Publish s", "Tidy s", "Remove s"}, want: map[string]string{"a/k": "is"}},
		"Fails":   {reason: "The record stays.", changes: []Change{InStore(Remove, about, Remote{Store: "s"}), DeleteObject(about, "")}, err: map[Verb]error{Remove: failed}, told: []string{"Remove s"}, want: map[string]string{"a": ""}},
		"Access":  {reason: "It is made.", changes: []Change{InStore(GiveAccess, secret("b", nil), Remote{Store: "s", Folder: "f"})}, told: []string{"GiveAccess s"}, want: map[string]string{"a": "", "b/k": "to f"}},
		"Again":   {reason: "What is there goes: it may be another's.", changes: []Change{InStore(GiveAccess, secret("a", nil), Remote{Store: "s", Folder: "f"})}, told: []string{"GiveAccess s"}, want: map[string]string{"a/k": "to f"}},
		"NoWay":   {reason: "No Job is made without.", changes: []Change{InStore(GiveAccess, secret("b", nil), Remote{Store: "s"}), NewObject(secret("job", nil))}, err: map[Verb]error{GiveAccess: failed}, told: []string{"GiveAccess s"}, want: map[string]string{"a": ""}},
		"Later":   {reason: "Somebody else was faster, and the next look sees it.", changes: []Change{InStore(Publish, about, Remote{Store: "s"})}, err: map[Verb]error{Publish: kerrors.NewConflict(schema.GroupResource{}, "s", failed)}, told: []string{"Publish s"}, api: true, want: map[string]string{"a": ""}},
		"NoRight": {reason: "That is the API server's word.", changes: []Change{InStore(Publish, about, Remote{Store: "s"})}, err: map[Verb]error{Publish: fmt.Errorf("cannot get it: %w", kerrors.NewForbidden(schema.GroupResource{}, "s", failed))}, told: []string{"Publish s"}, api: true, want: map[string]string{"a": ""}},
		"Ends":    {reason: "The controller ends, and the store has said nothing.", changes: []Change{InStore(Publish, about, Remote{Store: "s"})}, err: map[Verb]error{Publish: failed}, ends: true, told: []string{"Publish s"}, want: map[string]string{"a": ""}},
		"NoThing": {reason: "Access is a Secret.", changes: []Change{InStore(GiveAccess, &corev1.ConfigMap{}, Remote{Store: "s"})}, err: map[Verb]error{GiveAccess: failed}, want: map[string]string{"a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientBuilder().WithObjects(secret("a", nil)).Build()
			read := read(t, kube, "a")
			about.ResourceVersion, about.UID = read.ResourceVersion, read.UID
			stores := &toldStores{err: tc.err}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if tc.ends {
				stop()
			}
			err := Writer{Client: kube, Stores: stores}.Apply(ctx, tc.changes)
			by, ok := errors.AsType[*ServerError](err)
			if (err != nil) != (tc.err != nil) || len(tc.told) > 0 && ok != (tc.err != nil && !tc.api && !tc.ends) || ok && by.Final {
				t.Errorf("%s got %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.told, stores.told); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, data(t, kube)); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A fakeServer answers, or does not.
type fakeServer struct {
	down    error
	cloners int
	bounded bool
}

func (f *fakeServer) OfferClone(context.Context, *Server) (map[string][]byte, error) {
	if f.down != nil {
		return nil, f.down
	}
	f.cloners++
	return map[string][]byte{"password": fmt.Append(nil, "secret-", f.cloners)}, nil
}

func (f *fakeServer) CheckData(context.Context, *Server) error { return f.down }

func (f *fakeServer) WithdrawClone(ctx context.Context, _ *Server) error {
	if _, f.bounded = ctx.Deadline(); f.down == nil {
		f.cloners = 0
	}
	return f.down
}

// TestApplyInServer: what is made in a server comes before what says so; and only what may fail is gone on without.
func TestApplyInServer(t *testing.T) {
	of := Server{Of: v1.Instance{Name: "db"}}
	offer, withdraw := InServer(OfferClone, secret("access", nil), of), InServer(WithdrawClone, secret("a", nil), of)
	later := NewObject(secret("b", nil))
	down := errors.New("connection refused")
	for name, tc := range map[string]struct {
		reason  string
		down    error
		changes []Change
		want    map[string]string
		cloners int
		fails   bool
	}{
		"Offer":        {reason: "The Secret has what was made.", changes: []Change{offer, later}, want: map[string]string{"access/password": "secret-1", "b": ""}, cloners: 1},
		"OfferDown":    {reason: "Nothing is said, and nothing follows.", down: down, changes: []Change{offer, later}, want: map[string]string{}, fails: true},
		"Withdraw":     {reason: "It is taken away.", changes: []Change{offer, withdraw, later}, want: map[string]string{"access/password": "secret-1", "b": ""}},
		"WithdrawDown": {reason: "What follows waits.", down: down, changes: []Change{withdraw, later}, want: map[string]string{}, fails: true},
		"Stop":         {reason: "A server that stores nothing outside may stop.", changes: []Change{InServer(CheckData, secret("a", nil), of), later}, want: map[string]string{"b": ""}},
		"NoStop":       {reason: "One that does goes on.", down: down, changes: []Change{InServer(CheckData, secret("a", nil), of), later}, want: map[string]string{}, fails: true},
		"OrNot":        {reason: "What follows does not wait.", down: down, changes: []Change{withdraw.OrNot(), later}, want: map[string]string{"b": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			kube, f := fake.NewClientBuilder().Build(), &fakeServer{down: tc.down}
			if err := (Writer{Client: kube, Servers: f}).Apply(t.Context(), tc.changes); (err != nil) != tc.fails {
				t.Errorf("%s got %v", tc.reason, err)
			}
			if f.bounded != (name == "OrNot") {
				t.Error("a server whose answer nobody waits for has a while, and others as long as they take")
			}
			if diff := cmp.Diff(tc.want, data(t, kube)); diff != "" || f.cloners != tc.cloners {
				t.Errorf("%s there are %d accounts, -want, +got:\n%s", tc.reason, f.cloners, diff)
			}
		})
	}
}

// TestAccessOfAnother: the access of a Job is written over an earlier one of the same instance, and never over another's Secret of that name.
func TestAccessOfAnother(t *testing.T) {
	of := func(instance string) *corev1.Secret {
		s := secret("a", nil)
		s.Labels = map[string]string{v1.LabelManagedBy: v1.ManagedBy, v1.LabelInstance: instance}
		return s
	}
	for name, tc := range map[string]struct {
		there *corev1.Secret
		want  bool
	}{"Own": {of("one"), true}, "Another": {of("two"), false}, "Foreign": {secret("a", nil), false}} {
		kube := fake.NewClientBuilder().WithObjects(tc.there).Build()
		err := Writer{Client: kube, Stores: &toldStores{}}.Apply(t.Context(), []Change{InStore(GiveAccess, of("one"), Remote{Store: "s", Folder: "f"})})
		if (err == nil) != tc.want || !tc.want && !kerrors.IsForbidden(err) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, written := data(t, kube)["a/k"]; written != tc.want {
			t.Errorf("%s: it is written: %t", name, written)
		}
	}
}
