package client

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A Progress prints messages, each with the number of seconds since the Progress was created.
type Progress struct {
	out   io.Writer
	start time.Time
}

// NewProgress returns a Progress that prints to standard error.
func NewProgress() *Progress { return &Progress{out: os.Stderr, start: time.Now()} }

// Write prints the output of a program, such as a build, without adding the time.
func (p *Progress) Write(b []byte) (int, error) { return p.out.Write(b) }

// Sayf prints a line. It ignores errors, because the work must continue if a line cannot be printed.
func (p *Progress) Sayf(format string, a ...any) {
	_, _ = fmt.Fprintf(p.out, "[%5.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, a...))
}
