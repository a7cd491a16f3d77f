package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"
)

// Annotation of the image layer from which Crossplane reads a package, and the file in this layer.
const (
	xpkgAnnotation = "io.crossplane.xpkg"
	xpkgBase       = "base"
	xpkgFile       = "package.yaml"
)

// machine returns the machine in the ELF header of a program for a Go architecture.
func machine(arch string) elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
}

// platforms returns the images of an index by os/architecture.
func platforms(idx v1.ImageIndex) (map[string]v1.Image, error) {
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("cannot read the index: %w", err)
	}
	images := map[string]v1.Image{}
	for _, d := range m.Manifests {
		if d.Platform == nil {
			return nil, fmt.Errorf("image %s in the index has no platform", d.Digest)
		}
		img, err := idx.Image(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("cannot pull an image of the index: %w", err)
		}
		images[d.Platform.OS+"/"+d.Platform.Architecture] = img
	}
	return images, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// checkRuntime returns an error if the kubelet could not run an image on a node with this architecture.
func checkRuntime(img v1.Image, arch string) error {
	c, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("cannot read the config: %w", err)
	}
	want := imageConfig(&v1.ConfigFile{}, arch, "")
	for _, d := range []string{
		cmp.Diff(want.OS+"/"+want.Architecture, c.OS+"/"+c.Architecture),
		cmp.Diff(want.Config.Entrypoint, c.Config.Entrypoint),
		cmp.Diff(want.Config.User, c.Config.User),
		cmp.Diff(want.Config.ExposedPorts, c.Config.ExposedPorts),
	} {
		if d != "" {
			return fmt.Errorf("wrong image config: -want, +got:\n%s", d)
		}
	}
	bin, err := readLayers(img, entrypoint[1:])
	if err != nil {
		return err
	}
	return checkBinary(bin, arch)
}

func checkBinary(bin []byte, arch string) error {
	f, err := elf.NewFile(bytes.NewReader(bin))
	if err != nil {
		return fmt.Errorf("%s is no program: %w", entrypoint, err)
	}
	if f.Machine != machine(arch) {
		return fmt.Errorf("%s is made for %s, not for %s", entrypoint, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically, but there is no loader in the image", entrypoint)
		}
	}
	return nil
}

// checkContent compares the package in an image with its source files. It compares them as YAML, in any order.
func checkContent(img v1.Image, sources []string) error {
	var want []map[string]any
	for _, s := range sources {
		b, err := os.ReadFile(s)
		if err != nil {
			return fmt.Errorf("cannot read a source: %w", err)
		}
		docs, err := decode(b)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		want = append(want, docs...)
	}
	b, err := packageYAML(img)
	if err != nil {
		return err
	}
	got, err := decode(b)
	if err != nil {
		return fmt.Errorf("%s: %w", xpkgFile, err)
	}
	for _, o := range got {
		dropEmptyStatus(o)
	}
	if diff := cmp.Diff(byName(want), byName(got)); diff != "" {
		return fmt.Errorf("the package differs from its sources: -want, +got:\n%s", diff)
	}
	return nil
}

func decode(b []byte) ([]map[string]any, error) {
	var docs []map[string]any
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot decode: %w", err)
		}
		if o != nil {
			docs = append(docs, o)
		}
	}
}

// byName groups objects by name, so that a duplicate object is a difference.
func byName(objects []map[string]any) map[string][]map[string]any {
	m := map[string][]map[string]any{}
	for _, o := range objects {
		meta, _ := o["metadata"].(map[string]any)
		key := fmt.Sprintf("%v %v %v", o["apiVersion"], o["kind"], meta["name"])
		m[key] = append(m[key], o)
	}
	return m
}

// dropEmptyStatus removes an empty status, which the CLI adds because it writes Go structs.
func dropEmptyStatus(o map[string]any) {
	if status, ok := o["status"]; ok && allZero(status) {
		delete(o, "status")
	}
}

func allZero(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return v == nil || reflect.ValueOf(v).IsZero()
	}
	for _, e := range m {
		if !allZero(e) {
			return false
		}
	}
	return true
}

// packageYAML reads the package as Crossplane does, from the layer with the annotation.
func packageYAML(img v1.Image) ([]byte, error) {
	m, err := img.Manifest()
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest: %w", err)
	}
	for _, d := range m.Layers {
		if d.Annotations[xpkgAnnotation] != xpkgBase {
			continue
		}
		l, err := img.LayerByDigest(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("cannot pull the package's layer: %w", err)
		}
		return readLayer(l, xpkgFile)
	}
	return nil, fmt.Errorf("no layer has the annotation %s=%s", xpkgAnnotation, xpkgBase)
}

var errNotThere = errors.New("not in the image")

func readLayers(img v1.Image, file string) ([]byte, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("cannot list the layers: %w", err)
	}
	for _, l := range layers {
		b, err := readLayer(l, file)
		if !errors.Is(err, errNotThere) {
			return b, err
		}
	}
	return nil, fmt.Errorf("%s: %w", file, errNotThere)
}

func readLayer(l v1.Layer, file string) ([]byte, error) {
	r, err := l.Uncompressed()
	if err != nil {
		return nil, fmt.Errorf("cannot unpack a layer: %w", err)
	}
	defer r.Close() //nolint:errcheck // The file is only read.
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", file, errNotThere)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read a layer: %w", err)
		}
		if h.Name == file {
			return io.ReadAll(t)
		}
	}
}
