package framework

import (
	"bytes"
	"io"
)

// A LineWriter hands on whole lines.
type LineWriter struct {
	// Line gets each, without its end.
	Line func(string)

	rest []byte
}

var _ io.Writer = &LineWriter{}

// Write never fails.
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
