package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/template"
	"time"
)

// A platform is an operating system and an architecture for which the kubectl plugin is built.
type platform struct{ OS, Arch string }

// platforms returns the platforms of the plugin. Windows is missing, because the plugin shares packages with the
// controller, which use signals and process groups.
func platforms() []platform {
	return []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}}
}

// pluginName is the file name by which kubectl finds the plugin.
const pluginName = "kubectl-mysql"

// plugins builds the kubectl plugin for each platform. Each archive also contains the license. It also writes the
// manifest for krew.
func (w *workshop) plugins(ctx context.Context) error {
	type archive struct {
		platform

		File, SHA256 string
	}
	license, err := os.ReadFile(filepath.Join(w.root, "LICENSE"))
	if err != nil {
		return err
	}
	var archives []archive
	for _, p := range platforms() {
		bin := filepath.Join(w.dir, ".bin", p.OS+"-"+p.Arch, pluginName)
		cmd := w.command(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
			"-ldflags=-s -w -X main.version="+w.version, "-o", bin, "./controller/kubectl-mysql")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+p.OS, "GOARCH="+p.Arch)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("cannot build the kubectl plugin for %s/%s: %w", p.OS, p.Arch, err)
		}
		program, err := os.ReadFile(bin)
		if err != nil {
			return err
		}
		content, err := archiveOf(map[string][]byte{pluginName: program, "LICENSE": license})
		if err != nil {
			return err
		}
		a := archive{platform: p, File: fmt.Sprintf("kubectl-mysql_%s_%s_%s.tar.gz", w.version, p.OS, p.Arch),
			SHA256: sumOf(content)}
		if err := w.write(a.File, content); err != nil {
			return err
		}
		archives = append(archives, a)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, ".bin")); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := krew.Execute(&out, map[string]any{"Version": w.version, "Archives": archives}); err != nil {
		return err
	}
	return w.write("mysql.krew.yaml", out.Bytes())
}

// krew is the template of the plugin's manifest for krew (krew's developer guide, plugin-manifest).
var krew = template.Must(template.New("krew").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: mysql
spec:
  version: {{.Version}}
  homepage: https://github.com/crossplane-mysql/crossplane-mysql
  shortDescription: Manage the MySQL instances of crossplane-mysql
  description: |
    Lists MySQL instances and shows the status of each of them, takes and restores backups, starts a client
    through a forwarded port, and finds problems in a cluster.
  platforms:
{{- range .Archives}}
  - selector:
      matchLabels:
        os: {{.OS}}
        arch: {{.Arch}}
    uri: https://github.com/crossplane-mysql/crossplane-mysql/releases/download/{{$.Version}}/{{.File}}
    sha256: {{.SHA256}}
    bin: kubectl-mysql
{{- end}}
`))

// archiveOf returns an archive of files that all users may execute. The same content always results in the same
// archive.
func archiveOf(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		mode := int64(0o644)
		if name == pluginName {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(files[name])),
			ModTime: time.Unix(0, 0).UTC()}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
