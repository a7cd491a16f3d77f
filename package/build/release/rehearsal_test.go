//go:build release

package main

import (
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"go.yaml.in/yaml/v3"
)

func fromEnv(t *testing.T, key string) string {
	t.Helper()
	value := os.Getenv(key)
	if value == "" {
		t.Fatalf("%s is not set: make release-dry-run sets it", key)
	}
	return value
}

// TestRehearsal pushes a release to a test registry, with the same programs as a real release. For each architecture,
// it checks that the registry contains all artifacts with the printed digests.
func TestRehearsal(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	target := strings.TrimPrefix(server.URL, "http://") + "/crossplane-mysql"
	c := pushCmd{Version: fromEnv(t, "VERSION"), From: fromEnv(t, "DIST"), To: target, CLI: fromEnv(t, "CROSSPLANE_CLI"),
		Helm: fromEnv(t, "HELM")}
	if err := checkSums(c.From); err != nil {
		t.Fatal(err)
	}
	pushed, err := c.push(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, p := range pushed {
		ref, err := name.NewDigest(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Get(ref, remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		short := strings.TrimPrefix(ref.Context().RepositoryStr(), "crossplane-mysql/")
		names[short] = []string{}
		if !got.MediaType.IsIndex() {
			continue
		}
		index, err := got.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		m, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range m.Manifests {
			names[short] = append(names[short], d.Platform.OS+"/"+d.Platform.Architecture)
		}
		slices.Sort(names[short])
	}
	both := []string{"linux/amd64", "linux/arm64"}
	want := map[string][]string{
		"crossplane-mysql": both, "function-mysql": both, "configuration-mysql": {}, "configuration-mysql-hostpath": {},
		"configuration-mysql-namespaced": {}, "configuration-database": {}, "charts/crossplane-mysql": {},
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want, +pushed:\n%s", diff)
	}
}

// TestFiles checks that the other files of the release can be used without changes.
func TestFiles(t *testing.T) {
	dist, version := fromEnv(t, "DIST"), fromEnv(t, "VERSION")
	if out, err := exec.CommandContext(t.Context(), "bash", "-c",
		"cd "+dist+" && sha256sum --check --strict --quiet SHA256SUMS").CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v: %s", err, out)
	}
	if left, err := filepath.Glob(filepath.Join(dist, ".*")); err != nil || len(left) > 0 {
		t.Errorf("there is something of the making in it: %v, %v", left, err)
	}
	krewFinds(t, dist, version)
	pushed := slices.Concat(slices.Collect(maps.Values(repositories()))...)
	if packages, err := filepath.Glob(filepath.Join(dist, "*.xpkg")); err != nil || len(packages) != len(pushed) {
		t.Errorf("want %v pushed, there are %v, %v", pushed, packages, err)
	}
	for program, module := range map[string]string{"crossplane-mysql": "sigs.k8s.io/controller-runtime",
		"function-mysql": "github.com/crossplane/function-sdk-go", "kubectl-mysql": "sigs.k8s.io/controller-runtime"} {
		var bom struct {
			BOMFormat  string
			Components []struct{ Name, Version string }
		}
		readJSON(t, filepath.Join(dist, program+".cdx.json"), &bom)
		if bom.BOMFormat != "CycloneDX" ||
			!slices.ContainsFunc(bom.Components, func(c struct{ Name, Version string }) bool {
				return c.Name == module && c.Version != ""
			}) {
			t.Errorf("%s is not built from %s, as its SBOM says, but of %d modules", program, module, len(bom.Components))
		}
	}
	for _, file := range []string{"records.yaml", "controller.yaml", "controller-opted-in.yaml", "platform.yaml",
		"gateway.yaml", "monitoring.yaml", "packages.yaml"} {
		raw, err := os.ReadFile(filepath.Join(dist, file))
		if err != nil {
			t.Fatal(err)
		}
		if tags := ownTag.FindAllString(string(raw), -1); len(tags) == 0 &&
			!slices.Contains([]string{"records.yaml", "monitoring.yaml"}, file) {
			t.Errorf("%s asks for no image of ours", file)
		}
		for _, tag := range ownTag.FindAllString(string(raw), -1) {
			if !strings.HasSuffix(tag, ":"+version) {
				t.Errorf("%s asks for %s", file, tag)
			}
		}
	}
}

// krewFinds checks that the manifest for krew lists the archive for this machine with its checksum. The program in
// the archive must print its version.
func krewFinds(t *testing.T, dist, version string) {
	t.Helper()
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct {
				Selector struct {
					MatchLabels struct{ OS, Arch string } `yaml:"matchLabels"`
				}
				URI, SHA256, Bin string
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(dist, "mysql.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Spec.Version != version || len(manifest.Spec.Platforms) != len(platforms()) {
		t.Errorf("krew is told of version %q for %d platforms", manifest.Spec.Version, len(manifest.Spec.Platforms))
	}
	for _, p := range manifest.Spec.Platforms {
		file := filepath.Join(dist, filepath.Base(p.URI))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if sumOf(content) != p.SHA256 {
			t.Errorf("krew refuses %s", file)
		}
		if l := p.Selector.MatchLabels; l.OS != runtime.GOOS || l.Arch != runtime.GOARCH {
			continue
		}
		dir := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-xzf", file).CombinedOutput(); err != nil {
			t.Fatalf("tar: %v: %s", err, out)
		}
		if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, p.Bin), "--version").
			CombinedOutput(); err != nil || !strings.Contains(string(out), version) {
			t.Errorf("want it to say %s, got %v: %s", version, err, out)
		}
	}
}

func readJSON(t *testing.T, file string, target any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, target); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
