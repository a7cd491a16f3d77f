package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// tarBlock is the block size of a tar file in bytes. A tar file ends with two empty blocks.
const tarBlock = 512

// written contains the size and the checksums of an archive that was written and is not verified yet.
type written struct {
	Contents

	size int64
	sum  string
}

// writeTar archives the data directory: it writes a compressed tar file to out.
func (t tree) writeTar(ctx context.Context, out io.Writer, m *agent.Meter) (*written, error) {
	s := &sink{writer: out, sum: sha256.New()}
	c, err := newCompressor(ctx, s)
	if err != nil {
		return nil, err
	}
	l := newListing()
	w := tarWriter{compressor: c, meter: m}
	err = t.walkEntries(ctx, func(e *entry) error {
		sum, err := w.addEntry(t, e)
		if err != nil {
			return fmt.Errorf("cannot copy %q: %w", e.name, err)
		}
		l.addEntry(e, sum)
		return nil
	})
	if err == nil {
		_, err = c.Write(make([]byte, 2*tarBlock))
	}
	// If the compressor failed, its error is the cause of the error that the walk returned.
	if cerr := c.Close(); cerr != nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return &written{Contents: l.sumEntries(), size: s.size, sum: hex.EncodeToString(s.sum.Sum(nil))}, nil
}

// A tarWriter writes the headers and files of a tar file directly into the compressor's chunks.
type tarWriter struct {
	*compressor

	meter *agent.Meter
}

// addEntry adds an entry to the archive, and returns the CRC-32C of its content.
func (w tarWriter) addEntry(t tree, e *entry) (uint32, error) {
	if err := w.writeHeader(e); err != nil || !e.mode.IsRegular() {
		return 0, err
	}
	f, err := t.openEntry(e)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	readSoon(f)
	sum, err := w.writeContent(f, e)
	if err != nil {
		return 0, err
	}
	return sum, e.checkUnchanged(f)
}

func (w tarWriter) writeHeader(e *entry) error {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(e.tarHeader()); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (w tarWriter) writeContent(f *os.File, e *entry) (uint32, error) {
	sum := uint32(0)
	for left := e.size; left > 0; {
		room, err := w.freeBuffer()
		if err != nil {
			return 0, err
		}
		room = room[:min(int64(len(room)), left)]
		n, err := f.Read(room)
		if n == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, room[:n])
		w.advanceBuffer(n)
		w.meter.Add(int64(n))
		left -= int64(n)
	}
	if over := e.size % tarBlock; over != 0 {
		_, err := w.Write(make([]byte, tarBlock-over))
		return sum, err
	}
	return sum, nil
}

// A sink computes the checksum of the archive that it writes. It makes the kernel flush a file to disk early.
type sink struct {
	writer        io.Writer
	sum           hash.Hash
	size, flushed int64
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.writer.Write(p)
	s.sum.Write(p[:n])
	s.size += int64(n)
	if f, ok := s.writer.(*os.File); ok && s.size-s.flushed >= flushBytes {
		flushEarly(f, s.flushed, s.size-s.flushed)
		s.flushed = s.size
	}
	return n, err
}
