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

// secret returns a Secret that the tests use as an example of an object in the API server.
func secret(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name),
		Labels: map[string]string{"of": "db"}}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

// set returns an edit of a Secret that sets one key.
func set(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
}

// read returns a Secret from the API server.
func read(t *testing.T, kube client.Client, name string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// data returns the data of all Secrets in the fake API server, by name and key.
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

// TestApply checks that changes are applied in order until the first one fails.
func TestApply(t *testing.T) {
	existing := secret("a", map[string]string{"k": "was"})
	refused := kerrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "big", errors.New("too big"))
	for name, tc := range map[string]struct {
		reason string
		// changes returns the changes, based on the object as it was read.
		changes func(a *corev1.Secret) []Change
		// meanwhile is a write of another client before the changes are applied.
		meanwhile func(*testing.T, client.Client)
		want      map[string]string
		refused   func(error) bool
	}{
		"Patch": {reason: "The object has not changed since it was read, so the patch must be applied.",
			changes: func(a *corev1.Secret) []Change {
				return []Change{PatchObject(a, set("k", "is"))}
			}, want: map[string]string{"a/k": "is"}},
		"PatchLate": {reason: "Another client changed the object after it was read, so all changes must be refused.",
			changes: func(a *corev1.Secret) []Change {
				return []Change{PatchObject(a, set("k", "is")), NewObject(secret("b", nil))}
			}, meanwhile: func(t *testing.T, kube client.Client) {
				t.Helper()
				s := read(t, kube, "a")
				set("other", "theirs")(s)
				if err := kube.Update(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}, want: map[string]string{"a/k": "was", "a/other": "theirs"}, refused: kerrors.IsConflict},
		"PatchTwice": {reason: "The second patch must use the result of the first one as its precondition.",
			changes: func(a *corev1.Secret) []Change {
				return []Change{PatchObject(a, set("k", "is")), PatchObject(a, set("l", "too"))}
			}, want: map[string]string{"a/k": "is", "a/l": "too"}},
		"PatchGone": {reason: "A patch of a deleted object must return an error.", changes: func(a *corev1.Secret) []Change {
			return []Change{PatchObject(a, set("k", "is"))}
		}, meanwhile: deletes("a"), want: map[string]string{}, refused: kerrors.IsNotFound},
		"OrGone": {reason: "If the change is optional for a deleted object, later changes must be applied.",
			changes: func(a *corev1.Secret) []Change {
				return []Change{PatchObject(a, set("k", "is")).OrGone(), NewObject(secret("b", nil))}
			}, meanwhile: deletes("a"), want: map[string]string{"b": ""}},
		"Create": {reason: "An object that was just created must be usable in the next change.", changes: func(*corev1.Secret) []Change {
			b := secret("b", map[string]string{"k": "new"})
			return []Change{NewObject(b), PatchObject(b, set("l", "too"))}
		}, want: map[string]string{"a/k": "was", "b/k": "new", "b/l": "too"}},
		"CreateTwice": {reason: "The second creation of the same object must have no effect.", changes: func(*corev1.Secret) []Change {
			return []Change{NewObject(secret("b", map[string]string{"k": "new"})),
				NewObject(secret("b", map[string]string{"k": "newer"}))}
		}, want: map[string]string{"a/k": "was", "b/k": "new"}},
		"CreateTaken": {reason: "If another client created the object, its patch must be skipped and later changes applied.",
			changes: func(a *corev1.Secret) []Change {
				b := secret("b", map[string]string{"k": "new"})
				return []Change{NewObject(b), PatchObject(b, set("l", "too")), PatchObject(a, set("k", "is"))}
			}, meanwhile: creates(secret("b", map[string]string{"k": "theirs"})), want: map[string]string{"a/k": "is",
				"b/k": "theirs"}},
		"Delete": {reason: "The object that was read must be deleted.", changes: func(a *corev1.Secret) []Change {
			return []Change{DeleteObject(a, "")}
		}, want: map[string]string{}},
		"DeleteLater": {reason: "A later object with the same name must not be deleted.", changes: func(a *corev1.Secret) []Change {
			return []Change{DeleteObject(a, "")}
		}, meanwhile: func(t *testing.T, kube client.Client) {
			t.Helper()
			deletes("a")(t, kube)
			later := secret("a", map[string]string{"k": "later"})
			later.UID = "uid-later"
			creates(later)(t, kube)
		}, want: map[string]string{"a/k": "later"}, refused: kerrors.IsConflict},
		"Otherwise": {reason: "If the API server refuses an object, its alternative must be created.",
			changes: func(*corev1.Secret) []Change {
				big, small := NewObject(secret("big", nil)), NewObject(secret("small", nil))
				big.Otherwise = &small
				return []Change{big}
			}, want: map[string]string{"a/k": "was", "small": ""}},
		"Refused": {reason: "If a refused object has no alternative, later changes must not be applied.",
			changes: func(a *corev1.Secret) []Change {
				return []Change{NewObject(secret("big", nil)), PatchObject(a, set("k", "is"))}
			}, want: map[string]string{"a/k": "was"}, refused: kerrors.IsForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientBuilder().WithObjects(existing.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if o.GetName() == "big" {
						return refused
					}
					return k.Create(ctx, o, opts...)
				},
				// The fake client does not check UIDs.
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

// deleteAsAsked refuses a deletion if the UID differs, as the API server does.
func deleteAsAsked(ctx context.Context, k client.WithWatch, o client.Object, opts []client.DeleteOption) error {
	want := (&client.DeleteOptions{}).ApplyOptions(opts)
	current := &corev1.Secret{}
	if err := k.Get(ctx, client.ObjectKeyFromObject(o), current); err != nil {
		return err
	}
	if p := want.Preconditions; p != nil && p.UID != nil && *p.UID != current.UID {
		return kerrors.NewConflict(schema.GroupResource{Resource: "secrets"}, o.GetName(),
			fmt.Errorf("the UID is %s", current.UID))
	}
	return k.Delete(ctx, current)
}

// TestPatchOfFields checks that the patch of a status contains the resource version or no precondition, because the
// API server would ignore a UID.
func TestPatchOfFields(t *testing.T) {
	o := secret("a", nil)
	o.ResourceVersion = "7"
	c := PatchStatusFields(o, map[string]any{"message": nil})
	for want, c := range map[string]Change{`{"metadata":{"resourceVersion":"7"},"status":{"message":null}}`: c,
		`{"status":{"message":null}}`: c.WhoeverWrote()} {
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

// TestAddFinalizer checks that finalizers which other clients have added in the meantime are kept. The controller
// must not add its finalizer to a later object with the same name.
func TestAddFinalizer(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		// before lists the finalizers when the object is read, and after lists them after the change. since is true if
		// another client writes in between. later is true if a new object has replaced the one that was read.
		before, after []string
		since, later  bool
		want          []string
		refused       bool
	}{
		"AsRead": {reason: "The object has not changed since it was read.", before: []string{"theirs"}, want: []string{"theirs", "ours"}},
		"Since": {reason: "A finalizer that another client added must be kept, and the change must not fail.", before: []string{"theirs"},
			after: []string{"theirs", "another"}, since: true, want: []string{"theirs", "another", "ours"}},
		"First": {reason: "The object has no list of finalizers yet, so the list must be created.", want: []string{"ours"}},
		"Overtaken": {reason: "A list of finalizers that another client created must not be overwritten.", after: []string{"theirs"},
			since: true, want: []string{"theirs"}, refused: true},
		"Later": {reason: "A later object with the same name must not get the finalizer.",
			before: []string{"theirs"}, after: []string{"theirs"}, since: true,
			later: true, want: []string{"theirs"}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := secret("a", nil)
			o.Finalizers = tc.before
			kube := fake.NewClientBuilder().WithObjects(o).Build()
			c := AddFinalizer(read(t, kube, "a"), "ours")
			if tc.since {
				now := read(t, kube, "a")
				now.Finalizers, now.Labels = tc.after, map[string]string{"written": "since"}
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

// TestScale checks that a Deployment gets its replicas unless another client has changed the Deployment since it was
// read.
func TestScale(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		label    string
		want     int32
		conflict bool
	}{
		"AsRead": {reason: "The Deployment has not changed since it was read.", want: 0},
		"Late": {reason: "Another client changed the Deployment after it was read, so it must not be scaled.",
			label: "theirs", want: 1, conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
			kube := fake.NewClientBuilder().WithObjects(d).Build()
			deployment := func() *appsv1.Deployment {
				now := &appsv1.Deployment{}
				if err := kube.Get(t.Context(), client.ObjectKeyFromObject(d), now); err != nil {
					t.Fatal(err)
				}
				return now
			}
			read := deployment()
			if tc.label != "" {
				now := deployment()
				now.Labels = map[string]string{tc.label: "yes"}
				if err := kube.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			err := Writer{Client: kube}.Apply(t.Context(), []Change{ScaleDeployment(read, 0)})
			if kerrors.IsConflict(err) != tc.conflict || err != nil && !tc.conflict {
				t.Errorf("%s Got %v", tc.reason, err)
			}
			if got := *deployment().Spec.Replicas; got != tc.want {
				t.Errorf("%s Want %d replicas, got %d", tc.reason, tc.want, got)
			}
		})
	}
}

// A toldStores is a fake of Stores. It records the calls, and returns an error for selected verbs.
type toldStores struct {
	told []string
	err  map[Verb]error
}

func (s *toldStores) Publish(_ context.Context, store string, _ *v1.StoreEntry) error {
	return s.do(Publish, store)
}

func (s *toldStores) RemoveLeftovers(_ context.Context, store string, _ *v1.StoreEntry) error {
	return s.do(RemoveLeftovers, store)
}

func (s *toldStores) Remove(_ context.Context, store string, _ v1.BackedUpInstance, _, _ string) error {
	return s.do(Remove, store)
}

func (s *toldStores) RemoveAttempts(_ context.Context, store string, _ v1.BackedUpInstance, _ string) error {
	return s.do(RemoveAttempts, store)
}

func (s *toldStores) Access(_ context.Context, remote *Remote) (map[string][]byte, error) {
	return map[string][]byte{"k": []byte("to " + remote.Prefix)}, s.do(GiveAccess, remote.Store)
}

func (s *toldStores) do(v Verb, store string) error {
	s.told = append(s.told, string(v)+" "+store)
	return s.err[v]
}

// TestInStore checks that changes in a store are applied in order. After a failure, later changes are skipped, and
// the error tells whether the store or the API server caused it.
func TestInStore(t *testing.T) {
	failed := errors.New("the store is down")
	object := secret("a", nil)
	for name, tc := range map[string]struct {
		reason  string
		changes []Change
		err     map[Verb]error
		api     bool // The error comes from the API server.
		ends    bool
		told    []string
		want    map[string]string
	}{
		"All": {reason: "All changes must be applied in the given order.", changes: []Change{
			InStore(Publish, object, Remote{Store: "s"}), InStore(RemoveLeftovers, object, Remote{Store: "s"}),
			InStore(Remove, object, Remote{Store: "s"}), PatchObject(object, set("k", "is")),
		}, told: []string{"Publish s", "Tidy s", "Remove s"}, want: map[string]string{"a/k": "is"}},
		"Fails": {reason: "The archive cannot be deleted, so its object must be kept.",
			changes: []Change{InStore(Remove, object, Remote{Store: "s"}), DeleteObject(object, "")},
			err:     map[Verb]error{Remove: failed}, told: []string{"Remove s"}, want: map[string]string{"a": ""}},
		"Access": {reason: "The Secret with the access must be created.",
			changes: []Change{InStore(GiveAccess, secret("b", nil), Remote{Store: "s", Prefix: "f"})},
			told:    []string{"GiveAccess s"}, want: map[string]string{"a": "", "b/k": "to f"}},
		"Again": {reason: "An existing Secret must be replaced, because it may give access to another archive.",
			changes: []Change{InStore(GiveAccess, secret("a", nil), Remote{Store: "s", Prefix: "f"})},
			told:    []string{"GiveAccess s"}, want: map[string]string{"a/k": "to f"}},
		"NoWay": {reason: "The Job must not be created if the Secret with the access cannot be created.",
			changes: []Change{InStore(GiveAccess, secret("b", nil), Remote{Store: "s"}), NewObject(secret("job", nil))},
			err:     map[Verb]error{GiveAccess: failed}, told: []string{"GiveAccess s"}, want: map[string]string{"a": ""}},
		"Later": {reason: "A conflict must be returned as an error of the API server, because it is retried.",
			changes: []Change{InStore(Publish, object, Remote{Store: "s"})},
			err:     map[Verb]error{Publish: kerrors.NewConflict(schema.GroupResource{}, "s", failed)},
			told:    []string{"Publish s"}, api: true, want: map[string]string{"a": ""}},
		"NoRight": {reason: "A forbidden request is an error of the API server, not of the store.",
			changes: []Change{InStore(Publish, object, Remote{Store: "s"})},
			err: map[Verb]error{Publish: fmt.Errorf("cannot get it: %w",
				kerrors.NewForbidden(schema.GroupResource{}, "s", failed))}, told: []string{
				"Publish s"}, api: true, want: map[string]string{"a": ""}},
		"Ends": {reason: "The controller stops during the change, which is not an error of the store.",
			changes: []Change{InStore(Publish, object, Remote{Store: "s"})}, err: map[Verb]error{Publish: failed}, ends: true,
			told: []string{"Publish s"}, want: map[string]string{"a": ""}},
		"NoThing": {reason: "Access can be stored only in a Secret.",
			changes: []Change{InStore(GiveAccess, &corev1.ConfigMap{}, Remote{Store: "s"})},
			err:     map[Verb]error{GiveAccess: failed}, want: map[string]string{"a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientBuilder().WithObjects(secret("a", nil)).Build()
			read := read(t, kube, "a")
			object.ResourceVersion, object.UID = read.ResourceVersion, read.UID
			stores := &toldStores{err: tc.err}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if tc.ends {
				stop()
			}
			err := Writer{Client: kube, Stores: stores}.Apply(ctx, tc.changes)
			serverError, ok := errors.AsType[*ServerError](err)
			if (err != nil) != (tc.err != nil) || len(tc.told) > 0 && ok != (tc.err != nil && !tc.api && !tc.ends) || ok &&
				serverError.Final {
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

// A fakeServer is a fake of Servers. It counts the clone accounts, and returns the error down if it is set.
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

// TestApplyInServer checks that a change in a server is applied before the object that depends on it. If a change
// fails, later ones are skipped, unless that change may fail.
func TestApplyInServer(t *testing.T) {
	server := Server{Of: v1.Instance{Name: "db"}}
	offer, withdraw := InServer(OfferClone, secret("access", nil), server), InServer(WithdrawClone, secret("a", nil),
		server)
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
		"Offer": {reason: "The Secret must contain the password of the new account.", changes: []Change{offer, later},
			want: map[string]string{"access/password": "secret-1", "b": ""}, cloners: 1},
		"OfferDown": {reason: "The account cannot be created, so later changes must not be applied.",
			down: down, changes: []Change{offer, later},
			want: map[string]string{}, fails: true},
		"Withdraw": {reason: "The account must be deleted from the server.", changes: []Change{offer, withdraw, later},
			want: map[string]string{"access/password": "secret-1", "b": ""}},
		"WithdrawDown": {reason: "The account cannot be deleted, so later changes must wait.",
			down: down, changes: []Change{withdraw, later},
			want: map[string]string{}, fails: true},
		"Stop": {reason: "A server without data outside of its data directory may be stopped.",
			changes: []Change{InServer(CheckData, secret("a", nil), server), later}, want: map[string]string{"b": ""}},
		"NoStop": {reason: "A server with data outside of its data directory must not be stopped.", down: down,
			changes: []Change{InServer(CheckData, secret("a", nil), server), later}, want: map[string]string{}, fails: true},
		"OrNot": {reason: "The change is optional, so its failure must not prevent later changes.",
			down: down, changes: []Change{withdraw.OrNot(), later},
			want: map[string]string{"b": ""}},
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

// TestAccessOfAnother checks that a Job's access replaces an earlier Secret of the same instance, but never a Secret
// with that name and a different owner.
func TestAccessOfAnother(t *testing.T) {
	secretOf := func(instance string) *corev1.Secret {
		s := secret("a", nil)
		s.Labels = map[string]string{v1.LabelManagedBy: v1.ManagedBy, v1.LabelInstance: instance}
		return s
	}
	for name, tc := range map[string]struct {
		existing *corev1.Secret
		want     bool
	}{"Own": {secretOf("one"), true}, "Another": {secretOf("two"), false}, "Foreign": {secret("a", nil), false}} {
		kube := fake.NewClientBuilder().WithObjects(tc.existing).Build()
		err := Writer{Client: kube, Stores: &toldStores{}}.Apply(t.Context(),
			[]Change{InStore(GiveAccess, secretOf("one"), Remote{Store: "s", Prefix: "f"})})
		if (err == nil) != tc.want || !tc.want && !kerrors.IsForbidden(err) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, written := data(t, kube)["a/k"]; written != tc.want {
			t.Errorf("%s: it is written: %t", name, written)
		}
	}
}
