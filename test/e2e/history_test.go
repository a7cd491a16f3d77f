package e2e

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A moment is a change of a BackupRecord or a Job that a watch has reported. The resource version determines the order
// of changes.
type moment struct {
	revision uint64
	change   watch.EventType
	object   *unstructured.Unstructured
}

// A history contains all changes of an instance's BackupRecords and Jobs during a test.
type history struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	moments []moment
	faults  []string
}

func startHistory(t *testing.T, s *framework.Server) *history {
	t.Helper()
	c, err := client.NewWithWatch(framework.Suite.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	h := &history{stop: stop}
	for kind, mine := range map[string]func(*unstructured.Unstructured) bool{
		"crossplane-mysql.io/v1alpha1/BackupRecord": s.Backups().Has,
		"batch/v1/Job": func(o *unstructured.Unstructured) bool { return o.GetNamespace() == s.Namespace },
	} {
		w, err := c.Watch(ctx, framework.NewList(kind))
		if err != nil {
			t.Fatal(err)
		}
		h.done.Go(func() { h.follow(ctx, w, kind, mine) })
	}
	t.Cleanup(func() { h.end(t) })
	return h
}

func (h *history) follow(ctx context.Context, w watch.Interface, kind string,
	mine func(*unstructured.Unstructured) bool) {
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if ctx.Err() != nil {
			return // The test has stopped the watch, which is reported as an error.
		}
		if !ok || e.Type == watch.Error {
			h.fault("the watch of " + kind + " failed")
			return
		}
		if !mine(o) {
			continue
		}
		revision, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		if err != nil {
			h.fault(err.Error())
			return
		}
		h.mu.Lock()
		h.moments = append(h.moments, moment{revision, e.Type, o})
		h.mu.Unlock()
	}
	if ctx.Err() == nil {
		h.fault("the watch of " + kind + " ended")
	}
}

func (h *history) fault(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, text)
}

// soFar returns the changes of the BackupRecords and Jobs up to now, in any order.
func (h *history) soFar() []moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.moments)
}

// end stops the watches and returns all changes of the BackupRecords and Jobs in their order.
func (h *history) end(t *testing.T) []moment {
	t.Helper()
	h.stop()
	h.done.Wait()
	for _, f := range h.faults {
		t.Error(f)
	}
	slices.SortStableFunc(h.moments, func(a, b moment) int { return cmp.Compare(a.revision, b.revision) })
	return h.moments
}
