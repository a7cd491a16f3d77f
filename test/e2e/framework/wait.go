package framework

import (
	"context"
	"testing"
	"time"
)

// Patience is the timeout of all checks that wait for a change. It is generous, because these tests do not measure
// speed. The benchmarks in make bench do.
const Patience = 15 * time.Minute

// Delays before a check is repeated. A check that runs a program in a pod is expensive, and therefore repeated less
// often.
const (
	pause       = 200 * time.Millisecond
	pauseInAPod = time.Second
)

// Eventually waits until the check returns no error.
func Eventually(t *testing.T, subject string, check func(context.Context) error) {
	t.Helper()
	eventuallyWith(t, pause, subject, check)
}

func eventuallyWith(t *testing.T, pause time.Duration, subject string, check func(context.Context) error) {
	t.Helper()
	if err := within(t.Context(), pause, check); err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
}

// within repeats the check until it succeeds, or until Patience has elapsed. It ignores a cancelled context, because
// cleanups use it, too.
func within(ctx context.Context, pause time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	return pollWith(ctx, pause, func() error { return check(ctx) })
}

// Poll repeats the check until it succeeds. If ctx is cancelled, it returns the check's last error.
func Poll(ctx context.Context, check func() error) error { return pollWith(ctx, pause, check) }

func pollWith(ctx context.Context, pause time.Duration, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
