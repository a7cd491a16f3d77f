package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	entrypoint = "/usr/local/bin/function"
	port       = "9443/tcp"

	// nonroot is a numeric user, because Crossplane runs functions with runAsNonRoot and the kubelet cannot resolve user
	// names.
	nonroot = "65532:65532"

	versionLabel = "org.opencontainers.image.version"
)

// epoch returns the modification time of all files in an image, so that the same source results in the same digest.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// writeImage writes an image with a static binary as a tarball in Docker's format.
func writeImage(target, bin, arch, version string) error {
	b, err := os.ReadFile(bin)
	if err != nil {
		return fmt.Errorf("cannot read the binary: %w", err)
	}
	img, err := image(b, arch, version)
	if err != nil {
		return err
	}
	// This name is used only in the tarball. The package gets its own name when it is pushed.
	tag, err := name.NewTag("function-mysql:" + version)
	if err != nil {
		return fmt.Errorf("cannot create a tag for the image: %w", err)
	}
	if err := tarball.WriteToFile(target, tag, img); err != nil {
		return fmt.Errorf("cannot write the image: %w", err)
	}
	return nil
}

// image returns an image with one file. The function is a static binary that opens no connections, so it needs no
// shell, no passwd and no certificates.
func image(bin []byte, arch, version string) (v1.Image, error) {
	l, err := layer(entrypoint, bin)
	if err != nil {
		return nil, err
	}
	base, err := empty.Image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("cannot create an empty image: %w", err)
	}
	img, err := mutate.ConfigFile(empty.Image, imageConfig(base.DeepCopy(), arch, version))
	if err != nil {
		return nil, fmt.Errorf("cannot set the image's config: %w", err)
	}
	return mutate.Append(img, mutate.Addendum{
		Layer:   l,
		History: v1.History{CreatedBy: "package/build", Created: v1.Time{Time: epoch()}},
	})
}

func imageConfig(c *v1.ConfigFile, arch, version string) *v1.ConfigFile {
	c.OS, c.Architecture = "linux", arch
	c.Created = v1.Time{Time: epoch()}
	c.Config = v1.Config{
		Entrypoint:   []string{entrypoint},
		User:         nonroot,
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{port: {}},
		Labels: map[string]string{
			"org.opencontainers.image.source": "https://github.com/crossplane-mysql/crossplane-mysql",
			versionLabel:                      version,
		},
	}
	return c
}

// layer returns a layer with one executable file and its parent directories.
func layer(file string, content []byte) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, dir := range parents(file) {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: epoch()}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("cannot write a directory to the layer: %w", err)
		}
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: file[1:], Mode: 0o755, Size: int64(len(content)), ModTime: epoch()}
	if err := w.WriteHeader(h); err != nil {
		return nil, fmt.Errorf("cannot write a file to the layer: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("cannot write a file to the layer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot finish the layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot create the layer: %w", err)
	}
	return l, nil
}

// parents returns the parent directories of an absolute path, the topmost first, without the leading slash.
func parents(file string) []string {
	var dirs []string
	for d := path.Dir(file); d != "/"; d = path.Dir(d) {
		dirs = append(dirs, d[1:])
	}
	slices.Reverse(dirs)
	return dirs
}
