package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// idle is how long a Job may send, or take, nothing.
	idle = 2 * time.Minute
	// leastRate in bytes a second of a body, after a grace. Only the time counts that the gateway waits for the Job, not for the store.
	leastRate = 64 << 10
	grace     = 30 * time.Second
	// takeGrace is the same for what a Job takes: it writes it to its disk meanwhile.
	takeGrace = 2 * time.Minute
)

// errSlow is of a Job that sends, or takes, less than leastRate.
var errSlow = errors.New("the Job is too slow")

// A pace says how long the next bytes may take, of a body of which some have come.
type pace struct {
	grace  time.Duration
	rate   int64
	bytes  int64
	waited time.Duration
}

// left is how long may still be waited.
func (p *pace) left() time.Duration {
	all := p.grace + time.Duration(float64(p.bytes)/float64(p.rate)*float64(time.Second))
	return min(all-p.waited, idle)
}

// moved counts bytes that have been waited for.
func (p *pace) moved(n int, took time.Duration) {
	p.bytes += int64(n)
	p.waited += took
}

// explain why a body ended, if it was too slow.
func (p *pace) explain(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && p.left() <= 0 {
		return fmt.Errorf("%w: %d bytes in %s, and %d a second are the least: %w", errSlow, p.bytes, p.waited.Round(time.Second), p.rate, err)
	}
	return err
}

// A patient writer leaves a Job that takes nothing for a while, or too little.
type patient struct {
	to      io.Writer
	control *http.ResponseController
	pace    pace
}

func (p *patient) Write(raw []byte) (int, error) {
	begin := time.Now()
	_ = p.control.SetWriteDeadline(begin.Add(p.pace.left())) // Where it cannot be set, the connection's own counts.
	n, err := p.to.Write(raw)
	p.pace.moved(n, time.Since(begin))
	return n, p.pace.explain(err)
}

// A patientReader is the other way.
type patientReader struct {
	from    io.Reader
	control *http.ResponseController
	pace    pace
}

func (p *patientReader) Read(raw []byte) (int, error) {
	begin := time.Now()
	_ = p.control.SetReadDeadline(begin.Add(p.pace.left())) // As above.
	n, err := p.from.Read(raw)
	p.pace.moved(n, time.Since(begin))
	return n, p.pace.explain(err)
}
