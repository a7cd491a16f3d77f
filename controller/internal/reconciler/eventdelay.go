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

// settle is the delay of an event. The handler combines all events of an instance during this delay. Crossplane
// writes a claim, its XR and their objects one after the other, and each reconcile reads all of them from the API
// server.
const settle = 200 * time.Millisecond

// A settlingHandler combines the events of one instance. Delete events are not delayed, because a deletion waits for
// them and no further event of the object follows.
type settlingHandler struct {
	handler.TypedEventHandler[client.Object, instance.Key]
}

// queueOf is the work queue of a controller. Each controller has its own.
type queueOf = workqueue.TypedRateLimitingInterface[instance.Key]

// Create adds the instance of an object that was created, or that existed before the controller started, to the queue.
func (h settlingHandler) Create(ctx context.Context, e event.TypedCreateEvent[client.Object], q queueOf) {
	h.TypedEventHandler.Create(ctx, e, settling(q))
}

// Update adds the instance of a changed object to the queue.
func (h settlingHandler) Update(ctx context.Context, e event.TypedUpdateEvent[client.Object], q queueOf) {
	h.TypedEventHandler.Update(ctx, e, settling(q))
}

// settling returns a queue that adds all items with a delay.
func settling(q queueOf) queueOf {
	if p, ok := q.(priorityqueue.PriorityQueue[instance.Key]); ok {
		return settlingQueue{p}
	}
	return q
}

// A settlingQueue adds items with a delay but keeps their priority.
type settlingQueue struct {
	priorityqueue.PriorityQueue[instance.Key]
}

// Add adds an item with the delay.
func (q settlingQueue) Add(k instance.Key) { q.AddWithOpts(priorityqueue.AddOpts{}, k) }

// AddWithOpts adds items with the delay.
func (q settlingQueue) AddWithOpts(o priorityqueue.AddOpts, keys ...instance.Key) {
	o.After = max(o.After, settle)
	q.PriorityQueue.AddWithOpts(o, keys...)
}
