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
		"Same": {"Comments, the order of objects and an empty status must be ignored.",
			packageImage(t, xpkgBase, xrd+bare+meta+"---\n"), ""},
		"NoAnnotation": {"Crossplane would not find the package in a layer without the annotation.",
			packageImage(t, "other", meta+xrd), "annotation"},
		"Missing": {"The package contains only its metadata.", packageImage(t, xpkgBase, meta), "differs"},
		"Twice":   {"The package contains the same object twice.", packageImage(t, xpkgBase, meta+xrd+xrd), "differs"},
		"Foreign": {"The package contains an object that is not in the sources.",
			packageImage(t, xpkgBase, meta+xrd+"---\nkind: CRD\n"),
			"differs"},
		"Value": {"A value differs from the sources.", packageImage(t, xpkgBase, meta+strings.Replace(xrd, "3", "4", 1)),
			"differs"},
		"Field": {"A field of the sources is missing, because the CLI drops unknown fields.",
			packageImage(t, xpkgBase, meta+strings.Replace(xrd, ", max: 3", "", 1)), "differs"},
		"Status": {"A status with a value must be reported as a difference.",
			packageImage(t, xpkgBase, meta+xrd+strings.Replace(bare, "0", "1", 1)), "differs"},
		"NoYAML": {"The content of the package is not valid YAML.", packageImage(t, xpkgBase, "a: b: c"), "decode"},
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
