package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A pkg is one file in the output directory.
type pkg struct {
	file string

	// meta is the folder below package/ with the metadata.
	meta string

	// objects are generated files in the repository. They are copied when a package is built, so that nothing is kept twice.
	objects []string

	// arch is the architecture of the runtime image inside; empty for packages without one.
	arch string
}

// inputCRD describes the function's input. Crossplane installs it with the function. Editors and `crossplane resource
// validate` check the input of a Composition with it.
const inputCRD = "package/input/crossplane-mysql.io_settings.yaml"

// packages are all packages of this repository. The CRD of the backups is in none: a Configuration may not hold one,
// and the records must outlive a Function that is uninstalled.
func packages() []pkg {
	return []pkg{
		{file: "function-mysql-amd64.xpkg", meta: "function", arch: "amd64", objects: []string{inputCRD}},
		{file: "function-mysql-arm64.xpkg", meta: "function", arch: "arm64", objects: []string{inputCRD}},
		{file: "configuration-mysql.xpkg", meta: "configuration",
			objects: []string{"apis/xrd-xmysqls.yaml", "apis/composition-mysql.yaml"}},
		{file: "configuration-mysql-namespaced.xpkg", meta: "configuration-namespaced",
			objects: []string{"apis/xrd-mysqls.yaml", "apis/composition-mysql-namespaced.yaml"}},
		{file: "configuration-database.xpkg", meta: "configuration-database",
			objects: []string{"apis/xrd-xdatabases.yaml", "apis/composition-database.yaml"}},
		{file: "configuration-mysql-hostpath.xpkg", meta: "configuration-hostpath",
			objects: []string{"apis/composition-mysql-hostpath.yaml"}},
	}
}

// repository is the name that a package has in a registry.
func (p pkg) repository() string {
	return strings.TrimSuffix(strings.TrimSuffix(p.file, ".xpkg"), "-"+p.arch)
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
		s = append(s, filepath.Join(root, filepath.FromSlash(o)))
	}
	return s
}

// thisVersion is the version of the sources. The sources name its range where one package depends on another one.
const thisVersion = "v0.1.0"

// dependencyRange returns the versions of a dependency that fit a package of a version: the same version or a newer one,
// but no version that may change the API. Before 1.0 that is the next minor version, and then the next major one.
//
// Crossplane accepts a prerelease for a range only if each end of the range names a prerelease. A release therefore never
// installs a prerelease, and a prerelease accepts later prereleases and the release.
func dependencyRange(version string) string {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor); err != nil {
		return version // options.check has refused it.
	}
	next := fmt.Sprintf("v%d.0.0", major+1)
	if major == 0 {
		next = fmt.Sprintf("v0.%d.0", minor+1)
	}
	if strings.Contains(version, "-") {
		next += "-0"
	}
	return fmt.Sprintf(">=%s <%s", version, next)
}

// stage makes the package root that the CLI wants: one folder with everything in it, and nothing else. The ranges of
// the dependencies become those of the version.
func (p pkg) stage(root, dir, version string) error {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("cannot make the package root: %w", err)
	}
	for _, src := range p.sources(root) {
		b, err := os.ReadFile(src)
		if err != nil {
			return fmt.Errorf("cannot read a part of %s; go test ./apis -update generates the files in apis and package/input: %w",
				p.file, err)
		}
		b = bytes.ReplaceAll(b, dependencyLine(thisVersion), dependencyLine(version))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(src)), b, 0o600); err != nil {
			return fmt.Errorf("cannot stage a part of %s: %w", p.file, err)
		}
	}
	return nil
}

// dependencyLine returns the line of a package's metadata that has the range.
func dependencyLine(version string) []byte {
	return fmt.Appendf(nil, "version: %q\n", dependencyRange(version))
}
