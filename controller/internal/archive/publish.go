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

// writeAndProve writes the archive beside its place, proves it, and puts it there.
func (b *Backup) writeAndProve(ctx context.Context, t tree, outline Contents, m *archiveManifest) (err error) {
	folder, base, err := splitPath(b.Archive)
	if err != nil {
		return err
	}
	// Where it cannot be removed there may be room all the same.
	if err := makeRoom(filepath.Dir(folder), base+datavolume.PartialSuffix); err != nil {
		b.printLinef("What others left on the backup volume cannot be removed: %v", err)
	}
	if err := datavolume.MakeFolder(folder); err != nil {
		return fmt.Errorf("cannot make the archive's folder: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(folder) // If nothing is in it: another backup of the instance may have another number.
		}
	}()
	root, err := openFolder(folder)
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
			_ = root.Remove(base + datavolume.PartialSuffix) // The next run removes it otherwise.
		}
	}()
	w, err := b.writePartial(ctx, t, root, base+datavolume.PartialSuffix, outline)
	if err != nil {
		return err
	}
	if w.Tree != outline.Tree {
		return errors.New("the data directory changed while it was copied")
	}
	if err := proveArchive(ctx, b.Archive+datavolume.PartialSuffix, *w, b.Output); err != nil {
		return err
	}
	b.afterStep(stepProven)
	m.Contents, m.Size, m.SHA256, m.FinishedAt = w.Contents, w.size, w.sum, time.Now().UTC()
	return b.publishArchive(root, base, m)
}

// makeRoom on the backup volume at a path, of what a restore test left there, and of halves of archives; where there is no volume,
// there is nothing to do.
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

// removeHalves of archives from a backup volume, in whichever folder a run was killed that nobody repeats.
func removeHalves(volume *os.Root, name string) error {
	folders, err := fs.ReadDir(volume.FS(), ".")
	if err != nil {
		return err
	}
	var failed []error
	for _, of := range folders {
		if !of.IsDir() || of.Name() == datavolume.LostAndFound {
			continue
		}
		if err := removeHalfIn(volume, of.Name(), name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", of.Name(), err))
		}
	}
	return errors.Join(failed...)
}

// removeHalfIn a folder: that of an archive that nobody writes any more.
func removeHalfIn(volume *os.Root, folder, name string) error {
	root, err := volume.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	if err := removeStale(root, name); agent.CodeOf(err) != agent.ExitBusy {
		return err
	}
	return nil
}

// removeStale removes what an earlier run left, unless it is still at work.
func removeStale(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil { // There is none; or not a file of ours, such as a link that leads nowhere, or one that we may not read.
		if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	defer f.Close() //nolint:errcheck // It is removed.
	if err := lockFile(f); err != nil {
		return err
	}
	return root.Remove(name)
}

// writePartial writes the archive under a lock, by which the next run sees in
// removeStale that this one is still at work.
func (b *Backup) writePartial(ctx context.Context, t tree, root *os.Root, name string, outline Contents) (_ *written, err error) {
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
	b.afterStep(stepBegun)
	m := agent.StartMeter(b.Output, agent.PhaseCopy, outline.DataBytes)
	defer m.Stop()
	w, err := t.writeTar(ctx, f, m)
	if err != nil {
		return nil, err
	}
	b.afterStep(stepWritten)
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("cannot write the archive to disk: %w", err)
	}
	b.afterStep(stepSynced)
	return w, datavolume.SyncFolder(root)
}

// proveArchive by reading all of it back from disk, not from memory, the way
// a restore does.
func proveArchive(ctx context.Context, path string, w written, output io.Writer) error {
	f, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	dropCache(f)
	m := agent.StartMeter(output, agent.PhaseProve, w.DataBytes)
	defer m.Stop()
	return readArchive(ctx, f, w, &drain{}, m)
}

// publishArchive puts the manifest first: an archive under its name always has one.
func (b *Backup) publishArchive(root *os.Root, base string, m *archiveManifest) error {
	raw, err := m.encodeJSON()
	if err != nil {
		return err
	}
	if err := datavolume.WriteFile(root, ManifestName, raw); err != nil {
		return fmt.Errorf("cannot write the manifest: %w", err)
	}
	b.afterStep(stepManifest)
	if err := root.Rename(base+datavolume.PartialSuffix, base); err != nil {
		return err
	}
	b.afterStep(datavolume.StepRenamed)
	return datavolume.SyncFolder(root)
}
