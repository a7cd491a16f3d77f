package change

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Writer carries changes out.
type Writer struct {
	Client client.Client
	// Stores where something is done there, and Servers likewise.
	Stores  Stores
	Servers Servers
}

// Stores do what is done in a store. An error that is not the API server's is the store's, or the way's to it.
type Stores interface {
	Publish(ctx context.Context, store string, n *v1.StoreNote) error
	Tidy(ctx context.Context, store string, n *v1.StoreNote) error
	// Remove a backup. A note of another archive than the one with this sum stays, with all that is beside it.
	Remove(ctx context.Context, store string, i v1.BackedUpInstance, record, sum string) error
	Discard(ctx context.Context, store string, i v1.BackedUpInstance, record string) error
	// Access of a Job, as the content of its Secret.
	Access(ctx context.Context, what *Remote) (map[string][]byte, error)
}

// Servers do what is done in a server that runs. An error is a ServerError, where it is not the API server's.
type Servers interface {
	// OfferClone of a server's data to a new account, and return what its Secret has.
	OfferClone(ctx context.Context, in *Server) (map[string][]byte, error)
	// WithdrawClone takes that account away.
	WithdrawClone(ctx context.Context, in *Server) error
	// CheckData is an error if the server answers, and stores data outside of its data directory.
	CheckData(ctx context.Context, in *Server) error
}

// briefly is how long something may take that nobody waits for.
const briefly = 5 * time.Second

// Apply changes in their order, up to the first that is refused. What is refused because of
// its precondition is an error as kerrors.IsConflict knows it.
func (w Writer) Apply(ctx context.Context, changes []Change) error {
	written := map[string]client.Object{}
	for _, c := range changes {
		key := keyOf(c.Object)
		now, again := written[key]
		if again && (now == nil || c.Verb == Create) {
			continue // Somebody else made it, or this list did.
		}
		if again {
			c = c.after(now)
		}
		o, err := w.applyInTime(ctx, c)
		if c.Otherwise != nil && (kerrors.IsForbidden(err) || kerrors.IsInvalid(err)) {
			c = *c.Otherwise
			o, err = w.apply(ctx, c)
		}
		if c.MayBeGone {
			err = client.IgnoreNotFound(err)
		}
		if err != nil && c.MayFail {
			log.FromContext(ctx).Info("Continuing after an optional change failed", "verb", c.Verb, "kind", kindOf(o), "namespace", o.GetNamespace(), "name", o.GetName(), "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s of %s %q: %w", c.Verb, kindOf(o), o.GetName(), err)
		}
		written[key] = o
	}
	return nil
}

// keyOf an object among those of a list of changes.
func keyOf(o client.Object) string { return kindOf(o) + " " + o.GetNamespace() + "/" + o.GetName() }

func kindOf(o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return fmt.Sprintf("%T", o)
}

// after an earlier change of the same object, which now is as that left it.
func (c Change) after(now client.Object) Change {
	as := func(o client.Object) client.Object {
		if o == nil {
			return nil
		}
		o, _ = o.DeepCopyObject().(client.Object)
		o.SetUID(now.GetUID())
		o.SetResourceVersion(now.GetResourceVersion())
		return o
	}
	c.Object, c.Read = as(c.Object), as(c.Read)
	return c
}

// applyInTime a change, which has all the time there is unless nobody waits for it.
func (w Writer) applyInTime(ctx context.Context, c Change) (client.Object, error) {
	if c.MayFail {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, briefly)
		defer cancel()
	}
	return w.apply(ctx, c)
}

// apply one change, to a copy: those who decided may look at theirs again. It returns the
// object as the API server has it then, and nil for one that somebody else made.
func (w Writer) apply(ctx context.Context, c Change) (client.Object, error) {
	o, ok := c.Object.DeepCopyObject().(client.Object)
	if !ok {
		return c.Object, fmt.Errorf("cannot copy a %T", c.Object)
	}
	switch c.Verb {
	case Create:
		err := w.Client.Create(ctx, o)
		if kerrors.IsAlreadyExists(err) {
			return nil, nil //nolint:nilnil // The next look finds it.
		}
		return o, err
	case Patch:
		patch, err := c.patch()
		if err != nil {
			return o, err
		}
		return o, w.Client.Patch(ctx, o, patch)
	case PatchStatus:
		patch, err := c.patch()
		if err != nil {
			return o, err
		}
		return o, w.Client.Status().Patch(ctx, o, patch)
	case Scale:
		return w.scale(ctx, o)
	case Delete:
		return o, w.Client.Delete(ctx, o, c.deleteOptions())
	case Publish, Tidy, Remove, Discard, GiveAccess:
		start := time.Now()
		o, err := w.doInStore(ctx, c.Verb, o, c.Remote)
		log.FromContext(ctx).V(1).Info("Called the store", "verb", c.Verb, "store", c.Remote.Store, "kind", kindOf(o), "namespace", o.GetNamespace(), "name", o.GetName(), "took", time.Since(start), "error", err)
		if err != nil && ctx.Err() == nil && kerrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			err = NewServerError(err, false)
		}
		return o, err
	case OfferClone, WithdrawClone, CheckData:
		start := time.Now()
		o, err := w.doInServer(ctx, c.Verb, o, c.Server)
		log.FromContext(ctx).V(1).Info("Called the server", "verb", c.Verb, "kind", kindOf(o), "namespace", o.GetNamespace(), "name", o.GetName(), "took", time.Since(start), "error", err)
		return o, err
	}
	return o, fmt.Errorf("there is no verb %q", c.Verb)
}

// doInStore what is done there. Of the object nothing is known that was not before, but of a Secret.
func (w Writer) doInStore(ctx context.Context, verb Verb, o client.Object, r *Remote) (client.Object, error) {
	switch verb { //nolint:exhaustive // The others are the API server's.
	case Publish:
		return o, w.Stores.Publish(ctx, r.Store, r.Note)
	case Tidy:
		return o, w.Stores.Tidy(ctx, r.Store, r.Note)
	case Remove:
		return o, w.Stores.Remove(ctx, r.Store, r.Instance, r.Record, r.Sum)
	case Discard:
		return o, w.Stores.Discard(ctx, r.Store, r.Instance, r.Record)
	}
	return w.give(ctx, o, func() (map[string][]byte, error) { return w.Stores.Access(ctx, r) })
}

// doInServer what is done there.
func (w Writer) doInServer(ctx context.Context, verb Verb, o client.Object, in *Server) (client.Object, error) {
	switch verb { //nolint:exhaustive // The others are the API server's.
	case WithdrawClone:
		return o, w.Servers.WithdrawClone(ctx, in)
	case CheckData:
		return o, w.Servers.CheckData(ctx, in)
	}
	return w.give(ctx, o, func() (map[string][]byte, error) { return w.Servers.OfferClone(ctx, in) })
}

// give a Job something in a Secret, in the place of an earlier one.
func (w Writer) give(ctx context.Context, o client.Object, what func() (map[string][]byte, error)) (client.Object, error) {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return o, fmt.Errorf("access is given as a Secret, and not as a %T", o)
	}
	var err error
	if s.Data, err = what(); err != nil {
		return s, err
	}
	err = w.Client.Create(ctx, s)
	if kerrors.IsAlreadyExists(err) {
		return s, w.replace(ctx, s)
	}
	return s, err
}

// replace a Secret of the same instance by one of the same name. Another's is left as it is.
func (w Writer) replace(ctx context.Context, s *corev1.Secret) error {
	there := &unstructured.Unstructured{} // A typed one would be read from a cache of all Secrets.
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(s), there); err != nil {
		return err
	}
	if there.GetLabels()[v1.LabelInstance] != s.Labels[v1.LabelInstance] || there.GetLabels()[v1.LabelManagedBy] != s.Labels[v1.LabelManagedBy] {
		return kerrors.NewForbidden(corev1.Resource("secrets"), s.Name, fmt.Errorf("it exists and does not belong to this instance: rename or delete it (kubectl delete secret --namespace %s %s)", s.Namespace, s.Name))
	}
	s.UID, s.ResourceVersion = there.GetUID(), there.GetResourceVersion()
	return w.Client.Update(ctx, s)
}

// scale a Deployment to the replicas that it is to have, if nobody has written it since it was read.
func (w Writer) scale(ctx context.Context, o client.Object) (client.Object, error) {
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return o, fmt.Errorf("cannot scale a %T", o)
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, ResourceVersion: d.ResourceVersion}, Spec: autoscalingv1.ScaleSpec{Replicas: *d.Spec.Replicas}}
	err := w.Client.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale))
	d.ResourceVersion = scale.ResourceVersion
	return d, err
}

func (c Change) patch() (client.Patch, error) {
	if c.If == SameObject {
		return c.addedFinalizers()
	}
	if c.Fields == nil {
		return client.MergeFromWithOptions(c.Read, client.MergeFromWithOptimisticLock{}), nil
	}
	patch := map[string]any{"status": c.Fields}
	if c.If == AsRead {
		patch["metadata"] = map[string]any{"resourceVersion": c.Object.GetResourceVersion()}
	}
	raw, err := json.Marshal(patch)
	return client.RawPatch(types.MergePatchType, raw), err
}

// addedFinalizers as a JSON patch, behind those that the object has when it is applied.
func (c Change) addedFinalizers() (client.Patch, error) {
	operations := []map[string]any{{"op": "test", "path": "/metadata/uid", "value": c.Read.GetUID()}}
	for _, f := range c.Object.GetFinalizers() {
		if !slices.Contains(c.Read.GetFinalizers(), f) {
			operations = append(operations, map[string]any{"op": "add", "path": "/metadata/finalizers/-", "value": f})
		}
	}
	raw, err := json.Marshal(operations)
	return client.RawPatch(types.JSONPatchType, raw), err
}

func (c Change) deleteOptions() *client.DeleteOptions {
	o := &client.DeleteOptions{}
	if c.Policy != "" {
		o.PropagationPolicy = &c.Policy
	}
	uid, version := c.Object.GetUID(), c.Object.GetResourceVersion()
	switch c.If {
	case OfName:
	case SameObject:
		client.Preconditions{UID: &uid}.ApplyToDelete(o)
	case AsRead:
		client.Preconditions{UID: &uid, ResourceVersion: &version}.ApplyToDelete(o)
	}
	return o
}
