package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// output runs a program in a directory and returns its trimmed output.
func output(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir = dir
	var complaint strings.Builder
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, complaint.String())
	}
	return strings.TrimSpace(string(out))
}
