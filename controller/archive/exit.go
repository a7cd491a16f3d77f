package archive

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/datadir"
)

func exitWith(code int, format string, args ...any) error {
	return &agent.ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

func damagedArchive(format string, args ...any) error {
	return exitWith(agent.ExitDamaged, format, args...)
}

// ExitCodeOf an error gives it the exit code that its cause calls for. After the end
// of the context it is that, whatever it looks like.
func ExitCodeOf(ctx context.Context, err error) error {
	running, coded := new(datadir.RunningError), new(agent.ExitError)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return exitWith(agent.ExitStopped, "told to stop before the end; the next run begins anew: %w", err)
	case errors.As(err, &coded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return exitWith(agent.ExitNoSpace, "the volume is full: %w", err)
	case errors.As(err, &running):
		return exitWith(agent.ExitBusy, "%w", err)
	}
	return exitWith(agent.ExitFailed, "%w", err)
}
