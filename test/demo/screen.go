package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A screen is the terminal to which the demo prints. It can begin a line with the seconds since the start.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

func newScreen(out io.Writer) *screen { return &screen{out: out, start: time.Now()} }

// Write prints the output of a command to the terminal.
func (s *screen) Write(b []byte) (int, error) {
	s.show(string(b))
	return len(b), nil
}

// sayf prints a line with the time. It ignores errors, because the demo must continue if a line cannot be printed.
func (s *screen) sayf(format string, a ...any) {
	s.show(fmt.Sprintf("[%5.1fs] %s\n", s.elapsed().Seconds(), fmt.Sprintf(format, a...)))
}

func (s *screen) elapsed() time.Duration { return time.Since(s.start) }

func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, text)
}

// stamp matches the time since its start that another program of this repository prints at the beginning of a line.
var stamp = regexp.MustCompile(`^\[ *[0-9.]+s\] `)

// silence is the time without output after which the demo prints that a program is still running.
const silence = 15 * time.Second

// A stamper prints the lines of another program. It replaces the time at the beginning of each line with the time
// since the start of the demo.
type stamper struct {
	screen *screen
	rest   []byte
	wrote  atomic.Bool
}

// Write prints all complete lines.
func (p *stamper) Write(b []byte) (int, error) {
	if len(b) > 0 {
		p.wrote.Store(true)
	}
	p.rest = append(p.rest, b...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		p.rest = rest
		p.screen.sayf("%s", stamp.ReplaceAllString(strings.TrimRight(string(line), "\r"), ""))
	}
}

// remind repeatedly prints that a program is still running if the program itself prints nothing. For example, the go
// command prints nothing while it compiles. stop ends the reminders.
func (p *stamper) remind(program string, every time.Duration) (stop func()) {
	done := make(chan struct{})
	start := time.Now()
	go func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				if !p.wrote.Swap(false) {
					p.screen.sayf("%s still runs or is being compiled, %.0f s so far",
						program, time.Since(start).Seconds())
				}
			}
		}
	}()
	return func() { close(done) }
}
