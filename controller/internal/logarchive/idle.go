package logarchive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// errReset is the error for a server whose log does not continue the archive. The server keeps a deleted file of its log
// open, and sends heartbeats forever to a connection that reads the file. After RESET, only its state reveals the reset.
var errReset = errors.New("the binary log of the server was reset while it was archived")

// A stateResult is the server's answer to a query for its state, or the error of the query.
type stateResult struct {
	binlog.State

	err error
}

// An idleCheck queries the state of an idle server, to find out whether the archive has all of its transactions.
type idleCheck struct {
	results chan stateResult
	// isAsking is true while a query waits for the answer of the server. next is the time of the next query.
	isAsking bool
	next     time.Time
	// isValid is true if the server has sent no transaction since the query.
	isValid bool
	// doubts is the number of queries since the last transaction that did not confirm that the archive is complete.
	doubts int
}

func newIdleCheck() idleCheck { return idleCheck{results: make(chan stateResult, 1)} }

// await waits until the goroutine of the last query has ended. The context of the query has already ended.
func (c *idleCheck) await() {
	if c.isAsking {
		<-c.results
		c.isAsking = false
	}
}

// recordTransaction invalidates the current query, because the server has sent a part of a transaction since then.
func (c *idleCheck) recordTransaction() { c.isValid, c.doubts = false, 0 }

// askState starts a query for the state of the server, unless a query is running or stateTime has not passed.
func (s *session) askState(ctx context.Context) {
	c := &s.idle
	if s.State == nil || c.isAsking || s.Now().Before(c.next) {
		return
	}
	c.isAsking, c.isValid = true, true
	results := c.results
	go func() {
		ctx, cancel := context.WithTimeout(ctx, stateTime)
		defer cancel()
		state, err := s.State(ctx)
		results <- stateResult{state, err} // It never blocks, because only one query runs at a time.
	}()
}

// recordState evaluates the state of an idle server. The archive is complete up to the time of the state only if it has
// all transactions of the state.
func (s *session) recordState(r stateResult) error {
	c := &s.idle
	c.isAsking, c.next = false, s.Now().Add(stateTime)
	if !c.isValid {
		return nil
	}
	err := r.err
	switch {
	case err != nil:
		err = fmt.Errorf("cannot confirm that the archive is complete: %w", err)
	case r.ServerUUID != s.state.ServerUUID:
		return fmt.Errorf("%w: its server_uuid is %.36s instead of %.36s", errReset, r.ServerUUID, s.state.ServerUUID)
	case !r.Executed.Contains(s.until):
		return fmt.Errorf("%w: it lacks the transactions %.200s", errReset, s.until.Without(r.Executed))
	case !s.until.Contains(r.Executed):
		err = fmt.Errorf("%w: it has the transactions %.200s but does not send them", errReset, r.Executed.Without(s.until))
	}
	if err != nil {
		if c.doubts++; c.doubts > maxDoubts {
			return err
		}
		return nil
	}
	c.doubts = 0
	delay := uint64(commitDelay / time.Microsecond)
	if known := r.Now - min(delay, r.Now); known > s.known {
		s.known = known
		s.Report(s.progress())
	}
	return nil
}
