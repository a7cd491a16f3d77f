package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMetadata checks that each package has the metadata that catalogs show, and the icon.
func TestMetadata(t *testing.T) {
	icon, err := os.ReadFile(filepath.Join(repository, "package", "icon.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages() {
		raw, err := os.ReadFile(p.sources(repository)[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"iconURI: data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(icon) + "\n",
			"license: Apache-2.0\n", "source: https://", "maintainer: ", "description: ", "readme: |\n", "/docs",
			"/CHANGELOG.md",
		} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("package/%s/crossplane.yaml has no %q", p.meta, want)
			}
		}
	}
}
