package bootcheck

import (
	"io"
	"regexp"
	"strings"
	"sync"
)

// notTheCopy matches errors that are not caused by the copy: no space, no memory, no permission, or an option that
// this server does not support.
var notTheCopy = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`no space left`, `disk is full`, `disk quota`, `\berrno: 28\b`, `error number 28\b`,
	`out of memory`, `cannot allocate memory`,
	`permission denied`, `read-only file system`,
	`unknown (?:variable|option|suffix)`, `error while setting value`, `--secure-file-priv`,
}, "|"))

// An output receives the server's log and the progress lines.
type output struct {
	io.Writer

	mu sync.Mutex
}

// Write writes one line at a time, because the server and this program write concurrently.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Writer.Write(p)
}
