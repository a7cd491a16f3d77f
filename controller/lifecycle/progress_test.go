package lifecycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// TestHint: the command that gives the data up stands in the message of claim and XR, for
// those who wait, and in nothing that others repeat, such as doctor.
func TestHint(t *testing.T) {
	cases := map[string]struct {
		reason string
		state  *instance.State
		hint   string
	}{
		"Failed":     {reason: "It is tried again.", state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken), hint: v1.AnnotationSkipBackup + "=" + xrUID},
		"Held":       {reason: "A person has to act.", state: fenced(func(s *instance.State) { s.PVCNameConflict = true }), hint: v1.AnnotationSkipBackup + "=" + xrUID},
		"NotStarted": {reason: "The backup may be the only copy, and no server runs on it.", state: provenState(requireRestorable, restorable(0, metav1.ConditionFalse)), hint: `"requireRestorable":false`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			shown := 0
			for _, c := range step.Changes {
				deletion, ok := c.Fields["deletion"].(map[string]any)
				if !ok {
					continue
				}
				shown++
				if message, _ := c.Fields["message"].(string); !strings.Contains(message, tc.hint) {
					t.Errorf("%s want the hint %q in the message %q", tc.reason, tc.hint, message)
				}
				if message, _ := deletion["message"].(string); message == "" || strings.Contains(message, tc.hint) {
					t.Errorf("%s want no hint in %q", tc.reason, message)
				}
			}
			if shown == 0 {
				t.Errorf("%s %s shows nothing", tc.reason, step.Action)
			}
		})
	}
}
