package binlog

import (
	"context"
	"sync"
)

// A Watcher reads the state of a server from time to time, and keeps its connection open. A stream cannot do this,
// because a server that sends its binary log on a connection accepts no queries there.
type Watcher struct {
	Source Source

	mu       sync.Mutex
	stream   *Stream
	isClosed bool
}

// ReadState reads the state of the server. It must not be called concurrently. After an error, the next call logs in
// again.
func (w *Watcher) ReadState(ctx context.Context) (State, error) {
	w.mu.Lock()
	s := w.stream
	w.stream = nil
	w.mu.Unlock()
	var err error
	if s == nil {
		s, err = Connect(ctx, w.Source)
	} else {
		s.limit.left.Store(maxLogin)
		unregister := context.AfterFunc(ctx, s.Close)
		err = s.readState()
		unregister()
	}
	if err != nil {
		if s != nil {
			s.Close()
		}
		return State{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isClosed || w.stream != nil {
		s.Close()
	} else {
		w.stream = s
	}
	return s.State, nil
}

// Close closes the connection. It does not wait for a call of ReadState, which closes its connection itself.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isClosed = true
	if w.stream != nil {
		w.stream.Close()
	}
}
