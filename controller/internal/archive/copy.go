package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// copyMark is the first file that the folder of a copy gets, and the first that
// it loses. Whoever works there sees by it whether the copy is being removed
// under its feet, as a backup does that needs the room.
const copyMark = ".copy"

// serverBytes are what a server adds to a copy when it starts: its redo log,
// which a backup has only the used part of, and its temporary tablespaces.
const serverBytes = 128 << 20

// sparedPart of a file system stays free beside a copy, as one in so many: a
// node whose disk is full evicts pods, and the next backup needs room.
const sparedPart = 10

// An Unpack makes a copy of the data in an archive beside it, on the backup
// volume, for a server to be tried on. Its Volume is where that volume is
// mounted. Its Directory does not count: the copy is in v1.RestoreTestFolder, as
// v1.DataDirectory.
type Unpack struct{ Restore }

// Run the unpacking. The report is there also with an error, which is an
// ExitError.
func (u *Unpack) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "unpack"}
	err := exit.CodeOf(ctx, u.runUnpack(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

func (u *Unpack) runUnpack(ctx context.Context, r *agent.Report) error {
	volume, err := os.OpenRoot(u.Volume)
	if err != nil {
		return fmt.Errorf("cannot open the backup volume: %w", err)
	}
	defer volume.Close() //nolint:errcheck // What was written was synced.
	if err := removeCopyIn(volume); err != nil {
		return fmt.Errorf("cannot remove what an earlier run left: %w", err)
	}
	if err := u.checkSpace(ctx, volume); err != nil {
		return err
	}
	folder, err := makeCopyFolder(volume)
	if err != nil {
		return fmt.Errorf("cannot make the folder of the copy: %w", err)
	}
	defer folder.Close() //nolint:errcheck // What was written was synced.
	s := u.Restore
	s.Directory, s.inside = v1.DataDirectory, folder
	if err := s.runRestore(ctx, r); err != nil {
		return u.removeHalf(volume, folder, err)
	}
	return nil
}

// removeHalf of a copy that came to nothing, unless somebody else removes it
// already: then that is why, and what is there now may be another's.
func (u *Unpack) removeHalf(volume, folder *os.Root, cause error) error {
	if !hasCopyMark(folder) {
		return exit.With(agent.ExitBusy, "the copy was removed while it was made, as a backup does that needs the room: %w", cause)
	}
	_ = removeCopyIn(volume) // The next run removes it otherwise, or the next backup.
	return cause
}

// checkSpace fails if the copy would take room that others need.
func (u *Unpack) checkSpace(ctx context.Context, volume *os.Root) error {
	f, m, err := u.openArchive(ctx)
	if err != nil {
		return err
	}
	_ = f.Close() // Nothing was written.
	have, total, err := spaceOf(volume)
	if err != nil {
		return err
	}
	return roomForCopy(m.Contents, have, total)
}

// roomForCopy is nil if a copy of these contents, and a server on it, fit into what
// we have of a file system, and leave a part of its total free.
func roomForCopy(c Contents, have, total int64) error {
	need, spare := c.DataBytes+c.Entries*entryBytes+slackBytes+serverBytes, total/sparedPart
	if need+spare <= have {
		return nil
	}
	return exit.With(agent.ExitNoSpace, "a copy of the data and a server on it need %d MiB, beside which %d MiB have to stay free, a tenth of the file system: the backup volume has %d MiB free; nothing was written",
		need/mebi+1, spare/mebi, have/mebi)
}

// makeCopyFolder with its mark, before anything else is in it: a copy without one
// counts as removed.
func makeCopyFolder(volume *os.Root) (*os.Root, error) {
	if err := volume.Mkdir(v1.RestoreTestFolder, 0o700); err != nil {
		return nil, err
	}
	folder, err := volume.OpenRoot(v1.RestoreTestFolder)
	if err != nil {
		return nil, err
	}
	if err := folder.WriteFile(copyMark, nil, 0o600); err != nil {
		_ = folder.Close() // Nothing was written.
		return nil, errors.Join(err, removeCopyIn(volume))
	}
	return folder, nil
}

func hasCopyMark(folder *os.Root) bool {
	_, err := folder.Lstat(copyMark)
	return err == nil
}

// CopyGone is true if the copy in a folder, as an Unpack makes it, was removed
// or is being removed. What was found out about it then means nothing.
func CopyGone(path string) bool {
	folder, err := os.OpenRoot(path)
	if err != nil {
		return true
	}
	defer folder.Close() //nolint:errcheck // Nothing was written.
	return !hasCopyMark(folder)
}

// removeCopyIn a backup volume, the mark first. Whoever can write there can have
// put a link in its place, and only that goes.
func removeCopyIn(volume *os.Root) error {
	info, err := volume.Lstat(v1.RestoreTestFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := volume.RemoveAll(filepath.Join(v1.RestoreTestFolder, copyMark)); err != nil {
			return err
		}
	}
	return volume.RemoveAll(v1.RestoreTestFolder)
}
