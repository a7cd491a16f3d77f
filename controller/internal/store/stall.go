package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// errStalled is the error of a request that was canceled because it made no progress.
var errStalled = errors.New("no data was transferred")

// A stall cancels a request that makes no progress for a while. A timeout for the whole request would have to depend
// on the speed of the store.
type stall struct {
	ctx    context.Context //nolint:containedctx // The context belongs to the request.
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

// cause returns why the request was canceled, or else the given error.
func (s *stall) cause(err error) error {
	if cause := context.Cause(s.ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// A moving reader resets the timer of the stall at each read. It hides other methods of its reader, so that a body
// that cannot be read twice is not sent twice.
type moving struct {
	io.Reader

	watch *stall
}

func (m moving) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.watch.moved()
	return n, err
}
