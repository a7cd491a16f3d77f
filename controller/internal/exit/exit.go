// Package exit contains the errors with which the program of a Job ends. Each has the exit code for its cause.
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

// Damaged returns the error for an archive that was changed after it was written.
func Damaged(format string, args ...any) error {
	return With(agent.ExitDamaged, format, args...)
}

// Report runs a command and returns its report. If the command fails, the report is complete as well, and the error
// has an exit code.
func Report(ctx context.Context, command string, run func(context.Context, *agent.Report) error) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: command}
	err := CodeOf(ctx, run(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

// CodeOf adds the exit code for its cause to an error. If the context has ended, the code is always ExitStopped.
func CodeOf(ctx context.Context, err error) error {
	running, coded := new(datadir.RunningError), new(agent.ExitError)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return With(agent.ExitStopped, "interrupted, and the next run starts from the beginning: %w", err)
	case errors.As(err, &coded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return With(agent.ExitNoSpace, "the volume is full: %w", err)
	case errors.As(err, &running):
		return With(agent.ExitBusy, "%w", err)
	}
	return With(agent.ExitFailed, "%w", err)
}
