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

// A stateResult is the result of a question for the state of the server.
type stateResult struct {
	binlog.State

	err error
}

// An idleCheck asks an idle server whether the archive has all of its transactions.
type idleCheck struct {
	results chan stateResult
	// isAsking is true while a question is not answered. next is the time of the next question.
	isAsking bool
	next     time.Time
	// isValid is true if the server has sent no transaction since the question.
	isValid bool
	// doubts is the number of answers that did not confirm the archive, since the last transaction or confirmation.
	doubts int
}

func newIdleCheck() idleCheck { return idleCheck{results: make(chan stateResult, 1)} }

// await waits for the answer to the last question, whose context has ended.
func (c *idleCheck) await() {
	if c.isAsking {
		<-c.results
		c.isAsking = false
	}
}

// recordTransaction notes that the server has sent a part of a transaction.
func (c *idleCheck) recordTransaction() { c.isValid, c.doubts = false, 0 }

// askState asks the server for its state from time to time.
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
		results <- stateResult{state, err} // It never blocks, because there is one question at a time.
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
