package reconciler

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// TestSettle checks that writes shortly after the first write cause only one reconcile, and that existing objects are
// reconciled after new ones. A deletion causes a reconcile at once.
func TestSettle(t *testing.T) {
	old, fresh := instance.Key{Name: "old"}, instance.Key{Name: "fresh"}
	events := enqueueKeys(func(o client.Object) []instance.Key { return []instance.Key{{Name: o.GetName()}} })
	object := func(k instance.Key) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: k.Name}}
	}
	written := func(k instance.Key) event.TypedUpdateEvent[client.Object] {
		o := object(k)
		o.SetResourceVersion("2")
		return event.TypedUpdateEvent[client.Object]{ObjectOld: object(k), ObjectNew: o}
	}
	synctest.Test(t, func(t *testing.T) {
		q := priorityqueue.New[instance.Key]("settle")
		defer q.ShutDown()
		start := time.Now()
		events.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: object(old), IsInInitialList: true}, q)
		events.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: object(fresh)}, q)
		time.Sleep(settle / 2)
		events.Update(t.Context(), written(fresh), q)
		events.Update(t.Context(), written(fresh), q)
		time.Sleep(settle)
		for _, want := range []struct {
			key      instance.Key
			priority int
		}{{fresh, 0}, {old, handler.LowPriority}} {
			k, priority, _ := q.GetWithPriority()
			if k != want.key || priority != want.priority {
				t.Errorf("want %s with priority %d, got %s with %d", want.key, want.priority, k, priority)
			}
			q.Done(k)
		}
		events.Update(t.Context(), written(fresh), q)
		if k, _ := q.Get(); k != fresh || time.Since(start) != 2*settle+settle/2 {
			t.Errorf("want %s once, and again when it is written again, got %s after %s", fresh, k, time.Since(start))
		}
		q.Done(fresh)
		gone := time.Now()
		events.Update(t.Context(), written(fresh), q)
		events.Delete(t.Context(), event.TypedDeleteEvent[client.Object]{Object: object(fresh)}, q)
		if k, _ := q.Get(); k != fresh || time.Since(gone) != 0 {
			t.Errorf("want %s at once when it is gone, got %s after %s", fresh, k, time.Since(gone))
		}
	})
}
