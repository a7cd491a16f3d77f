package reconciler

import (
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

type withoutCache struct{ ctrl.Manager }

func (withoutCache) GetCache() cache.Cache { return nil }

// A watching controller has not begun.
type watching struct {
	controller.TypedController[instance.Key]

	sources []source.TypedSource[instance.Key]
}

func (w *watching) Watch(s source.TypedSource[instance.Key]) error {
	w.sources = append(w.sources, s)
	return nil
}

// TestWatchLives: an XRD that is deleted while the controller starts holds no restore test up. Its kind is known, and can never be
// listed.
func TestWatchLives(t *testing.T) {
	w := &watching{}
	if err := watchLives(withoutCache{}, instance.Kinds()[0], w); err != nil {
		t.Fatal(err)
	}
	if len(w.sources) != 2 {
		t.Errorf("want claim and XR, got %d sources", len(w.sources))
	}
	for _, s := range w.sources {
		if _, awaited := s.(source.TypedSyncingSource[instance.Key]); awaited {
			t.Errorf("the controller waits for %v before it begins", s)
		}
	}
}
