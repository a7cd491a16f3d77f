package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExits checks that the codes do not change, because the agent and the function may have different releases.
func TestExits(t *testing.T) {
	want := []int32{40, 41, 42, 43, 44, 45, 51, 52, 46, 47, 49}
	if diff := cmp.Diff(want, append(PermanentExits(), ExitBroken, ExitNoData, ExitSettings)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
