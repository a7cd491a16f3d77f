package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sharing lists the modules that must require the same versions of libraries as the root module, so that Go compiles
// each library only once. The values are exceptions: prefixes of libraries of which the module needs a different
// version.
func sharing() map[string][]string {
	return map[string][]string{
		"package/build": nil, "test/cluster": nil, "test/images": nil, "test/install": nil, "test/e2e": nil,
		"test/gitops":          nil,
		"test/tools/core":      nil,
		"test/tools/versitygw": {"github.com/golang-jwt/"},
		"test/tools/cli": { // It requires newer versions.
			"github.com/crossplane/function-sdk-go", "go.opentelemetry.io/",
			"k8s.io/apiextensions-apiserver", "k8s.io/apiserver", "k8s.io/component-base",
		},
		"test/tools/kube": { // Its release of Kubernetes differs from that of the product's libraries.
			"k8s.io/", "sigs.k8s.io/", "github.com/google/cel-go", "github.com/antlr4-go/", "github.com/go-openapi/",
			"github.com/grpc-ecosystem/", "go.opentelemetry.io/",
		},
	}
}

func TestModulesShareVersions(t *testing.T) {
	root := filepath.Join("..", "..")
	want := requirements(t, root)
	for dir, others := range sharing() {
		shared := 0
		for module, version := range requirements(t, filepath.Join(root, filepath.FromSlash(dir))) {
			if want[module] == "" || hasPrefix(module, others) {
				continue
			}
			shared++
			if version != want[module] {
				t.Errorf("%[1]s requires %[2]s %[3]s, and the root %[4]s: Go compiles both. Run "+
					"(cd %[1]s && go get %[2]s@%[4]s && go mod tidy), or raise the root's",
					dir, module, version, want[module])
			}
		}
		if shared == 0 {
			t.Errorf("%s shares no library with the root", dir)
		}
	}
}

// requirements returns the direct and indirect requirements of a module with their versions.
func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") && strings.Contains(f[0], "/") {
			all[f[0]] = f[1]
		}
	}
	return all
}

func hasPrefix(module string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(module, p) {
			return true
		}
	}
	return false
}
