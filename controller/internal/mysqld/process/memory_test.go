package process

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEndSaysOOMKilled checks that a server which the kernel killed because memory ran out is distinguished from one
// that another process killed.
func TestEndSaysOOMKilled(t *testing.T) {
	const oom = "OOMKilled: the memory limit of its container was reached"
	cases := map[string]struct {
		state         string
		before, after int
		want          string
	}{
		"Counted":   {state: killed, before: 0, after: 1, want: oom},
		"OfAShell":  {state: exitKilled, before: 2, after: 3, want: oom},
		"Killed":    {state: killed, before: 1, after: 1, want: killed},
		"NoCounter": {state: killed, before: -1, after: -1, want: killed},
		"Exited":    {state: "exit status 1", before: 0, after: 1, want: "exit status 1"},
	}
	for name, tc := range cases {
		if got := describeEnd(tc.state, tc.before, tc.after); got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}

// TestOOMKills reads the kernel's files of both versions of cgroups.
func TestOOMKills(t *testing.T) {
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	v2, v1 := write("low 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n"), write(
		"oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
	for want, files := range map[int][]string{1: {v2, v1}, 4: {"/nonexistent", v1},
		-1: {"/nonexistent", write("oom_kill x\n")}} {
		if got := oomKills(files); got != want {
			t.Errorf("%v: want %d, got %d", files, want, got)
		}
	}
}
