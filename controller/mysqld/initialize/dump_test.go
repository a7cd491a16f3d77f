package initialize

import "testing"

// TestWhatFailed is what is said of a client's words.
func TestWhatFailed(t *testing.T) {
	for said, want := range map[string]string{
		"mysql: [Warning] x\nERROR 1064 (42000) at line 3: You have an error near 'hunter2'\n": "the dump cannot be imported: a statement of it has failed: ERROR 1064 (42000) at line 3: You have an error",
		"ERROR 1062 (23000) at line 1: Duplicate entry 'a row' for key 'k'\n":                  "the dump cannot be imported: a statement of it has failed: ERROR 1062 (23000) at line 1: Duplicate entry ",
		"ERROR 1114 (HY000) at line 1: The table 't' is full\n":                                "the volume is full: no space left on device",
		"hunter2\n": "the client has failed without a word of a statement",
	} {
		if got := whatFailed(said).Error(); got != want {
			t.Errorf("%q: want %q, got %q", said, want, got)
		}
	}
}
