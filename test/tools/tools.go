package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Directories below the root of the repository.
const (
	modulesDir = "test/tools"
	cacheDir   = ".cache/tools"
)

// A tool is a program that a module below test/tools pins with a tool directive.
type tool struct {
	title  string
	module string
	help   string

	// in is the directory below test/tools with the tool's go.mod, if it differs from the tool's name. In this case,
	// pkg is the package of the program. Programs in the same module share one version of each library, which is
	// compiled only once.
	in, pkg string

	// versionVar is the variable that the tool's release build sets at link time. If it is not set, Crossplane's version
	// is "", and Crossplane refuses every package with a version constraint.
	versionVar string
}

const crossplaneVersion = "github.com/crossplane/crossplane-runtime/v2/pkg/version.version"

var tools = map[string]tool{ //nolint:gochecknoglobals // The table is never changed.
	"cli": {
		title:      "crossplane-cli",
		module:     "github.com/crossplane/cli/v2",
		help:       "today's crossplane CLI: render, validate, xpkg build and push",
		versionVar: crossplaneVersion,
	},
	"core": {
		title:      "crossplane-core",
		module:     "github.com/crossplane/crossplane/v2",
		help:       "Crossplane itself, which the CLI's render and the test cluster run",
		versionVar: crossplaneVersion,
	},
	"cli116": {
		title:      "crossplane-cli-1.16",
		module:     "github.com/crossplane/crossplane",
		help:       "the last CLI that spells it \"crossplane beta render\"; for nothing but that",
		versionVar: "github.com/crossplane/crossplane/internal/version.version",
	},
	"kube": {
		title:      "kubernetes",
		module:     "k8s.io/kubernetes",
		in:         "kube",
		pkg:        ".",
		help:       "Kubernetes' programs, kubectl and etcd in one binary, which the test cluster runs",
		versionVar: "k8s.io/component-base/version.gitVersion",
	},
	"coredns": {
		title:  "coredns",
		module: "github.com/coredns/coredns",
		in:     "kube",
		pkg:    "./coredns",
		help:   "the test cluster's DNS server",
	},
	"mongod": {
		title:  "ferretdb",
		module: "github.com/FerretDB/FerretDB",
		help:   "FerretDB, which the test cluster runs as MongoDB",
	},
	"helm": {
		title:  "helm",
		module: "helm.sh/helm/v3",
		in:     "kube",
		pkg:    "helm.sh/helm/v3/cmd/helm",
		help:   "installs Crossplane's chart in the test cluster",
	},
	"versitygw": {
		title:  "versitygw",
		module: "github.com/versity/versitygw",
		help:   "an S3 server, which tests have as a store",
	},
	"seaweedfs": {
		title:  "seaweedfs",
		module: "github.com/seaweedfs/seaweedfs",
		help:   "another S3 server, which make test-all has as a store",
	},
	"certmanager": {
		title:  "cert-manager",
		module: "github.com/cert-manager/cert-manager",
		help:   "what of cert-manager signs certificates, which make test-all has as an issuer",
	},
	"providersql": {
		title:  "provider-sql",
		module: "github.com/crossplane-contrib/provider-sql",
		help:   "Crossplane's provider of users and databases, which make test-all has beside the product",
	},
	"promtool": {
		title:  "promtool",
		module: "github.com/prometheus/prometheus",
		help:   "Prometheus' tool, by which make test-all tries the alerts",
	},
	"prometheus": {
		title:  "prometheus",
		module: "github.com/prometheus/prometheus",
		help:   "Prometheus itself, which make test-all asks what the dashboard asks",
	},
	"exporter": {
		title:  "mysqld_exporter",
		module: "github.com/prometheus/mysqld_exporter",
		help:   "metrics of a MySQL server, for those",
	},
	"cyclonedx": {
		title:  "cyclonedx-gomod",
		module: "github.com/CycloneDX/cyclonedx-gomod",
		help:   "says which modules a program is built from, for releases",
	},
	"gotestsum": {
		title:  "gotestsum",
		module: "gotest.tools/gotestsum",
		help:   "runs the tests on a cluster, and says at their end again what failed",
	},
	"actionlint": {
		title:  "actionlint",
		module: "github.com/rhysd/actionlint",
		help:   "the linter of GitHub's workflows",
	},
	"vale": {
		title:  "vale",
		module: "github.com/errata-ai/vale/v2",
		help:   "the linter of the texts",
	},
	"hugo": {
		title:  "hugo",
		module: "github.com/gohugoio/hugo",
		help:   "builds the documentation site",
	},
	"htmltest": {
		title:  "htmltest",
		module: "github.com/wjdp/htmltest",
		help:   "checks the links of the documentation site",
	},
	"lint": {
		title:  "golangci-lint",
		module: "github.com/golangci/golangci-lint/v2",
		help:   "the linters",
	},
}

// moduleDir returns the directory below test/tools with the tool's module.
func (t tool) moduleDir(name string) string {
	if t.in != "" {
		return t.in
	}
	return name
}

func known() []string { return slices.Sorted(maps.Keys(tools)) }

// A pin contains everything that affects the binary of a tool. If nothing of it has changed, the cached binary is used.
type pin struct {
	goMod, goSum string
	sources      string // The source code of the program, if it is not published.
	goVersion    string
	args         []string
}

// Key returns a short hash of the pin. The same inputs result in the same key on every machine. The hash includes the
// length of each file, so that it changes if a line moves from one file to the next.
func (p pin) Key() string {
	var in strings.Builder
	for _, s := range append([]string{p.goMod, p.goSum, p.sources, p.goVersion}, p.args...) {
		fmt.Fprintf(&in, "%d\n%s\n", len(s), s)
	}
	sum := sha256.Sum256([]byte(in.String()))
	return hex.EncodeToString(sum[:])[:12]
}

// Version returns the version of a module that the tool's go.mod requires. The go command would download half of the
// module graph to determine it.
func (p pin) Version(module string) (string, error) {
	for line := range strings.Lines(p.goMod) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) >= 2 && f[0] == module {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("cannot find the version of %s in its go.mod: run go mod tidy there", module)
}

func readPin(dir string) (pin, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return pin{}, fmt.Errorf("cannot read what to build: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return pin{}, fmt.Errorf("cannot read the checksums, run go mod tidy there: %w", err)
	}
	sources, err := readSources(dir)
	if err != nil {
		return pin{}, fmt.Errorf("cannot read what to build: %w", err)
	}
	return pin{goMod: string(mod), goSum: string(sum), sources: sources}, nil
}

func readSources(dir string) (string, error) {
	var all strings.Builder
	for _, pattern := range []string{"*.go", filepath.Join("*", "*.go")} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&all, "%s %d\n%s", filepath.Base(f), len(b), b)
		}
	}
	return all.String(), nil
}

func findRoot(from string) (string, error) {
	start, err := filepath.Abs(from)
	if err != nil {
		return "", fmt.Errorf("cannot determine the current directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, modulesDir, "cli", "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", fmt.Errorf("cannot look for the repository: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("cannot find the repository in or above %s: run this inside it, or say --root", start)
		}
	}
}
