package archive

import (
	"context"
	"io"
	"runtime"
	"sync"
)

// chunkSize is the number of bytes of the tar stream in one zstd frame. Separate frames allow all cores to compress
// and decompress. zstd and tar read consecutive frames as one file.
const (
	chunkSize = 1 << 20
	// maxFrame is the maximum size of a frame in bytes. Data that does not compress becomes slightly larger.
	maxFrame = chunkSize + 64<<10
	// maxWorkers limits the memory. Each worker needs about 4 MiB.
	maxWorkers = 12
)

func workerCount() int { return min(runtime.GOMAXPROCS(0), maxWorkers) }

// A chunk holds a part of the tar stream. It is passed from the producer to a worker, to the consumer, and is then
// reused.
type chunk struct {
	raw, packed []byte
	err         error
	done        chan struct{}
}

// A line is a pipeline of workers that compress or decompress chunks. It returns chunks in the order of their
// submission. It stops at the first error, or when the context is canceled.
type line struct {
	free, jobs, order chan *chunk
	stop              context.CancelCauseFunc
	ctx               context.Context //nolint:containedctx // The context is canceled with the line.
	running           sync.WaitGroup
}

func newLine(ctx context.Context, work func(*chunk) error) *line {
	n := workerCount()
	size := 2*n + 1
	l := &line{free: make(chan *chunk, size), jobs: make(chan *chunk, size), order: make(chan *chunk, size)}
	l.ctx, l.stop = context.WithCancelCause(ctx)
	for range size {
		l.free <- &chunk{raw: make([]byte, 0, chunkSize), done: make(chan struct{}, 1)}
	}
	for range n {
		l.running.Go(func() {
			for c := range l.jobs {
				c.err = work(c)
				c.done <- struct{}{}
			}
		})
	}
	return l
}

// takeChunk waits for a free chunk and empties it. The number of chunks is limited, so the producer waits until the
// consumer has released one.
func (l *line) takeChunk() (*chunk, error) {
	select {
	case c := <-l.free:
		c.raw, c.packed = c.raw[:0], c.packed[:0]
		return c, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// giveChunk submits a chunk to the workers.
func (l *line) giveChunk(c *chunk) {
	l.order <- c // This never blocks, because the channel has space for all chunks.
	l.jobs <- c
}

// nextChunk waits until the worker has finished the next chunk in order, and returns the chunk. After the last chunk
// it returns io.EOF.
func (l *line) nextChunk() (*chunk, error) {
	select {
	case c, ok := <-l.order:
		if !ok {
			return nil, io.EOF
		}
		<-c.done
		return c, c.err
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// endLine tells the workers and the consumer that there are no further chunks.
func (l *line) endLine() {
	close(l.order)
	close(l.jobs)
}
