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
	// sendAtOnce is the maximum number of parts that are sent in the background while the next part is being filled.
	sendAtOnce = 2
	// smallPart is the usual size of a part in bytes. largePart is the size for objects that would otherwise have
	// too many parts.
	smallPart = 8 << 20
	largePart = 24 << 20
	// abortTimeout is the timeout for the deletion of an incomplete upload.
	abortTimeout = 30 * time.Second
)

// partSize returns the part size for an object of at most this many bytes.
func partSize(most int64) int {
	if most <= int64(smallPart)*store.MaxParts {
		return smallPart
	}
	return largePart
}

// A Writer uploads an object in parts. The object exists only after Close.
type Writer struct {
	client  *Client
	key, id string
	size    int

	ctx     context.Context //nolint:containedctx // The context belongs to the writer.
	cancel  context.CancelCauseFunc
	current []byte
	free    chan []byte
	sending sync.WaitGroup
	parts   []*store.Part
	total   int64
	ended   bool
}

// Create starts the upload of an object. The size may be an estimate, and should not be too low. The caller must call
// Close or Abort.
func (c *Client) Create(ctx context.Context, key string, most int64) (*Writer, error) {
	id, err := c.beginUpload(ctx, key)
	if err != nil {
		return nil, err
	}
	w := &Writer{client: c, key: key, id: id, size: partSize(most), free: make(chan []byte, sendAtOnce+1)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	for range sendAtOnce + 1 {
		w.free <- nil // Buffers are allocated on demand, because most objects are small.
	}
	return w, nil
}

// Write copies bytes to the current part. It may return an error that occurred while an earlier part was sent.
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

// Close uploads the last part and creates the object. If it returns an error, the object does not exist, and the
// caller must call Abort.
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

// Abort deletes the parts of an object that was not closed, even if the context is canceled. If the deletion fails,
// the store's lifecycle rules or the controller delete the parts later.
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
		w.cancel(fmt.Errorf("it is larger than %d GiB, the maximum size of an object", int64(w.size)*store.MaxParts>>30))
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
