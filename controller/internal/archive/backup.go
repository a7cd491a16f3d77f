package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
)

// A Backup archives the data directory of a stopped server.
type Backup struct {
	Identity

	// Volume is where the data volume is mounted, Directory the folder in its root
	// that holds the data.
	Volume, Directory string
	// Archive is the file to make, in a folder of its own that is made if need be; with
	// a Remote the folder of its objects.
	Archive string
	// Remote is the store that the archive goes to; nil where it is a file.
	Remote *Remote
	// Image of the server, and the Version that it gave as its own; empty where it
	// never answered. What the volume knows counts before it.
	Image, Version string
	// Number of the backup, and StorageSize of the instance, for the manifest.
	Number      int64
	StorageSize string
	// NeverServed is true if no client ever reached the server. Then files without
	// a database are what a first start left that was cut short, and nothing to
	// back up: no server could be entered that was restored from them.
	NeverServed bool
	// WithoutOutside is true if a person has given up what the data directory only points to. The backup
	// fails otherwise.
	WithoutOutside bool
	// Announced is when this backup began to be wanted; zero where nobody says it.
	Announced time.Time
	// Output takes the progress lines.
	Output io.Writer

	// hook is called after each step, by name. Tests crash there.
	hook func(step string)
}

// Steps of backup and restore after which a test crashes.
const (
	stepLocked   = "locked"
	stepBegun    = "begun"
	stepWritten  = "written"
	stepSynced   = "synced"
	stepProven   = "proven"
	stepManifest = "manifest"
)

// Run the backup. The report is there also with an error, which is an ExitError.
func (b *Backup) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "backup"}
	err := exit.CodeOf(ctx, b.runBackup(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

func (b *Backup) afterStep(name string) {
	if b.hook != nil {
		b.hook(name)
	}
}

func (b *Backup) runBackup(ctx context.Context, r *agent.Report) error {
	v, err := datavolume.OpenVolume(b.Volume, b.Directory)
	if err != nil {
		return err
	}
	defer v.CloseVolume()
	state, err := v.DataState()
	if err != nil {
		return err
	}
	var finished *archiveManifest
	if b.Remote == nil { // In a store a backup that is finished has a manifest, and no Job can be run for it.
		finished, err = b.finishedManifest()
	}
	switch {
	case err != nil:
		return err
	case state.Empty && finished != nil:
		return b.proveAgain(ctx, r, finished)
	case state.Empty:
		err := v.CheckNothing()
		r.Empty = err == nil
		return err
	}
	if err := v.CheckOwner(b.Instance.XR); err != nil {
		return err
	}
	return b.writeArchive(ctx, r, v, finished)
}

// finishedManifest is that of the archive which an earlier run made, or nil. An
// archive that is somebody else's, or whose owner cannot be told, is never touched.
func (b *Backup) finishedManifest() (*archiveManifest, error) {
	_, base, err := splitPath(b.Archive)
	if err != nil {
		return nil, err
	}
	f, err := openRegular(b.Archive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, b.checkPlaceIsFree()
	}
	if err != nil {
		return nil, err
	}
	_ = f.Close() // Nothing was written.
	m, err := readManifest(b.Archive)
	if err != nil {
		return nil, exit.With(agent.CodeOf(err), "%s is there already, and whose it is cannot be told: %w. Look at it, and move it away", base, err)
	}
	if m.Identity != b.Identity {
		return nil, exit.With(agent.ExitFailed, "%s is there already, and belongs to backup %q of instance %s/%s with the UID %s", base, m.Record, m.Instance.Namespace, m.Instance.Name, m.Instance.XR)
	}
	return m, nil
}

// checkPlaceIsFree is nil if no other archive needs the manifest's place: without its own
// that archive could not be restored.
func (b *Backup) checkPlaceIsFree() error {
	m, err := readManifest(b.Archive)
	other := new(otherArchiveError)
	if m != nil || !errors.As(err, &other) {
		return nil // What cannot be read is replaced.
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(b.Archive), other.name)); err != nil {
		return nil //nolint:nilerr // What is not there needs no manifest.
	}
	return exit.With(agent.ExitFailed, "the archive's folder holds %q: each archive needs a folder of its own", other.name)
}

func (b *Backup) proveAgain(ctx context.Context, r *agent.Report, m *archiveManifest) error {
	if err := proveArchive(ctx, b.Archive, m.writtenArchive(), b.Output); err != nil {
		return err
	}
	r.Already = true
	fillReport(r, m)
	return nil
}

func (m *archiveManifest) writtenArchive() written {
	return written{Contents: m.Contents, size: m.Size, sum: m.SHA256}
}

// writeArchive of what is in the data directory, under the locks that a server
// takes: none can start while it is read.
func (b *Backup) writeArchive(ctx context.Context, r *agent.Report, v *datavolume.Volume, finished *archiveManifest) error {
	dir, release, err := v.LockFolder(b.Directory)
	if err != nil {
		return err
	}
	defer release()
	b.afterStep(stepLocked)
	if b.NeverServed && finished == nil {
		if has, err := datadir.HasDatabase(dir); err != nil || !has {
			r.Empty = err == nil
			return err
		}
	}
	t := tree{Root: dir, withoutOutside: b.WithoutOutside}
	outline, err := t.outlineTree(ctx)
	if err != nil {
		return err
	}
	if err := b.checkMayReplace(finished, outline); err != nil {
		return err
	}
	// An archive of other contents, or one that was damaged since, is replaced: the
	// data is still here.
	if finished != nil && finished.Tree == outline.Tree {
		err := b.proveAgain(ctx, r, finished)
		if err == nil || agent.CodeOf(err) != agent.ExitDamaged && agent.CodeOf(err) != agent.ExitMissing {
			return err
		}
		b.printLinef("The archive of an earlier run is damaged, and is made again: %v", err)
	}
	m, err := b.newManifest(v, dir)
	if err != nil {
		return err
	}
	if b.Remote != nil {
		err = b.sendAndProve(ctx, r, t, outline, m)
	} else {
		err = b.writeAndProve(ctx, t, outline, m)
	}
	if err != nil {
		return err
	}
	fillReport(r, m)
	return nil
}

// clocksDiffer by so much, those of nodes and of the API server.
const clocksDiffer = time.Minute

// checkMayReplace what an earlier run has finished: not if that was before anybody wanted this backup, and of other data. A cluster that was set
// back, and its data with it, wants a backup a second time, and what was written in between is in the first one alone.
func (b *Backup) checkMayReplace(finished *archiveManifest, outline Contents) error {
	if finished == nil || finished.Tree == outline.Tree || !finished.StartedAt.Add(clocksDiffer).Before(b.Announced) {
		return nil
	}
	return exit.With(agent.ExitFailed, "the volume of the backups has a finished backup %q of %s already, from before this one was announced, and of other data: the cluster was set back since. It is not written over: look at it, and move the folder %s away",
		b.Record, finished.StartedAt.UTC().Format(time.RFC3339), filepath.Base(filepath.Dir(b.Archive)))
}

// outlineTree sums the tree up by names, sizes and times, without reading its files.
func (t tree) outlineTree(ctx context.Context) (Contents, error) {
	l := newListing()
	err := t.walkEntries(ctx, func(e *entry) error {
		l.addEntry(e, 0)
		return nil
	})
	return l.sumEntries(), err
}

// newManifest makes the manifest of a new archive, with what can be read before
// that is written: how the server stopped, and its version.
func (b *Backup) newManifest(v *datavolume.Volume, dir *os.Root) (*archiveManifest, error) {
	stopped, err := datavolume.HowStopped(dir)
	if err != nil {
		return nil, err
	}
	m := &archiveManifest{
		Format: formatVersion, Identity: b.Identity, Image: b.Image, Version: datadir.Version(dir, v.StartedVersion(), b.Version), Number: b.Number, StorageSize: b.StorageSize,
		Archive: filepath.Base(b.Archive), StartedAt: time.Now().UTC(),
	}
	m.CleanShutdown, m.Shutdown = stopped.Known && stopped.Clean, stopped.Reason
	b.printLinef("Clean shutdown: %t (%s)", m.CleanShutdown, m.Shutdown)
	return m, nil
}

func (b *Backup) printLinef(format string, args ...any) {
	fmt.Fprintf(b.Output, format+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}
