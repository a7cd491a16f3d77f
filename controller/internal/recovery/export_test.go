//go:build mysqld

package recovery

import (
	"context"
	"os/exec"
)

// ServerCommand and NewServerDir are exported for the tests in package recovery_test. Those tests import packages that
// import this one.
var (
	ServerCommand = program
	NewServerDir  = newDir
)

// RunCommand is like Run, but command returns the exec.Cmd that starts mysqld.
func (r *Recovery) RunCommand(ctx context.Context, command func(program string, args ...string) *exec.Cmd) (Result, error) {
	r.command = command
	return r.runWith(ctx, "")
}
