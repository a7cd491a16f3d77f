package admission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestRequireBackup checks the policy in docs/how-to/platform-policy.md, which forbids deletions without a backup.
func TestRequireBackup(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/platform-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "```yaml\napiVersion: admissionregistration.k8s.io/v1\n"
	_, rest, found := strings.Cut(string(page), head)
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatal("the page contains no policy")
	}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: admissionregistration.k8s.io/v1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	with := func(policy, skip string) *unstructured.Unstructured {
		u := claim("mysql:8.4")
		if policy != "" {
			u.Object["spec"].(map[string]any)["deletionPolicy"] = policy
		}
		if skip != "" {
			u.SetAnnotations(map[string]string{v1.AnnotationSkipBackup: skip})
		}
		return u
	}
	const noDiscard, noSkip = "Discard is not allowed", "skip-backup is not allowed"
	namespaced := with("Discard", "")
	namespaced.SetAPIVersion(v1.GroupVersion.String())
	cases := map[string]struct {
		reason   string
		new, old *unstructured.Unstructured
		want     string
	}{
		"Plain": {reason: "A new claim without either setting is allowed.",
			new: with("", "")},
		"Backup": {reason: "The default can be set explicitly.",
			new: with("Backup", "")},
		"Discard": {reason: "A new claim must not discard data.",
			new: with("Discard", ""), want: noDiscard},
		"NoClaim": {reason: "A MySQL without a claim has the same rule.",
			new: namespaced, want: noDiscard},
		"Change": {reason: "A change to Discard is refused.",
			new: with("Discard", ""), old: with("", ""), want: noDiscard},
		"Dying": {reason: "The change is also refused during the deletion.",
			new: dying(with("Discard", "")), old: dying(with("Backup", "")), want: noDiscard},
		"Kept": {reason: "Crossplane can update a claim that had the value before.",
			new: with("Discard", ""), old: with("Discard", "")},
		"Skip": {reason: "The annotation is refused.",
			new: with("", "uid"), old: with("", ""), want: noSkip},
		"SkipNew": {reason: "The annotation is refused on a new claim.",
			new: with("", "uid"), want: noSkip},
		"OtherSkip": {reason: "A different value of the annotation is refused.",
			new: with("", "uid"), old: with("", "other"), want: noSkip},
		"KeptSkip": {reason: "Crossplane can update a claim that had the annotation before.",
			new: with("", "uid"), old: with("", "uid")},
		"Unskipped": {reason: "The annotation can be removed.",
			new: with("", ""), old: with("", "uid")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := Write{New: tc.new, By: "tenant"}
			if tc.old != nil {
				w.Old = tc.old
			}
			got := ""
			if err := p.Refusal(t.Context(), w); err != nil {
				got = err.Error()
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("\n%s\nwant %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
