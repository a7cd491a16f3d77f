package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// logIn leaves the password in a file of the client's pod, and returns the command that uses it. What is typed there
// comes by standard input.
func (s *server) logIn(ctx context.Context, options ...string) ([]string, error) {
	file := "/tmp/" + s.name + "-" + s.user + ".cnf"
	if _, err := in(ctx, s.namespace, "client", s.options(s.password), "sh", "-c", `umask 77; cat >"$0"`, file); err != nil {
		return nil, err
	}
	return append([]string{"mysql", "--defaults-file=" + file, "--connect-timeout=2", "--default-character-set=utf8mb4"}, append(options, s.database)...), nil
}

// script runs statements, however many.
func (s *server) script(t *testing.T, statements string) string {
	t.Helper()
	client, err := s.logIn(t.Context(), "--batch", "--raw", "--skip-column-names")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := stream(t.Context(), s.namespace, "client", strings.NewReader(statements), &out, client...); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// portrait of all that the server holds, as text.
func (s *server) portrait(t *testing.T) string {
	t.Helper()
	return s.script(t, s.script(t, testdata(t, "portrait.sql")))
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A lineWriter hands on whole lines.
type lineWriter struct {
	rest []byte
	line func(string)
}

var _ io.Writer = &lineWriter{}

// Write never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.line(string(line))
		w.rest = rest
	}
}
