package gateway

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// sendAtOnce are the parts that are under way at the same time, beside the one that is filled.
	sendAtOnce = 2
	// smallPart in bytes, and largePart of objects that would have too many of the small ones.
	smallPart = 8 << 20
	largePart = 24 << 20
	// abortTimeout is how long to try to leave nothing behind.
	abortTimeout = 30 * time.Second
)

// partSize of an object that has at most so many bytes.
func partSize(most int64) int {
	if most <= int64(smallPart)*store.MaxParts {
		return smallPart
	}
	return largePart
}

// A Writer makes an object, part by part. There is none before Close.
type Writer struct {
	client  *Client
	key, id string
	size    int

	ctx     context.Context //nolint:containedctx // It is the writer's own, and ends with it.
	cancel  context.CancelCauseFunc
	current []byte
	free    chan []byte
	sending sync.WaitGroup
	parts   []*store.Part
	total   int64
	ended   bool
}

// Create an object of at most so many bytes, as far as one can tell. It must be closed or aborted.
func (c *Client) Create(ctx context.Context, key string, most int64) (*Writer, error) {
	id, err := c.beginUpload(ctx, key)
	if err != nil {
		return nil, err
	}
	w := &Writer{client: c, key: key, id: id, size: partSize(most), free: make(chan []byte, sendAtOnce+1)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	for range sendAtOnce + 1 {
		w.free <- nil // It is made when it is needed: most objects are small.
	}
	return w, nil
}

// Write takes bytes over. An error of an earlier part ends it.
func (w *Writer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if w.current == nil {
			if err := w.takeBuffer(); err != nil {
				return done, err
			}
		}
		n := min(len(p)-done, w.size-len(w.current))
		w.current = append(w.current, p[done:done+n]...)
		done += n
		if len(w.current) == w.size {
			w.sendCurrent()
			if err := context.Cause(w.ctx); err != nil {
				return done, err
			}
		}
	}
	return done, context.Cause(w.ctx)
}

// Close sends what is left, and makes the object. After an error there is none, and it must be aborted.
func (w *Writer) Close() error {
	if len(w.current) > 0 || len(w.parts) == 0 {
		w.sendCurrent()
	}
	w.sending.Wait()
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	all := completeUpload{Size: w.total}
	for _, p := range w.parts {
		all.Parts = append(all.Parts, *p)
	}
	err := w.client.completeUpload(w.ctx, w.key, w.id, all)
	w.ended = err == nil
	return err
}

// Abort leaves nothing, also after the end of the context, of an object that is not closed. The store's rules, and the controller, remove what it could not.
func (w *Writer) Abort(ctx context.Context) error {
	if w.ended {
		return nil
	}
	w.cancel(context.Canceled)
	w.sending.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	return w.client.abortUpload(ctx, w.key, w.id)
}

func (w *Writer) takeBuffer() error {
	select {
	case b := <-w.free:
		if b == nil {
			b = make([]byte, 0, w.size)
		}
		w.current = b[:0]
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

func (w *Writer) sendCurrent() {
	if len(w.parts) == store.MaxParts {
		w.cancel(fmt.Errorf("it is larger than the %d GiB that an object can have", int64(w.size)*store.MaxParts>>30))
		w.current = nil
		return
	}
	raw := w.current
	w.current, w.total = nil, w.total+int64(len(raw))
	slot := &store.Part{Number: len(w.parts) + 1}
	w.parts = append(w.parts, slot)
	w.sending.Go(func() {
		p, err := w.client.sendPart(w.ctx, w.key, w.id, slot.Number, raw)
		if err != nil {
			w.cancel(err)
			return
		}
		*slot = p
		w.free <- raw
	})
}

var _ io.WriteCloser = (*Writer)(nil)
