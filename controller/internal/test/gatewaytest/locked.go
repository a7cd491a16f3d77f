//go:build store

package gatewaytest

import (
	"io"
	"sync"
)

// A locked writer can be used concurrently.
type locked struct {
	mu     sync.Mutex
	writer io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writer.Write(p)
}
