//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRuntimeObjects checks that the objects in package/install.yaml that are not packages are installed, too.
func TestRuntimeObjects(t *testing.T) {
	got, err := runtimeObjects("../../package/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"\n---\n": 1, "kind: DeploymentRuntimeConfig\n": 1, "kind: NetworkPolicy\n": 1,
		"kind: Function\n": 0, "kind: Configuration\n": 0} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("%q is in it %d times:\n%s", text, n, got)
		}
	}
}

// TestHas uses a package's status from a real Crossplane.
func TestHas(t *testing.T) {
	const object = `{"metadata":{"generation":1},"status":{"currentRevision":"crossplane-mysql-function-mysql-REV","conditions":[
		{"type":"Installed","status":"True","reason":"ActivePackageRevision"},
		{"type":"Healthy","status":"HEALTHY","reason":"UnhealthyPackageRevision","message":"cannot pull"}]}}`
	// The revision was computed with: printf 'DIGEST|1' | sha256sum
	const digest, revision = "1a91013bb6d3b7cf36600a076a47bb91a6b4062562ef36c40e2559500101aa84", "4eae4229b551"
	cases := map[string]struct {
		reason   string
		revision string
		healthy  string
		want     bool
	}{
		"Loaded": {reason: "The installed package is the one that was pushed, and it is healthy.",
			revision: revision, healthy: "True", want: true},
		"Unhealthy": {reason: "The installed package is not healthy yet.", revision: revision, healthy: "False"},
		"Earlier":   {reason: "The earlier package is still installed.", revision: "0123456789ab", healthy: "True"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var s packageState
			if err := json.Unmarshal([]byte(strings.NewReplacer("REV", tc.revision, "HEALTHY", tc.healthy).Replace(object)),
				&s); err != nil {
				t.Fatal(err)
			}
			if got := s.has("crossplane-mysql-function-mysql", digest); got != tc.want {
				t.Errorf("%s\nwant %t, got %t", tc.reason, tc.want, got)
			}
			if !tc.want && tc.healthy == "False" && !strings.Contains(s.complaint(), "cannot pull") {
				t.Errorf("want to be told why, got %s", s.complaint())
			}
		})
	}
}
