package framework

import (
	"context"
	"testing"
	"time"
)

// Patience is how long anything may take before it counts as broken. It is no measurement: see make bench.
const Patience = 15 * time.Minute

// Pauses between two tries of a check, and of one that starts a program in a pod, which costs the machine more than all
// else that waits.
const (
	pause       = 200 * time.Millisecond
	pauseInAPod = time.Second
)

// Eventually waits until a check has no complaint.
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

// within the time that anything may take, also where the context has ended: it serves cleanups, too.
func within(ctx context.Context, pause time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	return pollWith(ctx, pause, func() error { return check(ctx) })
}

// Poll returns the last complaint when the time is over.
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
