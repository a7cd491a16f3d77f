// Package initialize makes a new database, all of it or nothing. The entrypoint of
// the server's own image does the work, in a folder where no server looks, and with
// a password that means nothing to SQL, to a shell or to an option file: official
// images put it into all of them as it is, and take a folder named mysql for a
// database that is done. The wanted password is brought in afterwards.
//
//	data.init ── entrypoint ─▶ server without network ── ALTER USER, SIGTERM ─▶ fsync ── rename ─▶ data
//
// Whatever dies on the way, there is no data directory, and the next run begins
// anew.
//
// What comes from a backup has a password that nobody knows. The wanted one is brought
// in before the server's own container begins, in the same way and by the same entrypoint:
//
//	data ── entrypoint ─▶ server without network that asks for no password ── ALTER USER, SIGTERM ─▶ note beside data
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

// An Initialization is the first start of a server.
type Initialization struct {
	// Volume is where the data volume is mounted, and Directory the folder in its
	// root that the data belongs into.
	Volume, Directory string
	// XR whose data it is, or is to be.
	XR types.UID
	// Allowed is true for an instance that nobody has used yet. Without it a volume
	// that has no data is the wrong one, or was emptied.
	Allowed bool
	// Password that is wanted of root.
	Password sql.Password
	// Sockets is a folder that is made for the server's socket, on a file system
	// that has such; its path must be short.
	Sockets string
	// Clients have to reach root from such addresses as these; nil for those of this pod.
	Clients []netip.Addr
	// Output takes the log of the entrypoint and progress lines.
	Output io.Writer

	// environment of the entrypoint besides its own.
	environment []string
	// command of the entrypoint. Tests have another one.
	command func(args ...string) (*exec.Cmd, error)
}

// clearTimeout is how long the server of an earlier run is waited for, which the
// container runtime ends a moment after it.
const clearTimeout = 30 * time.Second

// Run the first start, unless the volume has data. The Report is there also with
// an error.
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
	has, err := v.HasData()
	if err != nil {
		return err
	}
	r.Already = has
	step, err := decideStep(has, i.Allowed, v.Nothing)
	if err != nil {
		return err
	}
	if step == leave {
		if err := i.enterRestored(ctx, r, v); err != nil {
			return err
		}
		i.noteStart(ctx, v)
		return nil
	}
	if err := v.Clear(clearTimeout); err != nil {
		return err
	}
	i.printLinef("Making a new database")
	if err := i.makeDatabase(ctx, r, v.Folder()); err != nil {
		return err
	}
	if err := v.Publish(); err != nil {
		return err
	}
	i.printLinef("The database is made")
	i.noteStart(ctx, v)
	return nil
}

// noteStart of the server that comes next, for a backup: that is of a server which has stopped, and
// which nobody may ever have reached. No server stays away because it cannot be noted.
func (i *Initialization) noteStart(ctx context.Context, v *datavolume.Initial) {
	server, err := version.Ask(ctx)
	if err == nil {
		err = v.NoteStart(server.Version)
	}
	if err != nil {
		i.printLinef("The server's version is not noted: %v", err)
	}
}

// A step is what is to be done with a volume.
type step int

const (
	leave step = iota
	create
)

// decideStep to do. Nothing is ever made over data, and no database where there should
// be one: doubt is not absence.
func decideStep(has, allowed bool, nothing func() error) (step, error) {
	switch {
	case has:
		return leave, nil
	case !allowed:
		return leave, &agent.ExitError{Code: agent.ExitNoData, Err: errors.New("the volume holds no data, but this instance has had some: is it the right volume, or folder, on the right node? Bring the right one back. Nothing is made in its place; to restore the newest backup delete the claim and create it again")}
	}
	if err := nothing(); err != nil {
		return leave, err
	}
	return create, nil
}

// makeDatabase in a folder.
func (i *Initialization) makeDatabase(ctx context.Context, r *agent.Report, folder string) error {
	s, err := i.startEntrypoint(folder, sql.NewPassword())
	if err != nil {
		return err
	}
	defer s.Kill() // What it started besides ends with the container.
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
