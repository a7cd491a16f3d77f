package framework

import (
	"bytes"
	"io"
)

// A LineWriter splits its input into lines.
type LineWriter struct {
	// Line is called with each complete line, without its newline.
	Line func(string)

	rest []byte
}

var _ io.Writer = &LineWriter{}

// Write never returns an error.
func (w *LineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.Line(string(line))
		w.rest = rest
	}
}
