package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// A Restore unpacks an archive onto a data volume that holds no database.
type Restore struct {
	// Archive is the file or, with a Remote, the object. SHA256 is its checksum from the BackupRecord. The checksum
	// on the backup volume itself is not trusted.
	Archive, SHA256 string
	// Remote is the store that contains the archive, or nil for a file.
	Remote *Remote
	// Volume is the mount path of the data volume. Directory is the name of the data directory in the volume's root.
	Volume, Directory string
	// XR is the UID of the composite resource that owns the restored data.
	XR types.UID
	// Source is the version that the server of the backup reported. SourceClean is true if that server stopped
	// cleanly.
	Source      string
	SourceClean bool
	// Target is the path of the version.json of the server that will use the data.
	Target string
	// Output receives the progress lines.
	Output io.Writer

	// inside is an open directory that is used instead of Volume. A restore test sets it to the directory for its
	// copy.
	inside *os.Root
	// hook is called after each step, with the step's name. Tests simulate a crash in it.
	hook stepHook
}

// Run runs the restore. It returns a report even if it fails. Each error is an ExitError.
func (s *Restore) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "restore", s.runRestore)
}

func (s *Restore) runRestore(ctx context.Context, r *agent.Report) error {
	target, err := version.Read(s.Target)
	if err != nil {
		return fmt.Errorf("cannot read the version of the new server: %w", err)
	}
	if err := checkVersions(s.Source, s.SourceClean, target); err != nil {
		return err
	}
	if !sumPattern.MatchString(s.SHA256) {
		return exit.With(agent.ExitFailed, "%.100q is not a SHA-256 checksum", s.SHA256)
	}
	v, err := s.openVolume()
	if err != nil {
		return err
	}
	defer v.CloseVolume()
	state, err := v.DataState()
	if err != nil {
		return err
	}
	done, err := s.isDone(v, state)
	switch {
	case err != nil:
		return err
	case done:
		r.Already, r.SHA256 = true, s.SHA256
		r.Archive, r.Version, r.CleanShutdown = filepath.Base(s.Archive), s.Source, s.SourceClean
		return nil
	case !state.Empty:
		return exit.With(agent.ExitOccupied,
			"the volume already contains data in %q that this restore did not write. Nothing was written", s.Directory)
	}
	return s.restoreInto(ctx, r, v)
}

func (s *Restore) openVolume() (*datavolume.Volume, error) {
	if s.inside == nil {
		return datavolume.OpenVolume(s.Volume, s.Directory)
	}
	root, err := s.inside.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	return datavolume.NewVolume(root, s.Directory)
}

// checkVersions returns an error if the target cannot start on data of the source version.
func checkVersions(source string, clean bool, target version.Version) error {
	from, err := version.Parse(source)
	if err != nil {
		return exit.With(agent.ExitVersion, "the version of the server that wrote the backup is unknown: %w", err)
	}
	step, err := version.Between(from, target)
	if err != nil {
		return exit.With(agent.ExitVersion, "%w; nothing was written", err)
	}
	if step != version.None && !clean {
		return exit.With(agent.ExitUnclean,
			"the server that wrote the backup did not stop cleanly, so only %s can recover the data, but the image "+
				"is %s. Nothing was written", from, target)
	}
	return nil
}

// isDone reports whether an earlier run has restored this archive. If so, the marker contains the checksum of the
// archive and the inode of the data directory.
func (s *Restore) isDone(v *datavolume.Volume, state datavolume.DataState) (bool, error) {
	if state.Empty {
		return false, nil
	}
	m, err := v.ReadMarker()
	if err != nil || m == nil {
		return false, err
	}
	return m.XR == s.XR && m.Archive == filepath.Base(s.Archive) && m.SHA256 == s.SHA256 && m.Inode == state.Inode, nil
}

func (s *Restore) restoreInto(ctx context.Context, r *agent.Report, v *datavolume.Volume) error {
	f, m, err := s.openArchive(ctx)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	if err := v.ClearHalves(); err != nil {
		return fmt.Errorf("cannot remove the files of an earlier run: %w", err)
	}
	if err := m.checkSpace(v); err != nil {
		return err
	}
	half := datavolume.HalfPrefix + s.SHA256[:12]
	if err := s.unpackInto(ctx, v, half, f, m); err != nil {
		_ = v.RemoveAll(half) // If this fails, the next run removes it.
		return err
	}
	if err := v.Place(half, datavolume.Marker{XR: s.XR, Archive: filepath.Base(s.Archive), SHA256: s.SHA256},
		s.hook.after); err != nil {
		return err
	}
	fillReport(r, m)
	r.Version, r.CleanShutdown = s.Source, s.SourceClean
	return nil
}

// openArchive opens the archive and its manifest, and checks the manifest against the expected checksum.
func (s *Restore) openArchive(ctx context.Context) (io.ReadCloser, *archiveManifest, error) {
	if s.Remote != nil {
		return s.Remote.openArchive(ctx, s.Archive, s.SHA256)
	}
	f, err := openRegular(s.Archive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, exit.With(agent.ExitMissing, "the archive %q is not on the backup volume", s.Archive)
	}
	if err != nil {
		return nil, nil, err
	}
	m, err := s.readManifest(f)
	if err != nil {
		_ = f.Close() // Nothing was written.
		return nil, nil, err
	}
	return f, m, nil
}

func (s *Restore) readManifest(f *os.File) (*archiveManifest, error) {
	m, err := readManifest(s.Archive)
	if errors.Is(err, errNoManifest) {
		return nil, exit.With(agent.ExitMissing, "the archive %q has no %s next to it", s.Archive, ManifestName)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case m.SHA256 != s.SHA256:
		return nil, exit.Damaged("the manifest belongs to an archive with the SHA-256 checksum %s, but the "+
			"BackupRecord has %s",
			m.SHA256, s.SHA256)
	case info.Size() != m.Size:
		return nil, exit.Damaged("the archive is %d bytes long, but should be %d bytes long according to its manifest",
			info.Size(), m.Size)
	}
	return m, nil
}

// checkSpace returns an error if the unpacked data does not fit on the volume.
func (m *archiveManifest) checkSpace(v *datavolume.Volume) error {
	free, err := freeSpace(v.Root)
	if err != nil {
		return err
	}
	if need := m.DataBytes + m.Entries*entryBytes + slackBytes; need > free {
		return exit.With(agent.ExitNoSpace, "the data needs %d MiB, but the volume has only %d MiB free. Nothing "+
			"was written",
			need/mebi+1, free/mebi)
	}
	return nil
}

// unpackInto unpacks the archive to a new directory, which no server uses.
func (s *Restore) unpackInto(ctx context.Context, v *datavolume.Volume, half string, f io.Reader,
	manifest *archiveManifest) error {
	if err := v.Mkdir(half, 0o700); err != nil {
		return err
	}
	root, err := v.OpenRoot(half)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // What was written was synced.
	s.hook.after(stepBegun)
	m := agent.StartMeter(s.Output, agent.PhaseUnpack, manifest.DataBytes)
	defer m.Stop()
	u := newUnpacker(root)
	defer u.waitForWriters()
	if err := readArchive(ctx, f, manifest.writtenArchive(), withoutIdentity{u}, m); err != nil {
		return err
	}
	return u.finishDirs()
}

// withoutIdentity is an unpacker that reads the server's identity but does not write it. The server of the backup may
// still run, and neither GTIDs nor a replica can distinguish two servers with the same server_uuid. mysqld writes a
// new auto.cnf if it starts without one (MySQL manual, 19.1.4, server_uuid). MariaDB has no such file.
type withoutIdentity struct{ *unpacker }

func (u withoutIdentity) beginEntry(e *entry) (io.WriteCloser, error) {
	if e.name == serverID && e.mode.IsRegular() {
		return discarded{}, nil
	}
	return u.unpacker.beginEntry(e)
}

// discarded is a writer for a file whose content is verified but not written.
type discarded struct{}

func (discarded) Write(p []byte) (int, error) { return len(p), nil }

func (discarded) Close() error { return nil }
