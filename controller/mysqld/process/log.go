package process

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Bounds on what is kept of a server's log: lines of complaints, bytes of a line,
// and bytes of all complaints in an error.
const (
	maxLines      = 5
	maxLine       = 300
	maxComplaints = 600
)

// A Log takes a server's log, passes on what it complains of, and remembers that.
type Log struct {
	// Out takes the complaints, or All that is said.
	Out io.Writer
	All bool

	mu      sync.Mutex
	partial []byte
	// errors are the last lines that are marked so, and others the last of all.
	errors, others []string
}

// Write a piece of the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		l.partial = append(l.partial, line[:min(len(line), maxLine-len(l.partial))]...)
		if whole {
			l.line(strings.TrimSpace(v1.PrintableText(string(l.partial), maxLine)))
			l.partial = l.partial[:0]
		}
		rest = after
	}
	return len(p), nil
}

// isCrash matches what a server prints, without marking it as an error, before the stack of its end (sql/signal_handler.cc of MySQL,
// sql/signal_handler.cc of MariaDB, ut0dbg.cc of InnoDB).
var isCrash = regexp.MustCompile(`mysqld got (?:signal|exception)|mariadbd got signal|Assertion failure:|terminate called`)

func last(lines []string) []string { return lines[max(len(lines)-maxLines, 0):] }

// Complaints are the last of a server, or its last words if it had none.
func (l *Log) Complaints() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.errors
	if len(lines) == 0 {
		lines = l.others
	}
	if len(lines) == 0 {
		return "it said nothing"
	}
	return v1.PrintableText(strings.ReplaceAll(v1.WithoutSecrets(strings.Join(lines, "\n")), "\n", "; "), maxComplaints)
}

func (l *Log) line(text string) {
	if l.All {
		fmt.Fprintln(l.Out, text) //nolint:errcheck // A lost line is no reason to fail.
	}
	_, said, isError := strings.Cut(text, "[ERROR] ")
	switch {
	case isError && strings.HasSuffix(text, "Aborting"): // What every server says at last.
		return
	case isError:
		l.errors = last(append(l.errors, said))
	case isCrash.MatchString(text):
		l.errors = last(append(l.errors, text[isCrash.FindStringIndex(text)[0]:]))
	case strings.Contains(text, "[Warning] "):
	case text != "":
		l.others = last(append(l.others, text))
		return
	default:
		return
	}
	if !l.All {
		fmt.Fprintln(l.Out, "server:", text) //nolint:errcheck // A lost line is no reason to fail.
	}
}
