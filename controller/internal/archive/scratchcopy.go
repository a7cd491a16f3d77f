package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// copyMark is the name of an empty file in the directory of a restore test's copy. It is created first and removed
// first. If the file is missing, another process is deleting the copy, for example a backup that needs the space.
const copyMark = ".copy"

// serverBytes is the space that a server needs to start, in addition to the copy. It is used for temporary
// tablespaces and the redo log. A backup contains only the used part of the redo log.
const serverBytes = 128 << 20

// sparedPart is the divisor of a file system's size: one part of this size must stay free after the copy is written. A
// node with a full disk evicts pods, and the next backup needs space.
const sparedPart = 10

// An Unpack unpacks an archive to a copy on the same backup volume, for a restore test. Its Volume is the mount path
// of the backup volume. Its Directory is ignored, because the copy is stored as v1.DataDirectory in
// v1.RestoreTestDir.
type Unpack struct{ Restore }

// Run unpacks the archive. It returns a report even if it fails. Each error is an ExitError.
func (u *Unpack) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "unpack", u.runUnpack)
}

func (u *Unpack) runUnpack(ctx context.Context, r *agent.Report) error {
	volume, err := os.OpenRoot(u.Volume)
	if err != nil {
		return fmt.Errorf("cannot open the backup volume: %w", err)
	}
	defer volume.Close() //nolint:errcheck // What was written was synced.
	if err := removeCopyIn(volume); err != nil {
		return fmt.Errorf("cannot remove the files of an earlier run: %w", err)
	}
	if err := u.checkSpace(ctx, volume); err != nil {
		return err
	}
	dir, err := makeCopyDir(volume)
	if err != nil {
		return fmt.Errorf("cannot create the directory of the copy: %w", err)
	}
	defer dir.Close() //nolint:errcheck // What was written was synced.
	s := u.Restore
	s.Directory, s.inside = v1.DataDirectory, dir
	if err := s.runRestore(ctx, r); err != nil {
		return u.removeHalf(volume, dir, err)
	}
	return nil
}

// removeHalf removes an incomplete copy and returns the cause of the failure. If another process is already deleting
// the copy, removeHalf removes nothing and returns an ExitBusy error.
func (u *Unpack) removeHalf(volume, dir *os.Root, cause error) error {
	if !hasCopyMark(dir) {
		return exit.With(agent.ExitBusy, "the copy was deleted while it was being written, because a backup needs the "+
			"space: %w",
			cause)
	}
	_ = removeCopyIn(volume) // If this fails, the next run or the next backup removes it.
	return cause
}

// checkSpace returns an error if the copy would take space that backups need.
func (u *Unpack) checkSpace(ctx context.Context, volume *os.Root) error {
	f, m, err := u.openArchive(ctx)
	if err != nil {
		return err
	}
	_ = f.Close() // Nothing was written.
	free, total, err := spaceOf(volume)
	if err != nil {
		return err
	}
	return roomForCopy(m.Contents, free, total)
}

// roomForCopy returns an error if the free space is too small for a copy of the data and for the server that tests
// it. After that, at least a tenth of the file system (sparedPart) must remain free.
func roomForCopy(c Contents, free, total int64) error {
	need, spare := c.DataBytes+c.Entries*entryBytes+slackBytes+serverBytes, total/sparedPart
	if need+spare <= free {
		return nil
	}
	return exit.With(agent.ExitNoSpace,
		"a copy of the data and its server need %d MiB, and another %d MiB, a tenth of the file system, must stay free. "+
			"The backup volume has only %d MiB free. Nothing was written",
		need/mebi+1, spare/mebi, free/mebi)
}

// makeCopyDir creates the directory of a copy, and the mark as its first file. A copy without a mark is treated as
// removed.
func makeCopyDir(volume *os.Root) (*os.Root, error) {
	if err := volume.Mkdir(v1.RestoreTestDir, 0o700); err != nil {
		return nil, err
	}
	dir, err := volume.OpenRoot(v1.RestoreTestDir)
	if err != nil {
		return nil, err
	}
	if err := dir.WriteFile(copyMark, nil, 0o600); err != nil {
		_ = dir.Close() // Nothing was written.
		return nil, errors.Join(err, removeCopyIn(volume))
	}
	return dir, nil
}

func hasCopyMark(dir *os.Root) bool {
	_, err := dir.Lstat(copyMark)
	return err == nil
}

// CopyGone reports whether the copy in a directory was removed or is being removed. The result of a restore test on
// such a copy is meaningless.
func CopyGone(path string) bool {
	dir, err := os.OpenRoot(path)
	if err != nil {
		return true
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	return !hasCopyMark(dir)
}

// removeCopyIn removes the copy from a backup volume, the mark first. If a user with write access has replaced its
// directory by a link, only the link is removed.
func removeCopyIn(volume *os.Root) error {
	info, err := volume.Lstat(v1.RestoreTestDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := volume.RemoveAll(filepath.Join(v1.RestoreTestDir, copyMark)); err != nil {
			return err
		}
	}
	return volume.RemoveAll(v1.RestoreTestDir)
}
