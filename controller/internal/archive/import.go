package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/foreign"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// An Import copies the data of a foreign server to a data volume without a database. Like a Restore, it writes to a
// directory that no server uses, and renames the directory when it is complete.
//
//	a volume:           ── copy ───────────────────────▶ .restore-import/data ── rename ─▶ data
//	a server, a dump:   ── a container of its image ───▶ .restore-import/data ── rename ─▶ data
type Import struct {
	datavolume.Half

	// From is the mount path of the volume to copy from, and Within the path of the data directory in it, or "" for
	// its root. If From is empty, an earlier container of the pod has prepared the data.
	From, Within string
	// Target is the path of the version.json of the server that will use the data.
	Target string
	// Output receives the progress lines.
	Output io.Writer

	// hook is called after each step, with the step's name. Tests simulate a crash in it.
	hook stepHook
}

// serverID is the file with the server_uuid. It must be unique, so a restored server creates its own.
const serverID = "auto.cnf"

// Run runs the import. It returns a report even if it fails. Each error is an ExitError.
func (i *Import) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "import", i.runImport)
}

func (i *Import) runImport(ctx context.Context, r *agent.Report) error {
	target, err := version.Read(i.Target)
	if err != nil {
		return fmt.Errorf("cannot read the version of the new server: %w", err)
	}
	v, err := datavolume.OpenVolume(i.Volume, i.Directory)
	if err != nil {
		return err
	}
	defer v.CloseVolume()
	done, err := i.IsDone(v)
	switch {
	case err != nil:
		return err
	case done:
		r.Already = true
		return i.removeImportDir(v) // If the earlier run was interrupted after the rename, this directory is left.
	case i.From == "":
		err = i.takeMade(r, v, target)
	default:
		err = i.copyData(ctx, r, v, target)
	}
	if err != nil {
		return err
	}
	if err := v.Place(datavolume.ImportedHalf, datavolume.Marker{XR: i.XR, Archive: datavolume.ImportPrefix + i.Name},
		i.hook.after); err != nil {
		return err
	}
	return i.removeImportDir(v)
}

// removeImportDir removes the temporary directory of the import.
func (i *Import) removeImportDir(v *datavolume.Volume) error {
	return v.RemoveAll(agent.ImportDir)
}

// takeMade accepts data that an earlier container has prepared, if its server has stopped cleanly.
func (i *Import) takeMade(r *agent.Report, v *datavolume.Volume, target version.Version) error {
	if _, err := v.Lstat(path.Join(agent.ImportDir, datavolume.CompleteName)); errors.Is(err, fs.ErrNotExist) {
		return errors.New("the previous container left no data. It runs again in the next pod")
	}
	stopped, err := v.StoppedIn(datavolume.ImportedHalf)
	if err != nil {
		return err
	}
	if stopped.Known && !stopped.Clean {
		return fmt.Errorf("the server that wrote the data did not stop cleanly: %s", stopped.Reason)
	}
	r.Version, r.CleanShutdown = target.String(), true
	if err := unix.Syncfs(datavolume.FileDescriptor(v.Handle)); err != nil {
		return fmt.Errorf("cannot write the data to disk: %w", err)
	}
	return nil
}

// copyData copies the data of a stopped server. During the copy, it holds the file locks that a running server would
// hold, so that no server can start on the data.
func (i *Import) copyData(ctx context.Context, r *agent.Report, v *datavolume.Volume, target version.Version) error {
	dir, err := i.openSource()
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	locks, err := datadir.Lock(dir)
	if err != nil {
		return explainForeign(dir, err)
	}
	defer locks.Release()
	if err := foreign.Check(dir); err != nil {
		return explainForeign(dir, err)
	}
	stopped, err := datavolume.HowStopped(dir)
	if err != nil {
		return explainForeign(dir, err)
	}
	r.Version, r.CleanShutdown = datadir.Version(dir, foreign.Started(dir), ""), stopped.Known && stopped.Clean
	if !r.CleanShutdown {
		if err := foreign.CheckRedo(dir); err != nil {
			return explainForeign(dir, err)
		}
	}
	i.printLinef("Version %s, clean shutdown: %t (%s)", r.Version, r.CleanShutdown, stopped.Reason)
	if err := i.checkVersions(dir, r, stopped, target); err != nil {
		return err
	}
	if err := v.ClearHalves(); err != nil {
		return fmt.Errorf("cannot remove the files of an earlier run: %w", err)
	}
	t := foreignTree{tree{Root: dir}}
	contents, err := t.measure(ctx)
	if err != nil {
		return explainForeign(dir, err)
	}
	if err := (&archiveManifest{Contents: contents}).checkSpace(v); err != nil {
		return err
	}
	if err := i.copyInto(ctx, v, t, contents); err != nil {
		_ = i.removeImportDir(v) // If this fails, the next run removes it.
		return err
	}
	r.DataBytes = contents.DataBytes
	return nil
}

// checkVersions returns an error if the target version cannot use the data. Only MySQL 8.4 and newer store their
// version in the data directory. Data of an unknown version is accepted if it has the data dictionary of MySQL 8.0
// and was stopped cleanly. The server checks the version when it starts.
func (i *Import) checkVersions(dir *os.Root, r *agent.Report, stopped datadir.Shutdown, target version.Version) error {
	if err := checkVersions(r.Version, true, target); r.Version != "" && err != nil {
		return err
	}
	from, err := version.Parse(r.Version)
	if err == nil && !stopped.Known && from.String() != target.String() {
		return exit.With(agent.ExitUnclean,
			"the files of server %s do not show whether it stopped cleanly, because only MySQL 8.0.30 and later record "+
				"this. Only a server of the same version can use these files. Nothing was written. Set the image to that "+
				"version first and to a newer one later, or import a dump", r.Version)
	}
	if r.Version != "" {
		return checkVersions(r.Version, r.CleanShutdown, target)
	}
	_, err = dir.Lstat("mysql.ibd")
	dictionary := err == nil
	if target.Flavour != version.MySQL || target.Before(8, 0) || !dictionary {
		return exit.With(agent.ExitVersion,
			"the directory does not show which version of the server wrote it. Nothing was written. Start and stop "+
				"that server once more, run its mysql_upgrade, or import a dump")
	}
	if !r.CleanShutdown {
		return exit.With(agent.ExitUnclean,
			"the server that wrote the directory did not stop cleanly, and its version is unknown. Nothing was "+
				"written. Start and stop that server once more")
	}
	return checkVersions("8.0.0", true, target) // Only MySQL 8.4 and newer store the version.
}

// copyInto copies the data to a temporary directory. A later rename makes it the data directory of the server.
func (i *Import) copyInto(ctx context.Context, v *datavolume.Volume, t foreignTree, contents Contents) error {
	if err := v.MkdirAll(datavolume.ImportedHalf, 0o700); err != nil {
		return err
	}
	root, err := v.OpenRoot(datavolume.ImportedHalf)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // What was written was synced.
	i.hook.after(stepBegun)
	m := agent.StartMeter(i.Output, agent.PhaseCopy, contents.DataBytes)
	defer m.Stop()
	u := newUnpacker(root)
	defer u.waitForWriters()
	if err := t.copyTo(ctx, u, m); err != nil {
		return explainForeign(t.Root, err)
	}
	if err := u.finishDirs(); err != nil {
		return err
	}
	// The second measurement detects a process that writes without the server's locks.
	second, err := t.measure(ctx)
	if err == nil && second != contents {
		err = errors.New("the directory to import changed during the copy: another process writes to it")
	}
	return err
}

func (i *Import) printLinef(format string, args ...any) {
	fmt.Fprintf(i.Output, format+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}

// A foreignTree is the data directory of a server that the product has not created.
type foreignTree struct{ tree }

// measure returns the number of entries and a checksum over names, sizes and times.
func (t foreignTree) measure(ctx context.Context) (Contents, error) {
	l := newListing()
	err := t.walk(ctx, func(e *entry) error {
		l.addEntry(e, 0)
		return nil
	})
	return l.sumEntries(), err
}

// walk visits the entries to import. It visits each directory before its contents.
func (t foreignTree) walk(ctx context.Context, visit func(*entry) error) error {
	return t.visitDir(ctx, ".", t.statForeign, visit)
}

// statForeign returns the entry for a path in the data directory to import. It returns nil if the file belongs to the
// old server or to the file system, and is not imported. All entries get the owner of the new server.
func (t foreignTree) statForeign(name string) (*entry, error) {
	if foreign.Skip(name) {
		return nil, nil //nolint:nilnil // Neither an entry nor an error.
	}
	e, err := t.statEntry(name)
	switch {
	case errors.Is(err, errUnknownType):
		return nil, exit.With(agent.ExitSource, "nothing is imported: %w", err)
	case agent.CodeOf(err) == agent.ExitOutside:
		return nil, exit.With(agent.ExitSource, "nothing is imported: %w. Then stop the server, and import again", err)
	case err != nil || e == nil:
		return nil, err
	case e.isSymlink(): // Links inside of the tree are refused as well, because another server may not follow them.
		return nil, exit.With(agent.ExitSource,
			"%q in the directory to import is a symbolic link to %.200q. Data outside of the directory would be "+
				"missing: move it into the directory first", e.name, e.link)
	}
	e.uid, e.gid = int(agent.ServerUID), int(agent.ServerUID)
	switch {
	case name == ".": // It may be the root of a volume, to which all users can write.
		e.mode = fs.ModeDir | 0o750
	case e.mode.IsDir():
		e.mode |= 0o700
	default: // The old server may have had access only as a member of the group.
		e.mode |= 0o600
	}
	return e, nil
}

// copyTo copies the data directory of the foreign server to a target.
func (t foreignTree) copyTo(ctx context.Context, dst target, m *agent.Meter) error {
	return t.walk(ctx, func(e *entry) error {
		w, err := dst.beginEntry(e)
		if err != nil || w == nil {
			return err
		}
		err = t.copyFile(ctx, e, w, m)
		return errors.Join(err, w.Close())
	})
}

func (t foreignTree) copyFile(ctx context.Context, e *entry, target io.Writer, m *agent.Meter) error {
	f, err := t.openEntry(e)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	n, err := io.Copy(target, &meteredReader{ctx: ctx, from: f, meter: m})
	if err == nil && n != e.size {
		err = fmt.Errorf("%q changed during the copy: another process writes to the data directory", e.name)
	}
	return err
}

// A meteredReader reports progress to its meter, and stops when its context is canceled.
type meteredReader struct {
	ctx   context.Context //nolint:containedctx // The context is used only while the reader exists.
	from  io.Reader
	meter *agent.Meter
}

func (r *meteredReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.from.Read(p)
	r.meter.Add(int64(n))
	return n, err
}
