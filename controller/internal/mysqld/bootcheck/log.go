package bootcheck

import (
	"io"
	"regexp"
	"strings"
	"sync"
)

// notTheCopy matches error messages of mysqld that are not caused by the copy of the data. Such causes are no space, no
// memory, no permission, or an option that this mysqld does not support.
var notTheCopy = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`no space left`, `disk is full`, `disk quota`, `\berrno: 28\b`, `error number 28\b`,
	`out of memory`, `cannot allocate memory`,
	`permission denied`, `read-only file system`,
	`unknown (?:variable|option|suffix)`, `error while setting value`, `--secure-file-priv`,
}, "|"))

// An output passes the log of mysqld and the progress lines of the boot check to the same io.Writer, one line at a
// time.
type output struct {
	io.Writer

	mu sync.Mutex
}

// Write writes one line at a time, because mysqld's log and the progress lines are written concurrently.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Writer.Write(p)
}
