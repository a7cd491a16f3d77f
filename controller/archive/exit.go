package archive

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/datadir"
)

// Exit codes besides those of apis/agent. All of them are worth a retry.
const (
	// ExitFailed: something that is not told apart further.
	ExitFailed = 1
	// ExitBusy: a server runs on the data, or another run is under way.
	ExitBusy = 75
	// ExitStopped: told to stop by SIGTERM.
	ExitStopped = 143
)

// An ExitError says with which code the program ends.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode for kong.
func (e *ExitError) ExitCode() int { return e.Code }

func exitWith(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

func damagedArchive(format string, args ...any) error {
	return exitWith(agent.ExitDamaged, format, args...)
}

// exitCodeOf an error gives it the exit code that its cause calls for. After the end
// of the context it is that, whatever it looks like.
func exitCodeOf(ctx context.Context, err error) error {
	running, coded := new(datadir.RunningError), new(ExitError)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return exitWith(ExitStopped, "told to stop before the end; the next run begins anew: %w", err)
	case errors.As(err, &coded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return exitWith(agent.ExitNoSpace, "the volume is full: %w", err)
	case errors.As(err, &running):
		return exitWith(ExitBusy, "%w", err)
	}
	return exitWith(ExitFailed, "%w", err)
}

// CodeOf an error that a Backup or Restore returned.
func CodeOf(err error) int {
	coded := new(ExitError)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.Code
	}
	return ExitFailed
}
