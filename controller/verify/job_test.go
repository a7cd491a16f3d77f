package verify

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

var update = flag.Bool("update", false, "write the golden files")

// TestManifests holds the Job against its golden file.
func TestManifests(t *testing.T) {
	const agent = "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"
	onNode := proven(func(s *State) { s.Volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"} })
	for name, s := range map[string]*State{"verify-job": proven(), "verify-job-hostpath": onNode} {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.Marshal(newJob(s, agent))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, raw, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(raw)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if bytes.Contains(raw, []byte("assword")) {
				t.Error("the Job speaks of a password")
			}
		})
	}
}

// TestServerSeesTheCopyOnly: the image is the claim's, and the backups on the
// volume are not for it to change.
func TestServerSeesTheCopyOnly(t *testing.T) {
	pod := newJob(proven(), "agent").Spec.Template.Spec
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if c.Image == "agent" {
			continue
		}
		if len(c.SecurityContext.Capabilities.Add) > 0 {
			t.Errorf("%s has capabilities", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if m.Name != "tools" && m.SubPath != v1.VerifyFolder {
				t.Errorf("%s mounts %s at %q", c.Name, m.Name, m.SubPath)
			}
		}
	}
}
