package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"testing"
)

// list returns a line for each entry of a layer.
func list(t *testing.T, r io.Reader) []string {
	t.Helper()
	var lines []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		name := h.Name
		if h.Linkname != "" {
			name += "=" + h.Linkname
		}
		lines = append(lines, fmt.Sprintf("%s %o %s", name, h.Mode, b))
	}
}
