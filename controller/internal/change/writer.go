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

// A Writer applies changes to objects in the API server, to stores, and to running MySQL servers.
type Writer struct {
	Client client.Client
	// Stores applies the changes that have a Remote, and Servers applies the changes that have a Server.
	Stores  Stores
	Servers Servers
}

// Stores applies changes in stores. If an error does not come from the API server, it comes from the store or from
// the connection to it.
type Stores interface {
	Publish(ctx context.Context, store string, n *v1.StoreEntry) error
	RemoveLeftovers(ctx context.Context, store string, n *v1.StoreEntry) error
	// Remove deletes a backup. If the catalog entry has a different checksum, nothing below its prefix is deleted.
	Remove(ctx context.Context, store string, i v1.BackedUpInstance, record, sum string) error
	RemoveAttempts(ctx context.Context, store string, i v1.BackedUpInstance, record string) error
	// Access returns the data of the Secret that gives a Job access to a store.
	Access(ctx context.Context, remote *Remote) (map[string][]byte, error)
}

// Servers applies changes in a running MySQL server. It returns a ServerError, or an error of the API server.
type Servers interface {
	// OfferClone creates an account that may clone the server's data, and returns the data of its Secret.
	OfferClone(ctx context.Context, in *Server) (map[string][]byte, error)
	// WithdrawClone deletes the account that OfferClone has created.
	WithdrawClone(ctx context.Context, in *Server) error
	// CheckData returns an error if the server responds and stores data outside of its data directory.
	CheckData(ctx context.Context, in *Server) error
}

// briefly is the timeout of a change whose failure does not prevent later changes.
const briefly = 5 * time.Second

// Apply applies changes in order until the first one fails. If a precondition is not met, the error is a conflict
// (kerrors.IsConflict).
func (w Writer) Apply(ctx context.Context, changes []Change) error {
	written := map[string]client.Object{}
	for _, c := range changes {
		key := keyOf(c.Object)
		now, found := written[key]
		if found && (now == nil || c.Verb == Create) {
			continue // Another client or an earlier change has created it.
		}
		if found {
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
			log.FromContext(ctx).Info("Continuing after an optional change failed", "verb", c.Verb, "kind", kindOf(o),
				"namespace", o.GetNamespace(), "name", o.GetName(), "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s of %s %q: %w", c.Verb, kindOf(o), o.GetName(), err)
		}
		written[key] = o
	}
	return nil
}

// keyOf returns a key that identifies an object in a list of changes.
func keyOf(o client.Object) string { return kindOf(o) + " " + o.GetNamespace() + "/" + o.GetName() }

func kindOf(o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return fmt.Sprintf("%T", o)
}

// after returns a copy of the change for an object that an earlier change has modified. It takes the UID and the
// resourceVersion from now, the result of that change.
func (c Change) after(now client.Object) Change {
	identify := func(o client.Object) client.Object {
		if o == nil {
			return nil
		}
		o, _ = o.DeepCopyObject().(client.Object)
		o.SetUID(now.GetUID())
		o.SetResourceVersion(now.GetResourceVersion())
		return o
	}
	c.Object, c.Read = identify(c.Object), identify(c.Read)
	return c
}

// applyInTime applies a change. Only a change that may fail has a timeout.
func (w Writer) applyInTime(ctx context.Context, c Change) (client.Object, error) {
	if c.MayFail {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, briefly)
		defer cancel()
	}
	return w.apply(ctx, c)
}

// apply applies one change to a copy, because the caller may use the original object again. It returns the object
// from the API server, or nil if another client created it.
func (w Writer) apply(ctx context.Context, c Change) (client.Object, error) {
	o, ok := c.Object.DeepCopyObject().(client.Object)
	if !ok {
		return c.Object, fmt.Errorf("cannot copy a %T", c.Object)
	}
	switch c.Verb {
	case Create:
		err := w.Client.Create(ctx, o)
		if kerrors.IsAlreadyExists(err) {
			return nil, nil //nolint:nilnil // The next reconcile reads the object.
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
	case Publish, RemoveLeftovers, Remove, RemoveAttempts, GiveAccess:
		start := time.Now()
		o, err := w.doInStore(ctx, c.Verb, o, c.Remote)
		log.FromContext(ctx).V(1).Info("Called the store", "verb", c.Verb, "store", c.Remote.Store, "kind", kindOf(o),
			"namespace", o.GetNamespace(), "name", o.GetName(), "took", time.Since(start), "error", err)
		if err != nil && ctx.Err() == nil && kerrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			err = NewServerError(err, false)
		}
		return o, err
	case OfferClone, WithdrawClone, CheckData:
		start := time.Now()
		o, err := w.doInServer(ctx, c.Verb, o, c.Server)
		log.FromContext(ctx).V(1).Info("Called the server", "verb", c.Verb, "kind", kindOf(o), "namespace", o.GetNamespace(),
			"name", o.GetName(), "took", time.Since(start), "error", err)
		return o, err
	}
	return o, fmt.Errorf("unknown verb %q", c.Verb)
}

// doInStore applies a change in a store. It returns the object unchanged unless the change writes a Secret.
func (w Writer) doInStore(ctx context.Context, verb Verb, o client.Object, r *Remote) (client.Object, error) {
	switch verb { //nolint:exhaustive // Other verbs are for the API server.
	case Publish:
		return o, w.Stores.Publish(ctx, r.Store, r.Entry)
	case RemoveLeftovers:
		return o, w.Stores.RemoveLeftovers(ctx, r.Store, r.Entry)
	case Remove:
		return o, w.Stores.Remove(ctx, r.Store, r.Instance, r.Record, r.Sum)
	case RemoveAttempts:
		return o, w.Stores.RemoveAttempts(ctx, r.Store, r.Instance, r.Record)
	}
	return w.give(ctx, o, func() (map[string][]byte, error) { return w.Stores.Access(ctx, r) })
}

// doInServer applies a change in a running MySQL server. It returns the object unchanged unless the change writes a
// Secret.
func (w Writer) doInServer(ctx context.Context, verb Verb, o client.Object, in *Server) (client.Object, error) {
	switch verb { //nolint:exhaustive // Other verbs are for the API server.
	case WithdrawClone:
		return o, w.Servers.WithdrawClone(ctx, in)
	case CheckData:
		return o, w.Servers.CheckData(ctx, in)
	}
	return w.give(ctx, o, func() (map[string][]byte, error) { return w.Servers.OfferClone(ctx, in) })
}

// give creates the Secret that gives a Job access to a store or a server, or replaces its data.
func (w Writer) give(ctx context.Context, o client.Object, read func() (map[string][]byte, error)) (client.Object,
	error) {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return o, fmt.Errorf("the access of a Job must be stored in a Secret, but the object is a %T", o)
	}
	var err error
	if s.Data, err = read(); err != nil {
		return s, err
	}
	err = w.Client.Create(ctx, s)
	if kerrors.IsAlreadyExists(err) {
		return s, w.replace(ctx, s)
	}
	return s, err
}

// replace replaces a Secret of the same instance. It does not change a Secret with the same name but a different
// owner.
func (w Writer) replace(ctx context.Context, s *corev1.Secret) error {
	existing := &unstructured.Unstructured{} // A typed object would come from a cache of all Secrets.
	existing.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(s), existing); err != nil {
		return err
	}
	if existing.GetLabels()[v1.LabelInstance] != s.Labels[v1.LabelInstance] ||
		existing.GetLabels()[v1.LabelManagedBy] != s.Labels[v1.LabelManagedBy] {
		return kerrors.NewForbidden(corev1.Resource("secrets"), s.Name,
			fmt.Errorf("it exists but does not belong to this instance: rename or delete it (kubectl delete secret "+
				"--namespace %s %s)", s.Namespace, s.Name))
	}
	s.UID, s.ResourceVersion = existing.GetUID(), existing.GetResourceVersion()
	return w.Client.Update(ctx, s)
}

// scale sets the replicas of a Deployment if it has not changed since it was read.
func (w Writer) scale(ctx context.Context, o client.Object) (client.Object, error) {
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return o, fmt.Errorf("cannot scale a %T", o)
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, ResourceVersion: d.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: *d.Spec.Replicas}}
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

// addedFinalizers returns a JSON patch that appends the finalizers to the object's current ones.
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
