package version

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHostileProgram checks that an image's mysqld cannot exceed the limits on time and output, and that none of its
// processes remain. An image may contain any program.
func TestHostileProgram(t *testing.T) {
	const banner = "echo mysqld  Ver 8.4.6 for Linux on x86_64; "
	cases := map[string]struct {
		reason, script string
		time           time.Duration
		want           string
		says           string
	}{
		"Well": {reason: "The program prints its version.", script: banner, want: "mysqld Ver 8.4.6 for Linux on x86_64\n"},
		"Sleeps": {reason: "The program prints nothing and does not exit.",
			script: "sleep 600", time: time.Second, says: "did not exit within 1s"},
		"Deaf": {reason: "The program ignores SIGTERM.", script: "trap '' TERM INT HUP; while :; do sleep 1; done",
			time: time.Second, says: "did not exit within 1s"},
		"Child": {reason: "The program exits, but its child process keeps the output open.", script: banner + "sleep 600 & echo $! >pid",
			want: "mysqld Ver 8.4.6 for Linux on x86_64\n"},
		"Children": {reason: "The program waits for its child process, which keeps the output open.",
			script: "sleep 600 & echo $! >pid; wait",
			time:   time.Second, says: "did not exit within 1s"},
		"Floods": {reason: "The output of the program must be limited.",
			script: "exec cat /dev/zero", says: "printed more than 65536 bytes"},
		"Fails": {reason: "The program exits with an error and prints no version.", script: "exit 3", says: "exit status 3"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			timeout := max(tc.time, 0)
			if timeout == 0 {
				timeout = time.Minute
			}
			got, err := askProgram(t.Context(), timeout, "/bin/sh", "-c", tc.script)
			if got != tc.want || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s Got %.80q, %v", tc.reason, got, err)
			}
			if raw, err := os.ReadFile("pid"); err == nil {
				gone(t, strings.TrimSpace(string(raw)))
			}
		})
	}
}

// gone checks that a process of the hostile program has exited. A zombie is accepted.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	for range 400 {
		raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil || strings.Contains(string(raw), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = syscall.Kill(n, syscall.SIGKILL)
	t.Errorf("process %s is left", pid)
}
