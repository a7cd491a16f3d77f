package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// idle is the maximum time without any progress of a Job that sends or reads a body.
	idle = 2 * time.Minute
	// leastRate is the minimum rate of a body in bytes per second, after the grace period. It includes only the time
	// that the gateway waits for the Job, not the time that it waits for the store.
	leastRate = 64 << 10
	grace     = 30 * time.Second
	// takeGrace is the grace period for a Job that reads an object. It is longer than the one for uploads, because
	// the Job also writes the data to its disk.
	takeGrace = 2 * time.Minute
)

// errSlow is the error for a Job that is slower than leastRate.
var errSlow = errors.New("the Job is too slow")

// A pace enforces the minimum transfer rate of one request or response body. It computes the deadline for the next
// bytes.
type pace struct {
	grace  time.Duration
	rate   int64
	bytes  int64
	waited time.Duration
}

// left returns how much longer the gateway may wait for the next bytes of the body.
func (p *pace) left() time.Duration {
	all := p.grace + time.Duration(float64(p.bytes)/float64(p.rate)*float64(time.Second))
	return min(all-p.waited, idle)
}

// moved records the number of transferred bytes and the time that the gateway has waited for the Job to send or read
// them.
func (p *pace) moved(n int, took time.Duration) {
	p.bytes += int64(n)
	p.waited += took
}

// explain adds errSlow to the error of a body that was interrupted because it was too slow.
func (p *pace) explain(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && p.left() <= 0 {
		return fmt.Errorf("%w: %d bytes in %s, but the minimum is %d bytes per second: %w", errSlow, p.bytes,
			p.waited.Round(time.Second), p.rate, err)
	}
	return err
}

// A patient writer interrupts the response if the Job reads nothing or too slowly.
type patient struct {
	writer  io.Writer
	control *http.ResponseController
	pace    pace
}

func (p *patient) Write(raw []byte) (int, error) {
	begin := time.Now()
	_ = p.control.SetWriteDeadline(begin.Add(p.pace.left())) // If this fails, the timeout of the connection applies.
	n, err := p.writer.Write(raw)
	p.pace.moved(n, time.Since(begin))
	return n, p.pace.explain(err)
}

// A patientReader interrupts the request if the Job sends nothing or too slowly.
type patientReader struct {
	from    io.Reader
	control *http.ResponseController
	pace    pace
}

func (p *patientReader) Read(raw []byte) (int, error) {
	begin := time.Now()
	_ = p.control.SetReadDeadline(begin.Add(p.pace.left())) // If this fails, the timeout of the connection applies.
	n, err := p.from.Read(raw)
	p.pace.moved(n, time.Since(begin))
	return n, p.pace.explain(err)
}
