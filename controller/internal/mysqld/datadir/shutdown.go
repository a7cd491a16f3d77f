package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// A Shutdown describes how the last server of a data directory stopped.
type Shutdown struct {
	// Known is false if this package does not support the file format. This is the case for MariaDB, and for MySQL
	// before 8.0.30.
	Known bool
	// Clean is true if a server would start on the directory, or upgrade it, without recovery. It is false if this is
	// uncertain.
	Clean bool
	// Reason explains the values of Known and Clean.
	Reason string
}

// These constants describe the redo log since MySQL 8.0.30 (storage/innobase/include/log0constants.h).
const (
	logFormat      = 6
	logBlock       = 512
	logHeader      = 4 * logBlock
	logChecksum    = logBlock - 4
	logBlockHeader = 12
	// logLength is the mask for the length of a block. The other bit marks an encrypted block.
	logLength = 0x7fff
	// logUnsafe are the flags of a log that cannot be used for recovery. Logging was off, or the directory was never
	// complete.
	logUnsafe = 1 | 2 | 4
	// logNumbers is the number of blocks after which the block numbers restart. The epoch in a block counts the
	// restarts.
	logNumbers = 1 << 30
	// flushLSN is an offset in the first page of ibdata1. Only a clean shutdown writes there: it stores the log
	// position up to which all changes are in the pages.
	flushLSN = 26
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A redoFile is one file of the redo log.
type redoFile struct {
	*os.File

	start, end uint64
	flags      uint32
	checkpoint uint64
}

// HowStopped determines from a data directory whether its server stopped cleanly. It uses the same rules as a
// starting server. After a clean shutdown, all logged changes are in the pages: ibdata1 and the newest checkpoint
// contain the same log position. Nothing was logged after it.
func HowStopped(dir *os.Root) (Shutdown, error) {
	flushed, err := readFlushed(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return Shutdown{Known: true, Reason: "ibdata1 is missing or incomplete, so the directory was never " +
			"initialized"}, nil
	}
	if err != nil {
		return Shutdown{}, err
	}
	files, err := redoFiles(dir)
	defer func() {
		for _, f := range files {
			_ = f.Close() // Nothing was written.
		}
	}()
	if err != nil {
		return Shutdown{}, err
	}
	if files == nil {
		return Shutdown{Reason: "the redo log has an unknown format"}, nil
	}
	return judge(flushed, files)
}

func readFlushed(dir *os.Root) (uint64, error) {
	f, err := dir.Open("ibdata1")
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	raw := make([]byte, 8)
	if _, err := f.ReadAt(raw, flushLSN); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(raw), nil
}

// redoFiles returns the files that contain the log. It returns nil if there are none, or if one has an unknown
// format. Reserved files contain no log.
func redoFiles(dir *os.Root) ([]*redoFile, error) {
	names, err := listDir(dir, redoDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files := []*redoFile{}
	for _, name := range names {
		if !strings.HasPrefix(name, "#ib_redo") || strings.HasSuffix(name, "_tmp") {
			continue
		}
		f, err := openRedo(dir, path.Join(redoDir, name))
		if err != nil {
			return files, err
		}
		if f == nil {
			return nil, nil
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, nil
	}
	return files, nil
}

// openRedo opens a file of the redo log. It returns nil if the file has a different format.
func openRedo(dir *os.Root, name string) (*redoFile, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	head := make([]byte, logHeader)
	info, err := f.Stat()
	if err == nil {
		_, err = f.ReadAt(head, 0)
	}
	if errors.Is(err, io.EOF) || (err == nil && (binary.BigEndian.Uint32(head) != logFormat || !intact(head[:logBlock]))) {
		return nil, f.Close()
	}
	if err != nil {
		_ = f.Close() // Nothing was written.
		return nil, err
	}
	r := &redoFile{File: f, start: binary.BigEndian.Uint64(head[8:]), flags: binary.BigEndian.Uint32(head[48:])}
	r.end = r.start + uint64(max(info.Size()-logHeader, 0))
	for _, offset := range []int{1 * logBlock, 3 * logBlock} {
		if block := head[offset : offset+logBlock]; intact(block) {
			r.checkpoint = max(r.checkpoint, binary.BigEndian.Uint64(block[8:]))
		}
	}
	return r, nil
}

// intact reports whether the checksum of a block is valid.
func intact(block []byte) bool {
	return binary.BigEndian.Uint32(block[logChecksum:]) == crc32.Checksum(block[:logChecksum], castagnoli)
}

func judge(flushed uint64, files []*redoFile) (Shutdown, error) {
	unclean := func(format string, args ...any) (Shutdown, error) {
		return Shutdown{Known: true, Reason: fmt.Sprintf(format, args...)}, nil
	}
	checkpoint, flags := uint64(0), uint32(0)
	for _, f := range files {
		checkpoint, flags = max(checkpoint, f.checkpoint), flags|f.flags
	}
	switch {
	case flags&logUnsafe != 0:
		return unclean("the redo log is marked as not usable for recovery (flags %#x)", flags)
	case checkpoint == 0:
		return unclean("the redo log has no checkpoint")
	case flushed != checkpoint:
		return unclean("ibdata1 was flushed up to %d, and the last checkpoint is at %d", flushed, checkpoint)
	}
	for _, f := range files {
		if f.start <= checkpoint && checkpoint < f.end {
			return f.endsAt(checkpoint)
		}
	}
	return unclean("no redo log file contains the last checkpoint, %d", checkpoint)
}

// endsAt reports a clean shutdown if the log ends at the checkpoint. The log continues in the next block only if that
// block has the next number. The length of a block is the number of bytes written to it.
func (f *redoFile) endsAt(checkpoint uint64) (Shutdown, error) {
	offset := checkpoint - checkpoint%logBlock
	block := make([]byte, logBlock)
	if _, err := f.ReadAt(block, int64(logHeader+offset-f.start)); err != nil { //nolint:gosec // Below the size.
		return Shutdown{}, err
	}
	index := offset / logBlock
	fits := uint64(binary.BigEndian.Uint32(block)) == 1+index%logNumbers &&
		uint64(binary.BigEndian.Uint32(block[8:])) == 1+index/logNumbers
	end := offset + uint64(binary.BigEndian.Uint16(block[4:])&logLength)
	switch {
	case !fits && checkpoint-offset <= logBlockHeader:
		// The previous block is full, and this block was never written.
	case !fits || !intact(block):
		return Shutdown{Known: true, Reason: fmt.Sprintf("the redo log's block at the last checkpoint, %d, is damaged",
			checkpoint)}, nil
	case end != checkpoint:
		return Shutdown{Known: true, Reason: fmt.Sprintf("the redo log continues after the last checkpoint, %d",
			checkpoint)}, nil
	}
	return Shutdown{Known: true, Clean: true,
		Reason: fmt.Sprintf("ibdata1, the last checkpoint and the end of the redo log agree on %d", checkpoint)}, nil
}
