package datadir

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// These constants describe the first page of ibdata1 (storage/innobase/include/fsp0fsp.h, fsp0types.h). MariaDB's
// page differs only in its newer checksums.
const (
	// spaceFlags is the offset of the tablespace's flags in the page.
	spaceFlags = 38 + 16
	// flagsPageSize is the bit offset of the page size in MySQL's flags. flagsMask is its mask.
	flagsPageSize = 6
	flagsMask     = 0xf
	// flagsFullCRC32 marks MariaDB's newer flags, which begin with the page size. MySQL's flags cannot contain this
	// bit, because their page size would be invalid.
	flagsFullCRC32 = 1 << 4
	// pageUnit converts the page size field of the flags to bytes. The page size is pageUnit shifted left by the
	// value of the field.
	pageUnit = 512
	// minPage and maxPage are the smallest and the largest page size in bytes. defaultPage is the page size if the
	// field in MySQL's flags is 0.
	minPage     = 4 << 10
	defaultPage = 16 << 10
	maxPage     = 64 << 10
)

// PageSize returns the InnoDB page size of a data directory in bytes, or 0 if it is unknown. A server needs it as
// an option unless it is 16 KiB.
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
