package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A pkg is a Crossplane package of this repository. Its file is in the output directory.
type pkg struct {
	file string

	// meta is the directory below package/ with the package's metadata, crossplane.yaml.
	meta string

	// objects are generated files of the repository. They are copied into the package, so that the repository needs only
	// one copy.
	objects []string

	// arch is the architecture of the runtime image, or "" for packages without one.
	arch string
}

// inputCRD is the CRD of the function's input. Crossplane installs it with the function. Editors and `crossplane
// resource validate` use it to validate the input in a Composition.
const inputCRD = "package/input/crossplane-mysql.io_settings.yaml"

// packages returns all packages of this repository. None of them contains the CRD of the BackupRecords. A
// Configuration cannot contain a CRD, and BackupRecords must outlive the uninstallation of a Function.
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

// repository returns the name of the repository of a package in a registry.
func (p pkg) repository() string {
	return strings.TrimSuffix(strings.TrimSuffix(p.file, ".xpkg"), "-"+p.arch)
}

// architectures returns the architectures that the function is built for.
func architectures() []string {
	var all []string
	for _, p := range packages() {
		if p.arch != "" {
			all = append(all, p.arch)
		}
	}
	return all
}

// packages returns the packages that the command line selects.
func (o *options) packages() []pkg {
	return slices.DeleteFunc(packages(), func(p pkg) bool { return o.arch != "" && p.arch != "" && p.arch != o.arch })
}

// sources returns the source files of a package.
func (p pkg) sources(root string) []string {
	s := make([]string, 0, 1+len(p.objects))
	s = append(s, filepath.Join(root, "package", p.meta, "crossplane.yaml"))
	for _, o := range p.objects {
		s = append(s, filepath.Join(root, filepath.FromSlash(o)))
	}
	return s
}

// thisVersion is the version of this source code. The packages in the source code depend on each other with the range
// that dependencyRange returns for this version.
const thisVersion = "v0.1.0"

// dependencyRange returns the version range in which a package depends on the other packages. The range starts with
// the package's own version. It ends before the next version that may change the API. That is the next minor version
// before 1.0, and the next major version afterwards.
//
// Crossplane accepts a prerelease for a range only if each end of the range names a prerelease. A release therefore
// never installs a prerelease, and a prerelease accepts later prereleases and the release.
func dependencyRange(version string) string {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor); err != nil {
		return version // options.check has already refused it.
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

// stage creates the package root for the CLI, a directory that contains exactly the files of the package. It sets the
// version ranges of the dependencies.
func (p pkg) stage(root, dir, version string) error {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("cannot create the package root: %w", err)
	}
	for _, src := range p.sources(root) {
		b, err := os.ReadFile(src)
		if err != nil {
			return fmt.Errorf("cannot read a file of %s; go test ./apis -update generates the files in apis and "+
				"package/input: %w",
				p.file, err)
		}
		b = bytes.ReplaceAll(b, dependencyLine(thisVersion), dependencyLine(version))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(src)), b, 0o600); err != nil {
			return fmt.Errorf("cannot copy a file of %s: %w", p.file, err)
		}
	}
	return nil
}

// dependencyLine returns the line with the version range in a package's metadata.
func dependencyLine(version string) []byte {
	return fmt.Appendf(nil, "version: %q\n", dependencyRange(version))
}
