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

// This file contains kernel calls that package os does not offer.

// aheadBytes is the number of bytes that the kernel is asked to read ahead. After every flushBytes, the kernel is
// asked to start writing, so that the final fsync is fast.
const (
	aheadBytes = 16 << 20
	flushBytes = 8 << 20
)

// readSoon advises the kernel that a file is about to be read sequentially. As with dropCache and flushEarly, this is
// only advice, which some file systems ignore.
func readSoon(f *os.File) {
	_ = unix.Fadvise(datavolume.FileDescriptor(f), 0, 0, unix.FADV_SEQUENTIAL)
	_ = unix.Fadvise(datavolume.FileDescriptor(f), 0, aheadBytes, unix.FADV_WILLNEED)
}

// dropCache drops a file's pages from the page cache, so that the next read comes from disk. A verification of cached
// pages would not detect a disk error.
func dropCache(f *os.File) {
	_ = unix.Fadvise(datavolume.FileDescriptor(f), 0, 0, unix.FADV_DONTNEED)
}

func flushEarly(f *os.File, offset, n int64) {
	_ = unix.SyncFileRange(datavolume.FileDescriptor(f), offset, n, unix.SYNC_FILE_RANGE_WRITE)
}

// lockFile locks a file, so that other processes see that a run is still writing it.
func lockFile(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return exit.With(agent.ExitBusy, "another backup is writing %s", filepath.Base(f.Name()))
	}
	return err
}

// freeSpace returns the number of bytes that this process may still use on a volume.
func freeSpace(root *os.Root) (int64, error) {
	free, _, err := spaceOf(root)
	return free, err
}

// spaceOf returns the space of a volume in bytes: the space available to this process, and the total. Blocks that are
// reserved for root are in neither value, as in the percentage of df(1).
func spaceOf(root *os.Root) (free, total int64, err error) {
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
	return bytes(s.Bavail), bytes(s.Blocks - s.Bfree + s.Bavail), nil
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
