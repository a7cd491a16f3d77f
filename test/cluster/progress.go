//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress says what is going on, with the seconds since the beginning.
type progress struct {
	out   io.Writer
	start time.Time
}

func newProgress() *progress { return &progress{out: os.Stderr, start: time.Now()} }

// Write lets what builds say its lines in between.
func (p *progress) Write(b []byte) (int, error) { return p.out.Write(b) }

// sayf ignores errors: that nobody reads it must not stop the work.
func (p *progress) sayf(format string, a ...any) {
	_, _ = fmt.Fprintf(p.out, "[%5.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, a...))
}
