// Package exit has the errors with which a program of a Job ends: each has the exit code that its cause calls for.
package exit

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
)

// With returns an error that ends a program with an exit code.
func With(code int, format string, args ...any) error {
	return &agent.ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// Damaged returns the error of an archive that is not as it was written.
func Damaged(format string, args ...any) error {
	return With(agent.ExitDamaged, format, args...)
}

// CodeOf an error gives it the exit code that its cause calls for. After the end
// of the context it is that, whatever it looks like.
func CodeOf(ctx context.Context, err error) error {
	running, coded := new(datadir.RunningError), new(agent.ExitError)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return With(agent.ExitStopped, "told to stop before the end; the next run begins anew: %w", err)
	case errors.As(err, &coded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return With(agent.ExitNoSpace, "the volume is full: %w", err)
	case errors.As(err, &running):
		return With(agent.ExitBusy, "%w", err)
	}
	return With(agent.ExitFailed, "%w", err)
}
