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
		"None": {reason: "The needed size is unknown before the first backup.", want: ""},
		"Some": {reason: "The backups of 1 GiB and 2 GiB and the next one of 1.25 GiB need 4.25 GiB, rounded up.",
			given: []variation{sizes("1Gi", "2Gi")}, want: "5Gi"},
		"Small": {reason: "A size below 1 GiB must be given in MiB.", given: []variation{sizes("100Mi")}, want: "225Mi"},
		"Elsewhere": {reason: "Backups on another volume must not count.",
			given: []variation{sizes("1Gi"), func(s *instance.State) { s.Records[0].Spec.Instance.NamespaceUID = "earlier" }},
			want:  ""},
		"Failed": {reason: "Failed backups must not count.",
			given: []variation{sizes("1Gi"), func(s *instance.State) { s.Records[0].Status.Phase = v1.BackupFailed }}, want: ""},
		"Unknown": {reason: "A backup without a size must not count.", given: []variation{sizes("")}, want: ""},
		"Endless": {reason: "A huge size must neither overflow nor take long to calculate with.",
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
