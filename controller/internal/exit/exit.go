// Package exit has the errors with which a program of a Job ends: each has the exit code that its cause calls for.
package exit

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Report runs a command, and returns its report. The report is complete also if the command fails, and the error has
// an exit code then.
func Report(ctx context.Context, command string, run func(context.Context, *agent.Report) error) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: command}
	err := CodeOf(ctx, run(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

// CodeOf returns an error with the exit code for its cause. After the end of the context, it always returns the code
// for that.
func CodeOf(ctx context.Context, err error) error {
	running, coded := new(datadir.RunningError), new(agent.ExitError)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return With(agent.ExitStopped, "stopped before the end, and the next run starts again: %w", err)
	case errors.As(err, &coded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return With(agent.ExitNoSpace, "the volume is full: %w", err)
	case errors.As(err, &running):
		return With(agent.ExitBusy, "%w", err)
	}
	return With(agent.ExitFailed, "%w", err)
}
