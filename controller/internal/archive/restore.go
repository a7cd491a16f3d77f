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

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// A Restore unpacks an archive onto a data volume that holds no database.
type Restore struct {
	// Archive is the file, or with a Remote the object, and SHA256 its sum as the
	// MySQLBackup has it. What the backup volume itself says of the archive is not
	// believed.
	Archive, SHA256 string
	// Remote is the store that the archive lies in; nil where it is a file.
	Remote *Remote
	// Volume is where the data volume is mounted, Directory the folder in its root
	// that the data goes to.
	Volume, Directory string
	// XR whose data it is from then on.
	XR types.UID
	// Source is the version of the server that wrote the data, as it gave it;
	// SourceClean is true if it stopped cleanly.
	Source      string
	SourceClean bool
	// Target is a version.json of the server that is to take over.
	Target string
	// Output takes the progress lines.
	Output io.Writer

	// inside takes the place of Volume, where that is not to be found by its path.
	inside *os.Root
	// hook is called after each step, by name. Tests crash there.
	hook func(step string)
}

// Run the restore. The report is there also with an error, which is an
// ExitError.
func (s *Restore) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "restore"}
	err := exit.CodeOf(ctx, s.runRestore(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

func (s *Restore) afterStep(name string) {
	if s.hook != nil {
		s.hook(name)
	}
}

func (s *Restore) runRestore(ctx context.Context, r *agent.Report) error {
	target, err := version.Read(s.Target)
	if err != nil {
		return fmt.Errorf("cannot read the version of the server that is to take over: %w", err)
	}
	if err := checkVersions(s.Source, s.SourceClean, target); err != nil {
		return err
	}
	if !sumPattern.MatchString(s.SHA256) {
		return exit.With(agent.ExitFailed, "%.100q is not a SHA-256 sum", s.SHA256)
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
		return exit.With(agent.ExitOccupied, "the volume already holds data in %q, and not what this restore put there; nothing was written", s.Directory)
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

// checkVersions against the steps that servers can take.
func checkVersions(source string, clean bool, target version.Version) error {
	from, err := version.Parse(source)
	if err != nil {
		return exit.With(agent.ExitVersion, "the version of the server that wrote the backup is not known: %w", err)
	}
	step, err := version.Between(from, target)
	if err != nil {
		return exit.With(agent.ExitVersion, "%w; nothing was written", err)
	}
	if step != version.None && !clean {
		return exit.With(agent.ExitUnclean, "the server that wrote the backup did not stop cleanly: only %s can recover the data, and the image is %s; nothing was written", from, target)
	}
	return nil
}

// IsDone is true if an earlier run put this archive in place: the marker names it,
// and the folder that it was unpacked into is now the data directory.
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
		return fmt.Errorf("cannot remove what an earlier run left: %w", err)
	}
	if err := m.checkSpace(v); err != nil {
		return err
	}
	half := datavolume.HalfPrefix + s.SHA256[:12]
	if err := s.unpackInto(ctx, v, half, f, m); err != nil {
		_ = v.RemoveAll(half) // The next run removes it otherwise.
		return err
	}
	if err := v.Place(half, datavolume.Marker{XR: s.XR, Archive: filepath.Base(s.Archive), SHA256: s.SHA256}, s.afterStep); err != nil {
		return err
	}
	fillReport(r, m)
	r.Version, r.CleanShutdown = s.Source, s.SourceClean
	return nil
}

// openArchive with its manifest, which is held against what the record says.
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
		return nil, exit.With(agent.ExitMissing, "the archive %q has no %s beside it", s.Archive, ManifestName)
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
		return nil, exit.Damaged("the manifest is of an archive with the SHA-256 %s, and the backup's record says %s", m.SHA256, s.SHA256)
	case info.Size() != m.Size:
		return nil, exit.Damaged("the archive has %d bytes, and its manifest says %d", info.Size(), m.Size)
	}
	return m, nil
}

// checkSpace fails if the data does not fit on a volume.
func (m *archiveManifest) checkSpace(v *datavolume.Volume) error {
	have, err := freeSpace(v.Root)
	if err != nil {
		return err
	}
	if need := m.DataBytes + m.Entries*entryBytes + slackBytes; need > have {
		return exit.With(agent.ExitNoSpace, "the data needs %d MiB, and the volume has %d MiB free; nothing was written", need/mebi+1, have/mebi)
	}
	return nil
}

// unpackInto a new folder, where no server looks.
func (s *Restore) unpackInto(ctx context.Context, v *datavolume.Volume, half string, f io.Reader, manifest *archiveManifest) error {
	if err := v.Mkdir(half, 0o700); err != nil {
		return err
	}
	root, err := v.OpenRoot(half)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // What was written was synced.
	s.afterStep(stepBegun)
	m := agent.StartMeter(s.Output, agent.PhaseUnpack, manifest.DataBytes)
	defer m.Stop()
	u := newUnpacker(root)
	defer u.waitForWriters()
	if err := readArchive(ctx, f, manifest.writtenArchive(), withoutIdentity{u}, m); err != nil {
		return err
	}
	return u.finishFolders()
}

// withoutIdentity is an unpacker that reads the server's identity and does not write it: the server that the
// backup is from may still run, and two servers with one server_uuid cannot be told apart by their GTIDs or
// by a replica. mysqld writes a new auto.cnf when it starts without one (MySQL manual, 19.1.4, server_uuid).
// MariaDB has no such file.
type withoutIdentity struct{ *unpacker }

func (u withoutIdentity) beginEntry(e *entry) (io.WriteCloser, error) {
	if e.name == serverID && e.mode.IsRegular() {
		return discarded{}, nil
	}
	return u.unpacker.beginEntry(e)
}

// discarded is a file whose content is read and counted, and not written.
type discarded struct{}

func (discarded) Write(p []byte) (int, error) { return len(p), nil }

func (discarded) Close() error { return nil }
