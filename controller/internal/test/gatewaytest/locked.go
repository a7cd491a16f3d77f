//go:build store

package gatewaytest

import (
	"io"
	"sync"
)

// locked writer for more than one.
type locked struct {
	mu sync.Mutex
	to io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}
