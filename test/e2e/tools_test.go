package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// runGo runs the go command in a directory and returns its trimmed output.
func runGo(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = dir
	var complaint strings.Builder
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go %v: %v: %s", args, err, complaint.String())
	}
	return strings.TrimSpace(string(out))
}
