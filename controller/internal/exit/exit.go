// Package exit contains errors with an exit code for the cause. A program in a Job exits with that code.
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

// With returns an error that makes a program exit with this code.
func With(code int, format string, args ...any) error {
	return &agent.ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// Damaged returns the error for an archive that was changed after it was written.
func Damaged(format string, args ...any) error {
	return With(agent.ExitDamaged, format, args...)
}

// Report runs a command and returns its report and its error. The report is complete even if the command fails, and
// the error has an exit code.
func Report(ctx context.Context, command string, run func(context.Context, *agent.Report) error) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: command}
	err := CodeOf(ctx, run(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

// CodeOf adds an exit code to an error according to its cause. If the context was canceled, the code is always
// ExitStopped.
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
