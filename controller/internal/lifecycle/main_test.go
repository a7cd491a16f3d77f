package lifecycle

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the heap grow further between two collections: the model makes
// small objects all the time, and a third of it was collecting them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
