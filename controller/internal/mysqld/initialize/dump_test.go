package initialize

import (
	"io"
	"strings"
	"testing"
)

// TestSandboxLine checks that only the line that disables client commands is removed.
func TestSandboxLine(t *testing.T) {
	for dump, want := range map[string]string{
		"/*!999999\\- enable the sandbox mode */ \n-- a\n":   "-- a\n",
		"/*M!999999\\- enable the sandbox mode */\r\n-- a\n": "-- a\n",
		"/*M!999999\\- enable the sandbox mode */\n":         "",
		"-- a\n/*M!999999\\- enable the sandbox mode */\n":   "-- a\n/*M!999999\\- enable the sandbox mode */\n",
		"/*!40101 SET NAMES utf8 */;\n":                      "/*!40101 SET NAMES utf8 */;\n",
		"":                                                   "",
	} {
		got, err := io.ReadAll(withoutSandboxLine(strings.NewReader(dump)))
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", dump, got, err)
		}
	}
}

// TestWhatFailed checks that the error contains the cause, even if the client quotes the statement. It must not
// contain rows or passwords.
func TestWhatFailed(t *testing.T) {
	for output, want := range map[string]string{
		"mysql: [Warning] x\nERROR 1064 (42000) at line 3: You have an error near 'hunter2'\n": "the dump cannot be " +
			"imported: a statement in it failed: ERROR 1064 (42000) at line 3: You have an error near …",
		"ERROR 1064 (42000) at line 3: syntax to use near 'BY 'hunter2'' at line 1\n": "the dump cannot be " +
			"imported: a statement in it failed: ERROR 1064 (42000) at line 3: syntax to use near … at line 1",
		"ERROR 1062 (23000) at line 1: Duplicate entry 'a row' for key 'k'\n": "the dump cannot be imported: a " +
			"statement in it failed: ERROR 1062 (23000) at line 1: Duplicate entry … for key 'k'",
		"ERROR at line 1: Unknown command '\\-'.\n": "the dump cannot be imported: a statement in it failed: " +
			"ERROR at line 1: Unknown command '\\-'.",
		"ERROR 1153 (08S01) at line 9: Got a packet bigger than 'max_allowed_packet' bytes\n": "the dump cannot be " +
			"imported: a statement in it failed: ERROR 1153 (08S01) at line 9: Got a packet bigger than " +
			"'max_allowed_packet' bytes",
		"mysql: [ERROR] unknown option '--binary-mode'.\n": "the client failed: mysql: [ERROR] unknown option " +
			"'--binary-mode'.",
		"ERROR 1114 (HY000) at line 1: The table 't' is full\n": "the volume is full: no " +
			"space left on device",
		"hunter2\n": "the client failed without reporting a statement",
	} {
		if got := whatFailed(output).Error(); got != want {
			t.Errorf("%q: want %q, got %q", output, want, got)
		}
	}
}
