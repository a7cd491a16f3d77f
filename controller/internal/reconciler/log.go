package reconciler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// logFor returns the loggers for a controller of instances.
func logFor(mgr ctrl.Manager, controller string) func(*instance.Key) logr.Logger {
	return func(k *instance.Key) logr.Logger {
		l := mgr.GetLogger().WithValues("controller", controller)
		if k == nil {
			return l
		}
		return l.WithValues("instance", k.String())
	}
}

// logForStore returns the loggers for the controller of BackupStores.
func logForStore(mgr ctrl.Manager) func(*reconcile.Request) logr.Logger {
	return func(q *reconcile.Request) logr.Logger {
		l := mgr.GetLogger().WithValues("controller", "backupstore")
		if q == nil {
			return l
		}
		return l.WithValues("store", q.Name)
	}
}

// A loggedClient logs each write to the API server. It logs the names of objects but not their contents.
type loggedClient struct{ client.Client }

// Create creates an object, and logs the write.
func (c loggedClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.logWrite(ctx, "Create", "", o, func() error { return c.Client.Create(ctx, o, opts...) })
}

// Update updates an object, and logs the write.
func (c loggedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.logWrite(ctx, "Update", "", o, func() error { return c.Client.Update(ctx, o, opts...) })
}

// Patch patches an object, and logs the write.
func (c loggedClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.logWrite(ctx, "Patch", "", o, func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

// Delete deletes an object, and logs the write.
func (c loggedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.logWrite(ctx, "Delete", "", o, func() error { return c.Client.Delete(ctx, o, opts...) })
}

// Status returns a client that also logs its writes.
func (c loggedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource returns a client that also logs its writes.
func (c loggedClient) SubResource(name string) client.SubResourceClient {
	return loggedSubResource{c.Client.SubResource(name), c, name}
}

type loggedSubResource struct {
	client.SubResourceClient

	parent loggedClient
	name   string
}

// Update updates a subresource such as the status, and logs the write.
func (c loggedSubResource) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return c.parent.logWrite(ctx, "Update", c.name, o, func() error { return c.SubResourceClient.Update(ctx, o, opts...) })
}

// Patch patches a subresource such as the status, and logs the write.
func (c loggedSubResource) Patch(ctx context.Context, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption) error {
	return c.parent.logWrite(ctx, "Patch", c.name, o, func() error {
		return c.SubResourceClient.Patch(ctx, o, p, opts...)
	})
}

func (c loggedClient) logWrite(ctx context.Context, verb, subresource string, o client.Object,
	write func() error) error {
	start := time.Now()
	err := write()
	if l := log.FromContext(ctx).V(1); l.Enabled() {
		kind, _ := c.GroupVersionKindFor(o) // An unknown kind is logged as empty.
		l.Info("Wrote to the API server", "verb", verb, "kind", kind.Kind, "subresource", subresource, "namespace",
			o.GetNamespace(), "name", o.GetName(), "took", time.Since(start), "error", err)
	}
	return err
}

// reads counts the requests to the API server during one reconcile, and the returned objects. Several reads can run
// concurrently.
type reads struct{ requests, objects atomic.Int64 }

type readsKey struct{}

func countReads(ctx context.Context, objects int) {
	if n, ok := ctx.Value(readsKey{}).(*reads); ok {
		n.requests.Add(1)
		n.objects.Add(int64(objects))
	}
}

// A countedReader counts requests to the API server, and the objects that they return.
type countedReader struct{ client.Reader }

// Get reads an object, and counts it.
func (r countedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	found := 1
	if err != nil {
		found = 0
	}
	countReads(ctx, found)
	return err
}

// List reads objects, and counts them.
func (r countedReader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	err := r.Reader.List(ctx, l, opts...)
	countReads(ctx, meta.LenList(l))
	return err
}

// logReads logs how long the reads for an instance take, and how many objects they return.
func logReads[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	start, n := time.Now(), &reads{}
	out, err := read(context.WithValue(ctx, readsKey{}, n))
	log.FromContext(ctx).V(1).Info("Read the state of the instance", "requests", n.requests.Load(), "objects",
		n.objects.Load(), "took", time.Since(start), "error", err)
	return out, err
}

// logNoTurn logs that all workers that the instance's namespace may use are busy.
func logNoTurn(ctx context.Context) {
	log.FromContext(ctx).V(1).Info("The namespace has no free worker", "after", nextTurn)
}
