package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// notes writes the release notes: the section of CHANGELOG.md about this version.
func (w *workshop) notes(context.Context) error {
	raw, err := os.ReadFile(filepath.Join(w.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text, err := notesOf(string(raw), w.version)
	if err != nil {
		return err
	}
	return w.write("RELEASE-NOTES.md", []byte(text))
}

var heading = regexp.MustCompile(`(?m)^## (.*)\n`)

// notesOf returns the section of a changelog below the heading of a version.
func notesOf(changes, version string) (string, error) {
	found := heading.FindAllStringSubmatchIndex(changes, -1)
	for i, span := range found {
		if name, _, _ := strings.Cut(changes[span[2]:span[3]], " "); name != version {
			continue
		}
		end := len(changes)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if text := strings.TrimSpace(changes[span[1]:end]); text != "" {
			return text + "\n", nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no text about this version: write it below the heading %q", "## "+version)
}

// imageFile returns the name of the archive that contains the image of a release as an OCI layout.
func imageFile(version string) string { return "crossplane-mysql-image_" + version + ".tar" }

// architectures lists the architectures that the image must have.
var architectures = []string{"amd64", "arm64"} //nolint:gochecknoglobals // A constant list.

// image writes the image with all architectures.
func (w *workshop) image(from string) error {
	index, err := layout.ImageIndexFromPath(from)
	if err != nil {
		return fmt.Errorf("cannot read the image in %s: %w", from, err)
	}
	index, err = theIndex(index)
	if err != nil {
		return err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, arch := range architectures {
		if !slices.ContainsFunc(m.Manifests, func(d v1.Descriptor) bool {
			return d.Platform != nil && d.Platform.Architecture == arch
		}) {
			return fmt.Errorf("there is no image for %s in %s", arch, from)
		}
	}
	dir := w.file(".image")
	defer os.RemoveAll(dir) //nolint:errcheck // The rehearsal detects leftover files.
	path, err := layout.Write(dir, emptyIndex())
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": w.version})); err != nil {
		return err
	}
	return tarDir(w.file(imageFile(w.version)), dir)
}

// tarDir writes a directory to an archive. The same content always results in the same archive.
func tarDir(target, dir string) error {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // The file was just written.
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644,
			Size: int64(len(content)), ModTime: time.Unix(0, 0).UTC()}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	return os.WriteFile(target, out.Bytes(), 0o644)
}

// packages builds the Crossplane packages for each architecture.
func (w *workshop) packages(ctx context.Context) error {
	return w.run(ctx, "go", "run", "-C", "package/build", ".", "--cli", w.tools.CLI, "--version", w.version, "--out",
		w.dir)
}

// chart builds the chart. It replaces symbolic links in the source code with copies of the files.
func (w *workshop) chart(ctx context.Context) error {
	from, target := filepath.Join(w.root, "package", "chart"), w.file(".chart")
	defer os.RemoveAll(target) //nolint:errcheck // The rehearsal detects leftover files.
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(target, name), 0o750)
		}
		content, err := os.ReadFile(path) //nolint:gosec // It is a file of the repository.
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(target, name), ofVersion(content, w.version), 0o600)
	})
	if err != nil {
		return err
	}
	return w.run(ctx, w.tools.Helm, "package", target, "--version", w.bare(), "--app-version", w.version, "--destination",
		w.dir)
}

// manifests combines the manifests in each directory into one file for kubectl.
func (w *workshop) manifests(ctx context.Context) error {
	for name, dir := range map[string]string{
		"records.yaml": "records", "controller.yaml": "controller", "controller-opted-in.yaml": "opted-in",
		"platform.yaml": "platform",
		"gateway.yaml":  "gateway", "monitoring.yaml": "monitoring",
	} {
		out, err := w.output(ctx, w.tools.Kube, "kubectl", "kustomize", filepath.Join("controller", "deploy", dir))
		if err != nil {
			return err
		}
		if err := w.write(name, ofVersion(out, w.version)); err != nil {
			return err
		}
	}
	packages, err := os.ReadFile(filepath.Join(w.root, "package", "install.yaml"))
	if err != nil {
		return err
	}
	return w.write("packages.yaml", ofVersion(packages, w.version))
}

var ownTag = regexp.MustCompile(`(ghcr\.io/crossplane-mysql/[a-z-]+:)[^\s"']+`)

// ofVersion sets the released version in the image and package references of manifests. The source code may contain
// an earlier version.
func ofVersion(manifests []byte, version string) []byte {
	return ownTag.ReplaceAll(manifests, []byte("${1}"+version))
}

// programs maps each program that has an SBOM to the directory of its main package.
var programs = map[string]string{"crossplane-mysql": "controller", "function-mysql": "fn", "kubectl-mysql": "controller/kubectl-mysql"} //nolint:gochecknoglobals // A constant table.

// materials writes an SBOM for each program, as CycloneDX JSON, with the modules that are linked into the program.
func (w *workshop) materials(ctx context.Context) error {
	for name, dir := range programs {
		cmd := w.command(ctx, w.tools.CycloneDX, "app", "-json", "-licenses=false", "-noserial", "-main", dir, "-output",
			w.file(name+".cdx.json"), ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOWORK=off")
		var output bytes.Buffer
		cmd.Stderr = &output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("cyclonedx-gomod failed for %s: %w: %s", dir, err, output.String())
		}
		if info, err := os.Stat(w.file(name + ".cdx.json")); err != nil || info.Size() == 0 {
			return errors.Join(fmt.Errorf("there is no SBOM for %s", dir), err)
		}
	}
	return nil
}
