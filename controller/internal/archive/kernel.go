package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// What the kernel is asked for that package os does not have.

// aheadBytes of a file that the kernel is asked for before they are read;
// flushBytes after which it is told to begin to write, so that the fsync at the
// end has little left to do.
const (
	aheadBytes = 16 << 20
	flushBytes = 8 << 20
)

// readSoon says that a file is read from its beginning to its end. This, dropCache
// and flushEarly are advice, which some file systems do not take.
func readSoon(f *os.File) {
	_ = unix.Fadvise(datavolume.FileDescriptor(f), 0, 0, unix.FADV_SEQUENTIAL)
	_ = unix.Fadvise(datavolume.FileDescriptor(f), 0, aheadBytes, unix.FADV_WILLNEED)
}

// dropCache forgets what memory holds of a file that is on disk, so that it is read
// from there: a proof from memory would say nothing of the disk.
func dropCache(f *os.File) {
	_ = unix.Fadvise(datavolume.FileDescriptor(f), 0, 0, unix.FADV_DONTNEED)
}

func flushEarly(f *os.File, at, n int64) {
	_ = unix.SyncFileRange(datavolume.FileDescriptor(f), at, n, unix.SYNC_FILE_RANGE_WRITE)
}

// lockFile as a sign that a run is at work on it.
func lockFile(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return exit.With(agent.ExitBusy, "another backup writes %s", filepath.Base(f.Name()))
	}
	return err
}

// freeSpace is the bytes that this process may use of a volume.
func freeSpace(root *os.Root) (int64, error) {
	have, _, err := spaceOf(root)
	return have, err
}

// spaceOf a volume in bytes: what this process may use of it, and all of its file
// system.
func spaceOf(root *os.Root) (have, total int64, err error) {
	f, err := root.Open(".")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	s := unix.Statfs_t{}
	if err := unix.Fstatfs(datavolume.FileDescriptor(f), &s); err != nil {
		return 0, 0, err
	}
	bytes := func(blocks uint64) int64 {
		return int64(min(blocks, maxData/uint64(max(s.Bsize, 1)))) * s.Bsize //nolint:gosec // Bounded.
	}
	return bytes(s.Bavail), bytes(s.Blocks), nil
}

func readAttributes(fd int) (map[string]string, error) {
	n, err := unix.Flistxattr(fd, nil)
	if n == 0 || errors.Is(err, unix.ENOTSUP) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	list := make([]byte, n)
	if n, err = unix.Flistxattr(fd, list); err != nil {
		return nil, err
	}
	attrs := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, attrUser) {
			continue
		}
		value := make([]byte, maxAttrBytes)
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return nil, fmt.Errorf("cannot read the attribute %q: %w", name, err)
		}
		attrs[name] = string(value[:n])
	}
	return attrs, nil
}
