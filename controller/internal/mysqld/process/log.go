package process

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// These constants limit the stored part of a server's log: the number of lines, the bytes of a line, and the bytes of
// all lines in an error.
const (
	maxLines      = 5
	maxLine       = 300
	maxComplaints = 600
)

// A Log receives a server's log. It prints and stores the errors.
type Log struct {
	// Out receives the errors, or all lines if All is true.
	Out io.Writer
	All bool

	mu      sync.Mutex
	partial []byte
	// errors contains the first and the last lines that are marked as errors. others contains the last lines that are
	// not. It includes warnings, because some settings make MariaDB exit with only a warning.
	errors, others []string
}

// Write parses a piece of the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		l.partial = append(l.partial, line[:min(len(line), maxLine-len(l.partial))]...)
		if whole {
			l.line(printable(l.partial))
			l.partial = l.partial[:0]
		}
		rest = after
	}
	return len(p), nil
}

// isCrash matches the lines before the stack trace of a crash. A server does not mark these lines as errors
// (sql/signal_handler.cc of MySQL and of MariaDB, ut0dbg.cc of InnoDB).
var isCrash = regexp.MustCompile(
	`mysqld got (?:signal|exception)|mariadbd got signal|Assertion failure:|terminate called`)

func printable(line []byte) string {
	return strings.TrimSpace(v1.PrintableText(string(line), maxLine))
}

func last(lines []string) []string { return lines[max(len(lines)-maxLines, 0):] }

// firstAndLast returns the first and the last errors. The first error usually causes the others.
func firstAndLast(lines []string) []string {
	if len(lines) <= maxLines {
		return lines
	}
	return append(lines[:maxLines-2], lines[len(lines)-2:]...)
}

// Complaints returns the first and the last errors of a server, or its last lines if it printed no error. This
// includes an incomplete last line.
func (l *Log) Complaints() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.errors
	if len(lines) == 0 {
		lines = l.others
		if rest := printable(l.partial); rest != "" {
			lines = last(append(slices.Clone(lines), rest))
		}
	}
	if len(lines) == 0 {
		return "it printed nothing to standard output or standard error"
	}
	return v1.PrintableText(strings.ReplaceAll(v1.WithoutSecrets(strings.Join(lines, "\n")), "\n", "; "), maxComplaints)
}

func (l *Log) line(text string) {
	if l.All {
		fmt.Fprintln(l.Out, text) //nolint:errcheck // A lost line is no reason to fail.
	}
	_, message, isError := strings.Cut(text, "[ERROR] ")
	isError = isError && !strings.HasSuffix(text, "Aborting") // Every server prints that line last.
	isCrashed := isCrash.MatchString(text)
	switch {
	// Warnings about options with the prefix loose are ignored. The product sets these options for all servers, and
	// some servers do not know them.
	case text == "", strings.Contains(text, "'loose-"), strings.Contains(text, "'--loose-"):
		return
	case isError:
		l.errors = firstAndLast(append(l.errors, message))
	case isCrashed:
		l.errors = firstAndLast(append(l.errors, text[isCrash.FindStringIndex(text)[0]:]))
	default:
		l.others = last(append(l.others, text))
	}
	if !l.All && (isError || isCrashed || strings.Contains(text, "[Warning] ")) {
		fmt.Fprintln(l.Out, "server:", text) //nolint:errcheck // A lost line is no reason to fail.
	}
}
