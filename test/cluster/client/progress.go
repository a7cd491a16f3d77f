package client

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress says what is going on, with the seconds since the beginning.
type Progress struct {
	out   io.Writer
	start time.Time
}

// NewProgress begins now.
func NewProgress() *Progress { return &Progress{out: os.Stderr, start: time.Now()} }

// Write lets what builds say its lines in between.
func (p *Progress) Write(b []byte) (int, error) { return p.out.Write(b) }

// Sayf ignores errors: that nobody reads it must not stop the work.
func (p *Progress) Sayf(format string, a ...any) {
	_, _ = fmt.Fprintf(p.out, "[%5.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, a...))
}
