package v1

import "testing"

func TestReleasesFit(t *testing.T) {
	cases := map[string]struct {
		reason, function, controller string
		want                         bool
	}{
		"Same":       {"The function and the controller of the same release were tested together.", "v0.1.0", "v0.1.0", true},
		"Patch":      {"A patch does not change the API.", "v0.1.3", "v0.1.0", true},
		"Prerelease": {"A prerelease has the API of its release.", "v0.1.0-rc.1", "v0.1.0", true},
		"Minor":      {"Before v1.0.0, a minor version may change the API.", "v0.2.0", "v0.1.9", false},
		"Later":      {"From v1.0.0, a minor version must not change the API.", "v1.4.0", "v1.2.0", true},
		"Major":      {"A major version may change the API.", "v2.0.0", "v1.9.0", false},
		"Zero":       {"The major versions differ.", "v1.1.0", "v0.1.0", false},
		"Unknown":    {"The release of the function is unknown.", "latest", "v0.1.0", false},
		"Neither":    {"The releases of the function and the controller are unknown.", "", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ReleasesFit(tc.function, tc.controller); got != tc.want {
				t.Errorf("%s ReleasesFit(%q, %q): want %t", tc.reason, tc.function, tc.controller, tc.want)
			}
		})
	}
}
