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

	// Volume is the mount path of the data volume. Directory is the name of the data directory in the volume's root.
	Volume, Directory string
	// Archive is the path of the archive to create. Each archive has its own directory, which is created if it is
	// missing. With a Remote, Archive is the prefix of the backup's objects.
	Archive string
	// Remote is the store that the archive is sent to. It is nil if the archive is a file.
	Remote *Remote
	// Image is the server's image. Version is the version that the server reported, or "" if the controller never
	// reached the server. A version on the volume takes precedence.
	Image, Version string
	// Number is the number of the backup, and StorageSize the storage size of the instance. Both are only copied to
	// the manifest.
	Number      int64
	StorageSize string
	// NeverServed is true if no client ever reached the server. If the data directory then contains no database, its
	// files are the remains of an interrupted initialization. They are not backed up, because no client could log in
	// to a server that was restored from them.
	NeverServed bool
	// WithoutOutside is true if a user has accepted a backup without the tables that are stored outside of the data
	// directory. If it is false, the backup fails if such tables exist.
	WithoutOutside bool
	// Announced is the creation time of the BackupRecord. It is zero if the time is unknown.
	Announced time.Time
	// Output receives the progress lines.
	Output io.Writer

	// hook is called after each step, with the step's name. Tests simulate a crash in it.
	hook stepHook
}

// Steps of backup and restore after which the crash tests kill the process.
const (
	stepLocked   = "locked"
	stepBegun    = "begun"
	stepWritten  = "written"
	stepSynced   = "synced"
	stepVerified = "proven"
	stepManifest = "manifest"
)

// A stepHook is called after each step, with the step's name. It is nil outside of tests.
type stepHook func(step string)

func (h stepHook) after(name string) {
	if h != nil {
		h(name)
	}
}

// Run runs the backup. It returns a report even if it fails. Each error is an ExitError.
func (b *Backup) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "backup", b.runBackup)
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
	if b.Remote == nil { // In a store, the gateway refuses to overwrite a finished backup.
		finished, err = b.finishedManifest()
	}
	switch {
	case err != nil:
		return err
	case state.Empty && finished != nil:
		return b.verifyAgain(ctx, r, finished)
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

// finishedManifest returns the manifest of the archive that an earlier run has created, or nil if there is none. It
// returns an error if the archive belongs to a different backup or its owner is unknown, because a backup never
// overwrites a foreign archive.
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
		return nil, exit.With(agent.CodeOf(err),
			"%s already exists, and its instance is unknown: %w. Inspect the file, and move it away", base, err)
	}
	if m.Identity != b.Identity {
		return nil, exit.With(agent.ExitFailed,
			"%s already exists, and belongs to backup %q of instance %s/%s with the UID %s", base, m.Record,
			m.Instance.Namespace, m.Instance.Name, m.Instance.XR)
	}
	return m, nil
}

// checkPlaceIsFree returns an error if the directory contains a different archive. The manifest of that archive would
// be overwritten, and without its manifest it could not be restored.
func (b *Backup) checkPlaceIsFree() error {
	m, err := readManifest(b.Archive)
	other := new(otherArchiveError)
	if m != nil || !errors.As(err, &other) {
		return nil // A manifest that cannot be read is replaced.
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(b.Archive), other.name)); err != nil {
		return nil //nolint:nilerr // An archive that does not exist needs no manifest.
	}
	return exit.With(agent.ExitFailed, "the directory of the archive contains %q, but each archive needs its own "+
		"directory", other.name)
}

func (b *Backup) verifyAgain(ctx context.Context, r *agent.Report, m *archiveManifest) error {
	if err := verifyArchive(ctx, b.Archive, m.writtenArchive(), b.Output); err != nil {
		return err
	}
	r.Already = true
	fillReport(r, m)
	return nil
}

func (m *archiveManifest) writtenArchive() written {
	return written{Contents: m.Contents, size: m.Size, sum: m.SHA256}
}

// writeArchive archives the data directory. Until all data is read, it holds the file locks that a running server
// would hold, so that no server can start.
func (b *Backup) writeArchive(ctx context.Context, r *agent.Report, v *datavolume.Volume,
	finished *archiveManifest) error {
	dir, release, err := v.LockDir(b.Directory)
	if err != nil {
		return err
	}
	defer release()
	b.hook.after(stepLocked)
	if b.NeverServed && finished == nil {
		if found, err := datadir.HasDatabase(dir); err != nil || !found {
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
	// If an earlier run has finished the archive and the data is unchanged, the archive is only verified again. A
	// damaged archive is replaced, because the data still exists.
	if finished != nil && finished.Tree == outline.Tree {
		err := b.verifyAgain(ctx, r, finished)
		if err == nil || agent.CodeOf(err) != agent.ExitDamaged && agent.CodeOf(err) != agent.ExitMissing {
			return err
		}
		b.printLinef("The archive of an earlier run is damaged and is written again: %v", err)
	}
	m, err := b.newManifest(v, dir)
	if err != nil {
		return err
	}
	if b.Remote != nil {
		err = b.sendAndVerify(ctx, r, t, outline, m)
	} else {
		err = b.writeAndVerify(ctx, t, outline, m)
	}
	if err != nil {
		return err
	}
	fillReport(r, m)
	return nil
}

// clocksDiffer is the assumed maximum difference between the clocks of a node and of the API server.
const clocksDiffer = time.Minute

// checkMayReplace returns an error if the archive of an earlier run must not be replaced. Such an archive is older
// than the BackupRecord, and contains other data. If a cluster is restored from an etcd snapshot together with its
// data, it may request the same backup twice. Only the first archive contains the data that was written in between.
func (b *Backup) checkMayReplace(finished *archiveManifest, outline Contents) error {
	if finished == nil || finished.Tree == outline.Tree || !finished.StartedAt.Add(clocksDiffer).Before(b.Announced) {
		return nil
	}
	return exit.With(agent.ExitFailed,
		"the backup volume already contains a finished backup %q of %s with other data. It is older than the "+
			"BackupRecord, so the cluster was restored from an earlier state. The controller does not overwrite "+
			"that backup. Inspect it, and move the directory %s away",
		b.Record, finished.StartedAt.UTC().Format(time.RFC3339), filepath.Base(filepath.Dir(b.Archive)))
}

// outlineTree returns the number of entries and a checksum over names, sizes and times. It does not read the files.
func (t tree) outlineTree(ctx context.Context) (Contents, error) {
	l := newListing()
	err := t.walkEntries(ctx, func(e *entry) error {
		l.addEntry(e, 0)
		return nil
	})
	return l.sumEntries(), err
}

// newManifest returns the manifest of a new archive. It contains only the fields that are known before the copy,
// such as the version and whether the server stopped cleanly.
func (b *Backup) newManifest(v *datavolume.Volume, dir *os.Root) (*archiveManifest, error) {
	stopped, err := datavolume.HowStopped(dir)
	if err != nil {
		return nil, err
	}
	m := &archiveManifest{
		Format: formatVersion, Identity: b.Identity, Image: b.Image,
		Version: datadir.Version(dir, v.StartedVersion(), b.Version), Number: b.Number, StorageSize: b.StorageSize,
		Archive: filepath.Base(b.Archive), StartedAt: time.Now().UTC(),
	}
	m.CleanShutdown, m.Shutdown = stopped.Known && stopped.Clean, stopped.Reason
	b.printLinef("Clean shutdown: %t (%s)", m.CleanShutdown, m.Shutdown)
	return m, nil
}

func (b *Backup) printLinef(format string, args ...any) {
	fmt.Fprintf(b.Output, format+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}
