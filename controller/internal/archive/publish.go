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

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// writeAndVerify writes the archive to a temporary file in its directory, verifies it, and renames it.
func (b *Backup) writeAndVerify(ctx context.Context, t tree, outline Contents, m *archiveManifest) (err error) {
	dir, base, err := splitPath(b.Archive)
	if err != nil {
		return err
	}
	// A failure to remove files is only printed, because the free space may still suffice.
	if err := makeRoom(filepath.Dir(dir), base+datavolume.PartialSuffix); err != nil {
		b.printLinef("Cannot remove incomplete files on the backup volume: %v", err)
	}
	if err := datavolume.MakeDir(dir); err != nil {
		return fmt.Errorf("cannot create the directory of the archive: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(dir) // Only if it is empty. The next backup may use a different directory.
		}
	}()
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // What was written was synced.
	if err := removeStale(root, base+datavolume.PartialSuffix); err != nil {
		return err
	}
	if err := t.checkSpace(ctx, root, outline); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(base + datavolume.PartialSuffix) // If this fails, the next run removes it.
		}
	}()
	w, err := b.writePartial(ctx, t, root, base+datavolume.PartialSuffix, outline)
	if err != nil {
		return err
	}
	if w.Tree != outline.Tree {
		return errors.New("the data directory changed during the copy")
	}
	if err := verifyArchive(ctx, b.Archive+datavolume.PartialSuffix, *w, b.Output); err != nil {
		return err
	}
	b.hook.after(stepVerified)
	m.Contents, m.Size, m.SHA256, m.FinishedAt = w.Contents, w.size, w.sum, time.Now().UTC()
	return b.publishArchive(root, base, m)
}

// makeRoom frees space on the backup volume at a path: it removes the copy of a restore test and incomplete archives.
// It does nothing if the path does not exist.
func makeRoom(path, half string) error {
	volume, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer volume.Close() //nolint:errcheck // Nothing was written through it.
	return errors.Join(removeCopyIn(volume), removeHalves(volume, half))
}

// removeHalves removes incomplete archives from all directories of a backup volume. Killed runs have left them, and
// there may be no later run for the same directory.
func removeHalves(volume *os.Root, name string) error {
	dirs, err := fs.ReadDir(volume.FS(), ".")
	if err != nil {
		return err
	}
	var failed []error
	for _, entry := range dirs {
		if !entry.IsDir() || entry.Name() == datavolume.LostAndFound {
			continue
		}
		if err := removeHalfIn(volume, entry.Name(), name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", entry.Name(), err))
		}
	}
	return errors.Join(failed...)
}

// removeHalfIn removes an incomplete archive from a directory, unless a process is still writing it.
func removeHalfIn(volume *os.Root, dir, name string) error {
	root, err := volume.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	if err := removeStale(root, name); agent.CodeOf(err) != agent.ExitBusy {
		return err
	}
	return nil
}

// removeStale removes a file of an earlier run, unless that run is still in progress.
func removeStale(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	// If the file exists but cannot be opened, no backup has created it. It may be a symbolic link or an unreadable
	// file, and is removed.
	if err != nil {
		if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	defer f.Close() //nolint:errcheck // The file is removed.
	if err := lockFile(f); err != nil {
		return err
	}
	return root.Remove(name)
}

// writePartial writes the archive and holds a lock on its file. A later run detects by the lock that this run is
// still in progress (removeStale).
func (b *Backup) writePartial(ctx context.Context, t tree, root *os.Root, name string, outline Contents) (_ *written,
	err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if err := lockFile(f); err != nil {
		return nil, err
	}
	b.hook.after(stepBegun)
	m := agent.StartMeter(b.Output, agent.PhaseCopy, outline.DataBytes)
	defer m.Stop()
	w, err := t.writeTar(ctx, f, m)
	if err != nil {
		return nil, err
	}
	b.hook.after(stepWritten)
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("cannot write the archive to disk: %w", err)
	}
	b.hook.after(stepSynced)
	return w, datavolume.SyncDir(root)
}

// verifyArchive verifies an archive by reading all of it back from disk, as a restore does. It bypasses the page
// cache.
func verifyArchive(ctx context.Context, path string, w written, output io.Writer) error {
	f, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	dropCache(f)
	m := agent.StartMeter(output, agent.PhaseVerify, w.DataBytes)
	defer m.Stop()
	return readArchive(ctx, f, w, &drain{}, m)
}

// publishArchive writes the manifest before it renames the archive, so that an archive with its final name always
// has a manifest.
func (b *Backup) publishArchive(root *os.Root, base string, m *archiveManifest) error {
	raw, err := m.encodeJSON()
	if err != nil {
		return err
	}
	if err := datavolume.WriteFile(root, ManifestName, raw); err != nil {
		return fmt.Errorf("cannot write the manifest: %w", err)
	}
	b.hook.after(stepManifest)
	if err := root.Rename(base+datavolume.PartialSuffix, base); err != nil {
		return err
	}
	b.hook.after(datavolume.StepRenamed)
	return datavolume.SyncDir(root)
}
