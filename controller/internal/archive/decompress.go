package archive

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// A decompressor reads the frames of an archive, computes their checksum, and returns their content. Its memory is
// limited for any input.
type decompressor struct {
	*line

	sum     hash.Hash
	size    int64
	current *chunk
	rest    []byte
	failure error
}

func newDecompressor(ctx context.Context, r io.Reader) (*decompressor, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workerCount()), zstd.WithDecoderMaxMemory(chunkSize),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	d := &decompressor{sum: sha256.New()}
	d.line = newLine(ctx, func(c *chunk) error {
		var err error
		if c.raw, err = decoder.DecodeAll(c.packed, c.raw); err != nil {
			return exit.Damaged("cannot decompress the archive: %w", err)
		}
		return nil
	})
	d.running.Go(func() {
		defer d.endLine()
		if err := d.readFrames(r); err != nil {
			d.stop(err)
		}
	})
	return d, nil
}

// Read reads the next bytes of the decompressed tar stream.
func (d *decompressor) Read(p []byte) (int, error) {
	part, err := d.readPart(int64(len(p)))
	return copy(p, part), err
}

// Close cancels the decompression and waits for the workers.
func (d *decompressor) Close() {
	d.stop(context.Canceled)
	d.running.Wait()
}

func (d *decompressor) readFrames(r io.Reader) error {
	in := bufio.NewReaderSize(r, 256<<10)
	for {
		c, err := d.takeChunk()
		if err != nil {
			return err
		}
		c.packed, err = readFrame(in, c.packed)
		d.sum.Write(c.packed)
		d.size += int64(len(c.packed))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.giveChunk(c)
	}
}

// readPart returns the next part of the content, at most n bytes. The slice is valid until the next call.
func (d *decompressor) readPart(n int64) ([]byte, error) {
	for len(d.rest) == 0 {
		if d.failure != nil {
			return nil, d.failure
		}
		if d.current != nil {
			d.free <- d.current
			d.current = nil
		}
		c, err := d.nextChunk()
		if err != nil {
			d.failure = d.firstCause(err)
			continue
		}
		d.current, d.rest = c, c.raw
	}
	part := d.rest[:min(int64(len(d.rest)), n)]
	d.rest = d.rest[len(part):]
	return part, nil
}

// firstCause returns the error that stopped the pipeline, or else the given error.
func (d *decompressor) firstCause(err error) error {
	if failure := context.Cause(d.ctx); failure != nil {
		return failure
	}
	return err
}

// Kinds of zstd blocks (RFC 8878, section 3.1.1.2).
const (
	blockRaw = iota
	blockRLE
	blockCompressed
)

// readFrame appends the next zstd frame to dst. It returns io.EOF at the end of the archive. It refuses a frame
// that does not state its size, or is larger than chunkSize, before the frame is decompressed.
func readFrame(in *bufio.Reader, dst []byte) ([]byte, error) {
	head, err := in.Peek(zstd.HeaderMaxSize + 3)
	if len(head) == 0 || (err != nil && !errors.Is(err, io.EOF)) {
		return dst, err
	}
	h := zstd.Header{}
	if err := h.Decode(head); err != nil {
		return dst, exit.Damaged("cannot read the archive as zstd frames: %w", err)
	}
	if h.Skippable || !h.HasFCS || h.FrameContentSize > chunkSize || h.DictionaryID != 0 ||
		(!h.SingleSegment && h.WindowSize > chunkSize) {
		return dst, exit.Damaged("the archive contains a zstd frame that is not valid in a backup")
	}
	if dst, err = appendFrom(in, dst, h.HeaderSize); err != nil {
		return dst, err
	}
	for last := false; !last; {
		if dst, last, err = readBlock(in, dst); err != nil {
			return dst, err
		}
	}
	if h.HasCheckSum {
		return appendFrom(in, dst, 4)
	}
	return dst, nil
}

func readBlock(in *bufio.Reader, dst []byte) (_ []byte, last bool, err error) {
	dst, err = appendFrom(in, dst, 3)
	if err != nil {
		return dst, false, err
	}
	b := dst[len(dst)-3:]
	word := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	size := word >> 3
	switch word >> 1 & 3 {
	case blockRaw, blockCompressed:
	case blockRLE:
		size = 1
	default:
		return dst, false, exit.Damaged("the archive contains a zstd block of an unknown type")
	}
	dst, err = appendFrom(in, dst, size)
	return dst, word&1 != 0, err
}

// appendFrom appends the next n bytes. It limits the size of a frame to maxFrame, because a hostile block can state
// any size, and a frame can contain any number of blocks.
func appendFrom(in *bufio.Reader, dst []byte, n int) ([]byte, error) {
	start := len(dst)
	if start+n > maxFrame {
		return dst, exit.Damaged("the archive contains a zstd frame that is larger than %d bytes", maxFrame)
	}
	if cap(dst) < start+n {
		dst = append(make([]byte, 0, maxFrame), dst...)
	}
	dst = dst[:start+n]
	if _, err := io.ReadFull(in, dst[start:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return dst[:start], exit.Damaged("the archive is truncated: it ends in the middle of a zstd frame")
		}
		return dst[:start], fmt.Errorf("cannot read the archive: %w", err)
	}
	return dst, nil
}
