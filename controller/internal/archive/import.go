package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// An Import puts the data of a server that is not ours onto a data volume that holds no database,
// as a Restore does with an archive: into a folder where no server looks, which is renamed when all
// is there.
//
//	a volume:           ── copy ───────────────────────▶ .restore-import/data ── rename ─▶ data
//	a server, a dump:   ── a container of its image ───▶ .restore-import/data ── rename ─▶ data
type Import struct {
	datavolume.Half

	// From is where the volume to copy from is mounted to be read, and Within the data directory in it; empty is its
	// root. Without From it is what a container before this one has made.
	From, Within string
	// Target is a version.json of the server that is to take over.
	Target string
	// Output takes the progress lines.
	Output io.Writer

	// hook is called after each step, by name. Tests crash there.
	hook func(step string)
}

// Files that are a server's own. Its identity is one server's only: the one that is imported from may go on (MySQL manual, 19.1.4
// Replication and Binary Logging Options, server_uuid). What it was told to persist counts before my.cnf, and may be what that refuses
// (7.1.9.3 Persisted System Variables).
const (
	serverID         = "auto.cnf"
	persistedOptions = "mysqld-auto.cnf"
)

// Run the import. The report is there also with an error, which is an ExitError.
func (i *Import) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "import"}
	err := exit.CodeOf(ctx, i.runImport(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

func (i *Import) afterStep(name string) {
	if i.hook != nil {
		i.hook(name)
	}
}

func (i *Import) runImport(ctx context.Context, r *agent.Report) error {
	target, err := version.Read(i.Target)
	if err != nil {
		return fmt.Errorf("cannot read the version of the server that is to take over: %w", err)
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
		return i.tidy(v) // Nobody knows how far the run came that put it there.
	case i.From == "":
		err = i.takeMade(r, v, target)
	default:
		err = i.copyData(ctx, r, v, target)
	}
	if err != nil {
		return err
	}
	if err := v.Place(datavolume.ImportedHalf, datavolume.Marker{XR: i.XR, Archive: datavolume.ImportPrefix + i.Name}, i.afterStep); err != nil {
		return err
	}
	return i.tidy(v)
}

// tidy up beside the data.
func (i *Import) tidy(v *datavolume.Volume) error { return v.RemoveAll(agent.ImportFolder) }

// takeMade data, once its server has stopped cleanly.
func (i *Import) takeMade(r *agent.Report, v *datavolume.Volume, target version.Version) error {
	if _, err := v.Lstat(path.Join(agent.ImportFolder, datavolume.CompleteName)); errors.Is(err, fs.ErrNotExist) {
		return errors.New("the container before this one has left no data: it begins anew with the next pod")
	}
	stopped, err := v.StoppedIn(datavolume.ImportedHalf)
	if err != nil {
		return err
	}
	if stopped.Known && !stopped.Clean {
		return fmt.Errorf("the server that made the data did not stop cleanly: %s", stopped.Reason)
	}
	r.Version, r.CleanShutdown = target.String(), true
	if err := unix.Syncfs(datavolume.FileDescriptor(v.Handle)); err != nil {
		return fmt.Errorf("cannot write the data to disk: %w", err)
	}
	return nil
}

// copyData of a stopped server, under the locks that it would take.
func (i *Import) copyData(ctx context.Context, r *agent.Report, v *datavolume.Volume, target version.Version) error {
	dir, err := i.openSource()
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	if err := checkDataDirectory(dir); err != nil {
		return err
	}
	locks, err := datadir.Lock(dir)
	if err != nil {
		return explainForeign(err)
	}
	defer locks.Release()
	stopped, err := datavolume.HowStopped(dir)
	if err != nil {
		return explainForeign(err)
	}
	r.Version, r.CleanShutdown = datadir.Version(dir, "", ""), stopped.Known && stopped.Clean
	i.printLinef("Version %s, clean shutdown: %t (%s)", r.Version, r.CleanShutdown, stopped.Reason)
	if err := i.checkVersions(dir, r, stopped, target); err != nil {
		return err
	}
	if err := v.ClearHalves(); err != nil {
		return fmt.Errorf("cannot remove what an earlier run left: %w", err)
	}
	t := foreignTree{tree{Root: dir}}
	contents, err := t.measure(ctx)
	if err != nil {
		return explainForeign(err)
	}
	if err := (&archiveManifest{Contents: contents}).checkSpace(v); err != nil {
		return err
	}
	if err := i.copyInto(ctx, v, t, contents); err != nil {
		_ = i.tidy(v) // The next run removes it otherwise.
		return err
	}
	r.DataBytes = contents.DataBytes
	return nil
}

// openSource, which may not lead out of its volume.
func (i *Import) openSource() (*os.Root, error) {
	root, err := os.OpenRoot(i.From)
	if err != nil {
		return nil, explainForeign(err)
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	dir, err := root.OpenRoot(cmp.Or(i.Within, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.With(agent.ExitMissing, "the volume to import has no folder %q", i.Within)
	}
	if err != nil {
		return nil, explainForeign(err)
	}
	return dir, nil
}

// checkDataDirectory is nil of a folder that a server of MySQL or MariaDB has written.
func checkDataDirectory(dir *os.Root) error {
	if _, err := dir.Lstat("ibdata1"); errors.Is(err, fs.ErrNotExist) {
		return exit.With(agent.ExitMissing, "there is no ibdata1 in the folder to import, which each server's data directory has: set directory to the folder that has it")
	} else if err != nil {
		return explainForeign(err)
	}
	return nil
}

// checkVersions against the steps that servers can take. Whose version nobody knows may be of the series that takes
// over, if what it left is whole: that server looks for itself.
func (i *Import) checkVersions(dir *os.Root, r *agent.Report, stopped datadir.Shutdown, target version.Version) error {
	if err := checkVersions(r.Version, true, target); r.Version != "" && err != nil {
		return err
	}
	from, err := version.Parse(r.Version)
	if err == nil && !stopped.Known && from.String() != target.String() {
		return exit.With(agent.ExitUnclean, "nobody can see in its files whether the server %s stopped cleanly, as in those of MySQL from 8.0.30 on: only that very version takes them over; nothing was written. Set the image to it, and to a newer one afterwards, or import a dump", r.Version)
	}
	if r.Version != "" {
		return checkVersions(r.Version, r.CleanShutdown, target)
	}
	_, err = dir.Lstat("mysql.ibd")
	dictionary := err == nil
	if target.Flavour != version.MySQL || target.Before(8, 0) || !dictionary {
		return exit.With(agent.ExitVersion, "nothing in the folder says which server has written it; nothing was written. Start that server once more and stop it, run its mysql_upgrade, or import a dump")
	}
	if !r.CleanShutdown {
		return exit.With(agent.ExitUnclean, "the server that wrote the folder did not stop cleanly, and says nowhere which version it is of: start that very server on it once more, and stop it; nothing was written")
	}
	return checkVersions("8.0.0", true, target) // A server of 8.0 leaves no word of its version, and 8.4 and newer do.
}

// copyInto the folder of the half.
func (i *Import) copyInto(ctx context.Context, v *datavolume.Volume, t foreignTree, contents Contents) error {
	if err := v.MkdirAll(datavolume.ImportedHalf, 0o700); err != nil {
		return err
	}
	root, err := v.OpenRoot(datavolume.ImportedHalf)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // What was written was synced.
	i.afterStep(stepBegun)
	m := agent.StartMeter(i.Output, agent.PhaseCopy, contents.DataBytes)
	defer m.Stop()
	u := newUnpacker(root)
	defer u.waitForWriters()
	if err := t.copyTo(ctx, u, m); err != nil {
		return explainForeign(err)
	}
	if err := u.finishFolders(); err != nil {
		return err
	}
	// Who writes without a server's locks is seen by what has changed.
	again, err := t.measure(ctx)
	if err == nil && again != contents {
		err = errors.New("the folder to import changed while it was copied: something writes to it")
	}
	return err
}

func (i *Import) printLinef(format string, args ...any) {
	fmt.Fprintf(i.Output, format+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}

// explainForeign says what to do about files that another user's server has left.
func explainForeign(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return exit.With(agent.ExitFailed, "%w: the files to import are read as user %d, but for those in a folder of a node; give them to it (chown -R %[2]d:%[2]d), on a copy of the volume if the server they are of goes on", err, agent.ServerUID)
	}
	return err
}

// A foreignTree is a data directory of a server that is not ours.
type foreignTree struct{ tree }

// measure it by names, sizes and times.
func (t foreignTree) measure(ctx context.Context) (Contents, error) {
	l := newListing()
	err := t.walk(ctx, func(e *entry) error {
		l.addEntry(e, 0)
		return nil
	})
	return l.sumEntries(), err
}

// walk what is imported, each folder before what is in it.
func (t foreignTree) walk(ctx context.Context, visit func(*entry) error) error {
	return t.visitFolder(ctx, ".", t.statForeign, visit)
}

// statForeign leaves out what is the server's own, and what the file system has at the root of a volume. The server that takes
// over owns the rest.
func (t foreignTree) statForeign(name string) (*entry, error) {
	if name == serverID || name == persistedOptions || name == datavolume.LostAndFound {
		return nil, nil //nolint:nilnil // Neither an entry nor an error.
	}
	e, err := t.statEntry(name)
	switch {
	case agent.CodeOf(err) == agent.ExitOutside:
		return nil, exit.With(agent.ExitFailed, "nothing is imported: %w; then stop it, and import again", err)
	case err != nil || e == nil:
		return nil, err
	case e.isSymlink(): // Inside, where another server may not follow it.
		return nil, exit.With(agent.ExitFailed, "%q in the folder to import is a symbolic link to %.200q: data that lies elsewhere would be missing. Bring it into the folder first", e.name, e.link)
	}
	if e.uid, e.gid = int(agent.ServerUID), int(agent.ServerUID); name == "." { // It may be the root of a volume, that is everybody's.
		e.mode = fs.ModeDir | 0o750
	}
	return e, nil
}

// copyTo a target.
func (t foreignTree) copyTo(ctx context.Context, to target, m *agent.Meter) error {
	return t.walk(ctx, func(e *entry) error {
		w, err := to.beginEntry(e)
		if err != nil || w == nil {
			return err
		}
		err = t.copyFile(ctx, e, w, m)
		return errors.Join(err, w.Close())
	})
}

func (t foreignTree) copyFile(ctx context.Context, e *entry, to io.Writer, m *agent.Meter) error {
	f, err := t.openEntry(e)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	n, err := io.Copy(to, &meteredReader{ctx: ctx, from: f, meter: m})
	if err == nil && n != e.size {
		err = fmt.Errorf("%q changed while it was copied: something else writes to the data directory", e.name)
	}
	return err
}

// A meteredReader counts, and ends with its context.
type meteredReader struct {
	ctx   context.Context //nolint:containedctx // It is the reader's own.
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
