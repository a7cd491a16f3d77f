package archive

import (
	"context"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A compressor compresses the bytes that are written to it. Its output is a sequence of zstd frames.
type compressor struct {
	*line

	current *chunk
	err     chan error
}

func newCompressor(ctx context.Context, w io.Writer) (*compressor, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(workerCount()), zstd.WithWindowSize(chunkSize))
	if err != nil {
		return nil, err
	}
	c := &compressor{err: make(chan error, 1)}
	c.line = newLine(ctx, func(k *chunk) error {
		k.packed = encoder.EncodeAll(k.raw, k.packed)
		return nil
	})
	go func() { c.err <- c.writeChunks(w) }()
	return c, nil
}

// Write copies p into chunks of the tar stream, which the workers compress.
func (c *compressor) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		room, err := c.freeBuffer()
		if err != nil {
			return done, err
		}
		n := copy(room, p[done:])
		c.advanceBuffer(n)
		done += n
	}
	return done, nil
}

// Close compresses the last chunk and waits for the workers. Callers must call it even after an error.
func (c *compressor) Close() error {
	if c.current != nil && len(c.current.raw) > 0 {
		c.giveChunk(c.current)
	}
	c.current = nil
	c.endLine()
	err := <-c.err
	c.running.Wait()
	c.stop(nil)
	return err
}

func (c *compressor) writeChunks(w io.Writer) error {
	for {
		k, err := c.nextChunk()
		if err == io.EOF { //nolint:errorlint // nextChunk returns io.EOF unwrapped.
			return nil
		}
		if err == nil {
			_, err = w.Write(k.packed)
		}
		if err != nil {
			c.stop(err)
			return err
		}
		c.free <- k
	}
}

// freeBuffer returns the free part of the current chunk, which is at least one byte. The caller writes to it, and
// passes the number of written bytes to advanceBuffer.
func (c *compressor) freeBuffer() ([]byte, error) {
	if c.current == nil {
		k, err := c.takeChunk()
		if err != nil {
			return nil, err
		}
		c.current = k
	}
	return c.current.raw[len(c.current.raw):chunkSize], nil
}

func (c *compressor) advanceBuffer(n int) {
	k := c.current
	k.raw = k.raw[:len(k.raw)+n]
	if len(k.raw) == chunkSize {
		c.current = nil
		c.giveChunk(k)
	}
}
