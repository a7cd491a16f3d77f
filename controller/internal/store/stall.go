package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// errStalled is why a request ended that did not move.
var errStalled = errors.New("nothing has moved")

// A stall ends a request that does not move for a while. A time for the whole would have to know
// how fast the store is.
type stall struct {
	ctx    context.Context //nolint:containedctx // It is the request's own, and ends with it.
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
}

func watchStall(parent context.Context, after time.Duration) (context.Context, *stall) {
	s := &stall{after: after}
	s.ctx, s.cancel = context.WithCancelCause(parent)
	s.timer = time.AfterFunc(after, func() { s.cancel(fmt.Errorf("%w for %s", errStalled, after)) })
	return s.ctx, s
}

func (s *stall) moved() { s.timer.Reset(s.after) }

func (s *stall) end() {
	s.timer.Stop()
	s.cancel(context.Canceled)
}

// cause of an error: where it is that the request was ended, why.
func (s *stall) cause(err error) error {
	if why := context.Cause(s.ctx); err != nil && why != nil {
		return why
	}
	return err
}

// A moving reader tells the watch of each part that was read. It hides what else its reader can do:
// what cannot be read twice is not sent twice.
type moving struct {
	io.Reader

	watch *stall
}

func (m moving) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.watch.moved()
	return n, err
}
