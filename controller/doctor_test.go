package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/doctor"
)

// TestVerdict: notes are no reason to fail a script.
func TestVerdict(t *testing.T) {
	for severity, want := range map[doctor.Severity]int{doctor.OK: 0, doctor.Note: 0, doctor.Wrong: doctor.ExitWrong} {
		r := &doctor.Report{Instances: []doctor.Instance{{Findings: []doctor.Finding{{Severity: severity}}}}}
		if got := agent.CodeOf(r.Err()); got != want {
			t.Errorf("want %d after a finding that is %s, got %d", want, severity, got)
		}
	}
}

// TestDoctorIsBlind: no cluster is no reason to say that all is well.
func TestDoctorIsBlind(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if code, out := run(t, "doctor"); code != doctor.ExitBlind || !strings.Contains(out, "cannot look at the cluster") {
		t.Errorf("it ended with %d: %s", code, out)
	}
	if code, out := run(t, "doctor", "--help"); code != 0 || !strings.Contains(out, "2 it could not look") {
		t.Errorf("--help ended with %d: %s", code, out)
	}
}
