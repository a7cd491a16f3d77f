package lifecycle

import (
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// TestNeededRoom checks that the size allows for the backups on the volume and for one more as large as the newest.
func TestNeededRoom(t *testing.T) {
	sizes := func(texts ...string) variation {
		return func(s *instance.State) {
			older(len(texts))(s)
			for i, size := range texts {
				s.Records[i].Spec.Archive.Size = size
			}
		}
	}
	cases := map[string]struct {
		reason string
		given  []variation
		want   string
	}{
		"None":  {reason: "Before the first nothing is known.", want: ""},
		"Some":  {reason: "1 and 2 Gi, and 1¼ more.", given: []variation{sizes("1Gi", "2Gi")}, want: "5Gi"},
		"Small": {reason: "Below a Gi it is told in Mi.", given: []variation{sizes("100Mi")}, want: "225Mi"},
		"Elsewhere": {reason: "Those on another volume are no matter.",
			given: []variation{sizes("1Gi"), func(s *instance.State) { s.Records[0].Spec.Instance.NamespaceUID = "earlier" }},
			want:  ""},
		"Failed": {reason: "Nor are those that are none.",
			given: []variation{sizes("1Gi"), func(s *instance.State) { s.Records[0].Status.Phase = v1.BackupFailed }}, want: ""},
		"Unknown": {reason: "Who says no size takes no room that anybody knows.", given: []variation{sizes("")}, want: ""},
		"Endless": {reason: "No number of anybody's is calculated with for long, or turns round.",
			given: []variation{sizes("9223372036854775807", "9223372036854775807", "1e999999")}, want: "2304Pi"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := backup.NeededRoom(running(tc.given...)); got != tc.want {
				t.Errorf("%s want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
