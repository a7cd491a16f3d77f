package trial

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// Bounds on what is kept of a server's log: lines of complaints, bytes of a line,
// and bytes of all complaints in an error.
const (
	maxLines      = 5
	maxLine       = 300
	maxComplaints = 600
)

// notTheCopy are complaints that say nothing of the copy: no room, no memory, no
// right, or a setting that this server does not know.
var notTheCopy = regexp.MustCompile(`(?i)no space left|disk is full|disk quota|\berrno: 28\b|error number 28\b|out of memory|cannot allocate memory|permission denied|read-only file system|unknown (?:variable|option|suffix)`)

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

// A log takes a server's log, passes on what it complains of, and remembers that.
type log struct {
	out io.Writer

	mu      sync.Mutex
	partial []byte
	// errors are the last lines that are marked so, and others the last of all.
	errors, others []string
}

// Write a piece of the log.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		l.partial = append(l.partial, line[:min(len(line), maxLine-len(l.partial))]...)
		if whole {
			l.line(strings.TrimSpace(string(l.partial)))
			l.partial = l.partial[:0]
		}
		rest = after
	}
	return len(p), nil
}

func (l *log) line(text string) {
	_, said, isError := strings.Cut(text, "[ERROR] ")
	switch {
	case isError && strings.HasSuffix(text, "Aborting"): // What every server says at last.
		return
	case isError:
		l.errors = last(append(l.errors, said))
	case strings.Contains(text, "[Warning] "):
	case text != "":
		l.others = last(append(l.others, text))
		return
	default:
		return
	}
	fmt.Fprintln(l.out, "server:", text) //nolint:errcheck // A lost line is no reason to fail.
}

func last(lines []string) []string { return lines[max(len(lines)-maxLines, 0):] }

// complaints are the last of a server, or its last words if it had none.
func (l *log) complaints() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.errors
	if len(lines) == 0 {
		lines = l.others
	}
	if len(lines) == 0 {
		return "it said nothing"
	}
	text := strings.Join(lines, "; ")
	if len(text) > maxComplaints {
		text = strings.ToValidUTF8(text[:maxComplaints], "") + "…"
	}
	return text
}
