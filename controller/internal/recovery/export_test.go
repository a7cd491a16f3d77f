//go:build mysqld

package recovery

import (
	"context"
	"os/exec"
)

// ServerCommand and NewServerDir are for tests of this package that import packages which import it.
var (
	ServerCommand = program
	NewServerDir  = newDir
)

// RunCommand is like Run, but starts the server with a function.
func (r *Recovery) RunCommand(ctx context.Context, command func(program string, args ...string) *exec.Cmd) (Result, error) {
	r.command = command
	return r.runWith(ctx, "")
}
