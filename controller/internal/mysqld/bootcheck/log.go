package bootcheck

import (
	"io"
	"regexp"
	"sync"
)

// notTheCopy are complaints that say nothing of the copy: no room, no memory, no
// right, or a setting that this server does not take.
var notTheCopy = regexp.MustCompile(`(?i)no space left|disk is full|disk quota|\berrno: 28\b|error number 28\b|out of memory|cannot allocate memory|permission denied|read-only file system|unknown (?:variable|option|suffix)|error while setting value|--secure-file-priv`)

// An output is written to by the server's log and the progress lines.
type output struct {
	io.Writer

	mu sync.Mutex
}

// Write one at a time.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Writer.Write(p)
}
