package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// TestWriterEnds checks that Write returns an error as soon as the object is too large, and keeps returning it.
func TestWriterEnds(t *testing.T) {
	w := &Writer{size: 2, free: make(chan []byte, sendAtOnce+1), parts: make([]*store.Part, store.MaxParts)}
	w.ctx, w.cancel = context.WithCancelCause(t.Context())
	w.free <- nil
	for range 2 {
		n, err := w.Write([]byte("more than one part"))
		if err == nil || !strings.Contains(err.Error(), "larger than") || n > w.size {
			t.Fatalf("want an error, got %d, %v", n, err)
		}
	}
}
