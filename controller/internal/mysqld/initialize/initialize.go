// Package initialize creates a new database completely or not at all. The entrypoint of the server's image creates
// the database in a temporary directory. Official images insert the password of root into SQL, shell and option
// files without quoting. They also treat a directory named mysql as a complete database. The entrypoint therefore
// gets a generated password without special characters, and this package sets the requested password afterwards.
//
//	data.init ── entrypoint ─▶ server without network ── ALTER USER, SIGTERM ─▶ fsync ── rename ─▶ data
//
// If the process exits before the rename, there is no data directory, and the next run starts again.
//
// Restored data has an unknown password. The package therefore sets the requested password before the server's own
// container starts. It uses the same entrypoint to start a temporary server:
//
//	data ── entrypoint ─▶ server without network and passwords ── ALTER USER, SIGTERM ─▶ mark next to data
package initialize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// An Initialization prepares a volume before a server starts on it.
type Initialization struct {
	// Volume is the mount path of the data volume. Directory is the name of the data directory in the volume's root.
	Volume, Directory string
	// XR is the UID of the composite resource that owns the data.
	XR types.UID
	// Allowed is true if the instance has no login yet, so that a new database may be created. Otherwise an empty
	// volume is the wrong one, or its data was deleted.
	Allowed bool
	// Password is the requested password of root.
	Password sql.Password
	// Sockets is the directory to create for the server's socket. Its path must be short, and its file system must
	// support sockets.
	Sockets string
	// Clients are addresses from which root must be able to log in. If nil, the addresses of this pod are used.
	Clients []netip.Addr
	// Output receives the log of the entrypoint and progress lines.
	Output io.Writer

	// environment contains additional variables for the entrypoint.
	environment []string
	// command returns the command of the entrypoint. Tests replace it.
	command func(args ...string) (*exec.Cmd, error)
}

// clearTimeout is the maximum time to wait until the server of an interrupted run has exited. The container runtime
// may kill that server after a short delay.
const clearTimeout = 30 * time.Second

// Run initializes the volume unless it contains data. It returns a report even if it fails.
func (i *Initialization) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "initialize"}
	err := i.run(ctx, &r)
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

func (i *Initialization) run(ctx context.Context, r *agent.Report) error {
	v, err := datavolume.OpenInitial(i.Volume, i.Directory, i.XR)
	if err != nil {
		return err
	}
	defer v.Close()
	hasData, err := v.HasData()
	if err != nil {
		return err
	}
	r.Already = hasData
	step, err := decideStep(hasData, i.Allowed, v.Nothing)
	if err != nil {
		return err
	}
	if step == leave {
		if err := i.enterRestored(ctx, r, v); err != nil {
			return err
		}
		i.recordStart(ctx, v)
		return nil
	}
	if err := v.Clear(clearTimeout); err != nil {
		return err
	}
	i.printLinef("Creating a new database")
	if err := i.makeDatabase(ctx, r, v.Dir()); err != nil {
		return err
	}
	if err := v.Publish(); err != nil {
		return err
	}
	i.printLinef("The database is created")
	i.recordStart(ctx, v)
	return nil
}

// recordStart stores the version of the server that starts next. A backup needs the version, even if that server never
// accepts clients. A failure does not prevent the server from starting.
func (i *Initialization) recordStart(ctx context.Context, v *datavolume.Initial) {
	server, err := version.Ask(ctx)
	if err == nil {
		err = v.RecordStart(server.Version)
	}
	if err != nil {
		i.printLinef("Cannot record the version of the server: %v", err)
	}
}

// A step determines whether a database is created on the volume.
type step int

const (
	leave step = iota
	create
)

// decideStep returns the action for a volume. It never creates a database over data, or on a volume whose data may be
// missing.
func decideStep(hasData, allowed bool, nothing func() error) (step, error) {
	switch {
	case hasData:
		return leave, nil
	case !allowed:
		return leave, &agent.ExitError{Code: agent.ExitNoData,
			Err: errors.New("the volume contains no data, but this instance had data. Check that it is the right " +
				"volume or directory, on the right node, and restore the right one. No new database is created " +
				"instead. To restore the newest backup, delete the claim and create it again")}
	}
	if err := nothing(); err != nil {
		return leave, err
	}
	return create, nil
}

// makeDatabase creates the database in the directory dir with the image's entrypoint, and sets the requested password.
func (i *Initialization) makeDatabase(ctx context.Context, r *agent.Report, dir string) error {
	s, err := i.startEntrypoint(dir, sql.NewPassword())
	if err != nil {
		return err
	}
	defer s.Kill() // Other processes of the entrypoint are killed with the container.
	if err := s.awaitServer(ctx); err != nil {
		return err
	}
	if r.Version, err = s.takeOver(ctx, i.Password); err != nil {
		return err
	}
	return s.stop(ctx)
}

func (i *Initialization) printLinef(format string, args ...any) {
	fmt.Fprintf(i.Output, format+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}
