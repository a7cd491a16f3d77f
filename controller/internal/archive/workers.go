package archive

import (
	"context"
	"io"
	"runtime"
	"sync"
)

// A chunk of the tar stream becomes one frame of the archive, so that all cores
// can work on it, in both directions. Frames one after the other are what zstd
// and tar read as one file.
const (
	chunkSize = 1 << 20
	// maxFrame in bytes: what cannot be compressed grows a little.
	maxFrame = chunkSize + 64<<10
	// maxWorkers bounds the memory, about 4 MiB for each.
	maxWorkers = 12
)

func workerCount() int { return min(runtime.GOMAXPROCS(0), maxWorkers) }

// A chunk travels from a producer through a worker to a consumer, and back.
type chunk struct {
	raw, packed []byte
	err         error
	done        chan struct{}
}

// A line of workers treats chunks and hands them on in the order in which they
// came. The first error ends it, as does the end of the context.
type line struct {
	free, jobs, order chan *chunk
	stop              context.CancelCauseFunc
	ctx               context.Context //nolint:containedctx // It is the line's own, and ends with it.
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

// takeChunk waits for a chunk that is free, and empties it. There is a fixed number
// of them: whoever produces waits for whoever consumes.
func (l *line) takeChunk() (*chunk, error) {
	select {
	case c := <-l.free:
		c.raw, c.packed = c.raw[:0], c.packed[:0]
		return c, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// giveChunk to the workers.
func (l *line) giveChunk(c *chunk) {
	l.order <- c // Never blocks: there are not more chunks than places.
	l.jobs <- c
}

// nextChunk is the next one in the order in which they were given, once its worker
// is done with it; io.EOF at the end.
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

// endLine tells workers and consumer that no chunk comes any more.
func (l *line) endLine() {
	close(l.order)
	close(l.jobs)
}
