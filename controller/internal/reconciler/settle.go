package reconciler

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// settle is how long an event waits for more of its instance. Crossplane writes a claim, its XR
// and what they consist of one after the other, and each look reads all of it from the API server.
const settle = 200 * time.Millisecond

// A settlingHandler hands events of one instance on as one. That an object is gone waits for nothing: it is what a deletion waits for,
// and the last of its object.
type settlingHandler struct {
	handler.TypedEventHandler[client.Object, instance.Key]
}

// queueOf a controller: each has one of its own.
type queueOf = workqueue.TypedRateLimitingInterface[instance.Key]

// Create is an object that is there, which it may have been before.
func (h settlingHandler) Create(ctx context.Context, e event.TypedCreateEvent[client.Object], q queueOf) {
	h.TypedEventHandler.Create(ctx, e, settling(q))
}

// Update is an object that was written.
func (h settlingHandler) Update(ctx context.Context, e event.TypedUpdateEvent[client.Object], q queueOf) {
	h.TypedEventHandler.Update(ctx, e, settling(q))
}

// settling is a queue to which everything is added a moment later.
func settling(q queueOf) queueOf {
	if p, ok := q.(priorityqueue.PriorityQueue[instance.Key]); ok {
		return settlingQueue{p}
	}
	return q
}

// A settlingQueue keeps the priority that what is added has.
type settlingQueue struct {
	priorityqueue.PriorityQueue[instance.Key]
}

// Add a moment later.
func (q settlingQueue) Add(k instance.Key) { q.AddWithOpts(priorityqueue.AddOpts{}, k) }

// AddWithOpts a moment later.
func (q settlingQueue) AddWithOpts(o priorityqueue.AddOpts, keys ...instance.Key) {
	o.After = max(o.After, settle)
	q.PriorityQueue.AddWithOpts(o, keys...)
}
