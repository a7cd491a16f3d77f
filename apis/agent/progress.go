package agent

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Phases of a command, as printed in its progress lines.
const (
	PhaseClone  = "clone"
	PhaseCopy   = "copy"
	PhaseVerify = "prove"
	PhaseUnpack = "unpack"
	PhaseCheck  = "check"
	PhaseLoad   = "load"
	PhaseFetch  = "fetch"
	PhaseReplay = "replay"
)

// tick is the interval at which a Job prints progress lines.
const tick = 2 * time.Second

const mebi = 1 << 20

// A Progress is the progress of a command of the agent, such as a backup. The Job prints it as a line of its log, which
// users and the controller read.
type Progress struct {
	// Phase is the current phase, such as PhaseCopy.
	Phase string
	// Percent is the completed part of the phase, from 0 to 100.
	Percent int
	// Done and Total are sizes in bytes, of the unpacked data or of the tables. Rate is in bytes per second.
	Done, Total, Rate int64
}

// String returns a line such as
//
//	copy: 42% (300 of 715 MiB, 512 MiB/s)
func (p Progress) String() string {
	return fmt.Sprintf("%s: %d%% (%d of %d MiB, %d MiB/s)", p.Phase, p.Percent, p.Done/mebi, p.Total/mebi, p.Rate/mebi)
}

var progressPattern = regexp.MustCompile(`^([a-z]+): (\d{1,3})% \((\d{1,12}) of (\d{1,12}) MiB, (\d{1,12}) MiB/s\)$`)

// ParseProgress parses a progress line in a Job's log. It returns false for other lines.
func ParseProgress(text string) (Progress, bool) {
	m := progressPattern.FindStringSubmatch(text)
	if m == nil {
		return Progress{}, false
	}
	n := [4]int64{}
	for i := range n {
		n[i], _ = strconv.ParseInt(m[i+2], 10, 64) // The pattern allows only a few digits.
	}
	return Progress{Phase: m[1], Percent: int(n[0]), Done: n[1] * mebi, Total: n[2] * mebi, Rate: n[3] * mebi}, true
}

// A Meter prints the progress of a command in the Job's log at regular intervals until it is stopped. A nil Meter does
// nothing.
type Meter struct {
	phase string
	total int64
	done  atomic.Int64
	out   io.Writer
	start time.Time
	quit  chan struct{}
	wait  sync.WaitGroup
}

// StartMeter starts a Meter for a phase of a command. total is the number of bytes to process in this phase.
func StartMeter(out io.Writer, phase string, total int64) *Meter {
	m := &Meter{phase: phase, total: total, out: out, start: time.Now(), quit: make(chan struct{})}
	m.wait.Go(func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				m.printProgress()
			case <-m.quit:
				return
			}
		}
	})
	return m
}

// Add adds the number of bytes that the command has processed since the previous call.
func (m *Meter) Add(n int64) {
	if m != nil {
		m.done.Add(n)
	}
}

// Stop ends the regular output of the Meter and prints a last progress line.
func (m *Meter) Stop() {
	close(m.quit)
	m.wait.Wait()
	m.printProgress()
}

func (m *Meter) printProgress() {
	fmt.Fprintln(m.out, m.currentProgress()) //nolint:errcheck // A lost line is no reason to fail.
}

func (m *Meter) currentProgress() Progress {
	p := Progress{Phase: m.phase, Done: m.done.Load(), Total: m.total, Percent: 100}
	if m.total > 0 {
		p.Percent = int(min(100*p.Done/m.total, 100))
	}
	if s := time.Since(m.start).Seconds(); s > 0 {
		p.Rate = int64(float64(p.Done) / s)
	}
	return p
}
