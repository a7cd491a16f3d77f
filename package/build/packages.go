package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A pkg is one file in the output directory.
type pkg struct {
	file string

	// meta is the folder below package/ with the metadata.
	meta string

	// objects are files in apis/. They are copied when a package is built, so that nothing is kept twice.
	objects []string

	// arch is the architecture of the runtime image inside; empty for packages without one.
	arch string
}

// packages are all packages of this repository. The CRD of the backups is in none: a Configuration may not hold one,
// and the records must outlive a Function that is uninstalled.
func packages() []pkg {
	return []pkg{
		{file: "function-mysql-amd64.xpkg", meta: "function", arch: "amd64"},
		{file: "function-mysql-arm64.xpkg", meta: "function", arch: "arm64"},
		{file: "configuration-mysql.xpkg", meta: "configuration", objects: []string{"xrd-xmysqls.yaml", "composition-mysql.yaml"}},
		{file: "configuration-database.xpkg", meta: "configuration-database", objects: []string{"xrd-xdatabases.yaml", "composition-database.yaml"}},
		{file: "configuration-mysql-hostpath.xpkg", meta: "configuration-hostpath", objects: []string{"composition-mysql-hostpath.yaml"}},
	}
}

// architectures that the function is built for.
func architectures() []string {
	var all []string
	for _, p := range packages() {
		if p.arch != "" {
			all = append(all, p.arch)
		}
	}
	return all
}

// packages that the command line asks for.
func (o *options) packages() []pkg {
	return slices.DeleteFunc(packages(), func(p pkg) bool { return o.arch != "" && p.arch != "" && p.arch != o.arch })
}

// sources are the files that a package is made of.
func (p pkg) sources(root string) []string {
	s := make([]string, 0, 1+len(p.objects))
	s = append(s, filepath.Join(root, "package", p.meta, "crossplane.yaml"))
	for _, o := range p.objects {
		s = append(s, filepath.Join(root, "apis", o))
	}
	return s
}

// thisVersion is that of the sources, which name it where one package of a release depends on another one: exactly, so that
// what was tested together is installed together.
const thisVersion = "v0.1.0"

// stage makes the package root that the CLI wants: one folder with everything in it, and nothing else. What depends on
// this version does on the one that is released.
func (p pkg) stage(root, dir, version string) error {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("cannot make the package root: %w", err)
	}
	for _, src := range p.sources(root) {
		b, err := os.ReadFile(src)
		if err != nil {
			return fmt.Errorf("cannot read a part of %s; files in apis are made by go test ./apis -update: %w", p.file, err)
		}
		b = bytes.ReplaceAll(b, []byte("version: "+thisVersion+"\n"), []byte("version: "+version+"\n"))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(src)), b, 0o600); err != nil {
			return fmt.Errorf("cannot stage a part of %s: %w", p.file, err)
		}
	}
	return nil
}
