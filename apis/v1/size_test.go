package v1

import "testing"

func TestRoundedSize(t *testing.T) {
	for in, want := range map[string]string{"0": "0Mi", "1": "1Mi", "1048576": "1Mi", "1048577": "2Mi", "10Gi": "10Gi",
		"3706215": "4Mi", "10737418241": "11Gi", "x": "x", "": ""} {
		if got := RoundedSize(in); got != want {
			t.Errorf("%s: want %s, got %s", in, want, got)
		}
	}
}
