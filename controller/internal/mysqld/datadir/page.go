package datadir

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// The first page of ibdata1 (storage/innobase/include/fsp0fsp.h, fsp0types.h;
// MariaDB's is the same but for its newer checksums).
const (
	// spaceFlags is where the page has the flags of its tablespace.
	spaceFlags = 38 + 16
	// flagsPageSize is how many bits up MySQL's flags have the page size, and
	// flagsMask covers its bits.
	flagsPageSize = 6
	flagsMask     = 0xf
	// flagsFullCRC32 marks MariaDB's newer flags, which begin with the page size. In
	// MySQL's it would be a part of a size that does not exist.
	flagsFullCRC32 = 1 << 4
	// pageUnit is the size of page whose number is 0; each number doubles it.
	pageUnit = 512
	// The sizes that there are: the smallest, that of number 0, and the largest.
	minPage     = 4 << 10
	defaultPage = 16 << 10
	maxPage     = 64 << 10
)

// PageSize of InnoDB in a data directory, in bytes, which a server must be told
// if it is not the usual 16 KiB; 0 where there is no telling.
func PageSize(dir *os.Root) (int, error) {
	f, err := dir.Open("ibdata1")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	raw := make([]byte, 4)
	_, err = f.ReadAt(raw, spaceFlags)
	if errors.Is(err, io.EOF) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return pageSize(binary.BigEndian.Uint32(raw)), nil
}

func pageSize(flags uint32) int {
	number := flags >> flagsPageSize & flagsMask
	if flags&flagsFullCRC32 != 0 {
		number = flags & flagsMask
	} else if number == 0 {
		return defaultPage
	}
	if size := pageUnit << number; size >= minPage && size <= maxPage {
		return size
	}
	return 0
}
