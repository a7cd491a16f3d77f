package main

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// packageImage returns an image as it is in a registry, with one annotated layer that contains the package.
func packageImage(t *testing.T, annotation, yaml string) v1.Image {
	t.Helper()
	l, err := layer("/"+xpkgFile, []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.Append(empty.Image,
		mutate.Addendum{Layer: l, Annotations: map[string]string{xpkgAnnotation: annotation}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestCheckContent checks that checkContent finds differences. The push tests use checkContent.
func TestCheckContent(t *testing.T) {
	const (
		meta = "---\nkind: Configuration\nmetadata: {name: c}\nspec: {crossplane: {version: \">=v2\"}}\n"
		xrd  = "---\nkind: XRD\nmetadata: {name: x}\nspec: {group: g, max: 3}\n"
		bare = "status: {controllers: {kind: \"\", observed: 0}}\n"
	)
	dir := t.TempDir()
	write(t, dir, map[string]string{"crossplane.yaml": "# A comment.\n" + meta, "xrd.yaml": xrd})
	sources := []string{filepath.Join(dir, "crossplane.yaml"), filepath.Join(dir, "xrd.yaml")}

	cases := map[string]struct {
		reason string
		image  v1.Image
		err    string
	}{
		"Same": {"Comments and order do not matter, nor does a status without values.",
			packageImage(t, xpkgBase, xrd+bare+meta+"---\n"), ""},
		"NoAnnotation": {"Crossplane would not find the package.", packageImage(t, "other", meta+xrd), "annotation"},
		"Missing":      {"Metadata alone installs nothing.", packageImage(t, xpkgBase, meta), "differs"},
		"Twice":        {"The same object two times is one too many.", packageImage(t, xpkgBase, meta+xrd+xrd), "differs"},
		"Foreign": {"So is an object that nobody wrote.", packageImage(t, xpkgBase, meta+xrd+"---\nkind: CRD\n"),
			"differs"},
		"Value": {"A value that is another one.", packageImage(t, xpkgBase, meta+strings.Replace(xrd, "3", "4", 1)),
			"differs"},
		"Field": {"A field that the CLI does not know and drops.",
			packageImage(t, xpkgBase, meta+strings.Replace(xrd, ", max: 3", "", 1)), "differs"},
		"Status": {"A status with a value says something.",
			packageImage(t, xpkgBase, meta+xrd+strings.Replace(bare, "0", "1", 1)), "differs"},
		"NoYAML": {"What is no YAML is no package.", packageImage(t, xpkgBase, "a: b: c"), "decode"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkContent(tc.image, sources)
			if (tc.err != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("\n%s\ncheckContent(): want %q in the error, got %v", tc.reason, tc.err, err)
			}
		})
	}
}
