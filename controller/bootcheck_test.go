package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// tried creates a directory with an empty copy of the data. It also puts a shell script that replaces mysqld into the
// PATH.
func tried(t *testing.T, program, script string) (dir, report string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "v") //nolint:usetesting // A socket's path is at most 107 bytes.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write(t, filepath.Join(dir, "copy", ".copy"), "")
	write(t, filepath.Join(dir, "copy", "data", "ibdata1"), "")
	write(t, filepath.Join(dir, "bin", program), "#!/bin/sh\n"+script)
	if err := os.Chmod(filepath.Join(dir, "bin", program), 0o700); err != nil { //nolint:gosec // It is a program.
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
	return filepath.Join(dir, "copy"), filepath.Join(dir, "report")
}

// TestBootCheck checks that the command exits with 0 for each verdict, and that the report contains the verdict.
func TestBootCheck(t *testing.T) {
	const (
		newData = "case \"$*\" in *--initialize-insecure*) exit 0;; esac; " // The script accepts its options.
		old     = "case \"$*\" in *--initialize-insecure*) echo \"[ERROR] unknown option '--initialize-insecure'\" >&2; " +
			"exit 7;; *--bootstrap*) exit 0;; esac; "
	)
	const corrupt = "echo '2026-01-01T00:00:00Z 1 [ERROR] [MY-011971] [InnoDB] Page 7 is corrupt.' >&2; "
	cases := map[string]struct {
		program, script string
		code            int
		want            string
	}{
		"Broken": {"mysqld", newData + corrupt + "exit 1", agent.ExitBroken,
			"did not start with the data (exit status 1): [MY-011971] [InnoDB] Page 7 is corrupt."},
		"Aborted": {"mysqld", newData + corrupt + "kill -6 $$", agent.ExitBroken, "(signal: aborted"},
		"Silent":  {"mysqld", newData + "exit 1", agent.ExitBroken, "(exit status 1): it printed nothing"},
		"Old":     {"mysqld", old + corrupt + "exit 1", agent.ExitBroken, "Page 7 is corrupt"},
		"Options": {"mysqld", "echo '[ERROR] these options are odd' >&2; exit 3", agent.ExitFailed,
			"cannot create a new data directory with the same options either: exit status 3: these options are odd"},
		"Mute": {"mysqld", "exit 1", agent.ExitFailed, "The backup is not the cause"},
		"Torn": {"mysqld", "printf 'its last words'; exit 1", agent.ExitFailed, "(exit status 1): its last words."},
		"Killed": {"mysqld", corrupt + "kill -9 $$", agent.ExitFailed,
			"the server was killed, probably because memory ran out"},
		"Full": {"mysqld", corrupt + "echo '[ERROR] [InnoDB] Error number 28 means No space left on device'; exit 1",
			agent.ExitFailed, "the backup is not the cause"},
		"Other": {"mongod", "", agent.ExitFailed, "neither mysqld nor mariadbd"},
		"Removed": {"mysqld", corrupt + "rm $(dirname $0)/../copy/.copy; exit 1", agent.ExitBusy,
			"was deleted during the test because a backup needs the space"},
		"Gone": {"mysqld", "rm -r $(dirname $0)/../copy; exit 1", agent.ExitBusy, "was deleted during the test because a backup needs the space"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir, report := tried(t, tc.program, tc.script)
			code, out := run(t, "bootcheck", "--dir="+dir, "--report="+report)
			if code != 0 {
				t.Fatalf("it ended with %d: %s", code, out)
			}
			r := readReport(t, report)
			if r.Command != "bootcheck" || r.OK || r.ExitCode != tc.code || !strings.Contains(r.Error, tc.want) ||
				!strings.Contains(out, tc.want) {
				t.Errorf("the report is %+v, want %d: %s\n%s", r, tc.code, tc.want, out)
			}
		})
	}
	dir, _ := tried(t, "mysqld", "exit 1")
	if code, out := run(t, "bootcheck", "--dir="+dir, "--report=/proc/none"); code == 0 {
		t.Errorf("without a report it ended with 0: %s", out)
	}
}

// TestBootCheckEnds checks that `controller bootcheck` leaves no mysqld process behind, even if the command itself is
// killed.
func TestBootCheckEnds(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			dir, report := tried(t, "mysqld", "echo $$ >$(dirname $0)/pid; exec sleep 600")
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self, "bootcheck", "--dir="+dir, "--report="+report)
			cmd.Env = append(os.Environ(), mainVariable+"=1")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			server := 0
			soon(t, "the server starts", func() bool {
				raw, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "bin", "pid"))
				server, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
				return server > 0
			})
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			soon(t, "the server ends", func() bool { return !runs(server) })
			if signal == syscall.SIGTERM {
				if r := readReport(t, report); r.ExitCode != agent.ExitStopped || cmd.ProcessState.ExitCode() != 0 {
					t.Errorf("it ended with %v, and its report is %+v", cmd.ProcessState, r)
				}
			}
		})
	}
}

// runs reports whether a process is running. It returns false for a zombie.
func runs(pid int) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

func soon(t *testing.T, subject string, done func() bool) {
	t.Helper()
	for range 600 {
		if done() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not true within half a minute: %s", subject)
}
