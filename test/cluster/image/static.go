package image

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// SearchPath is the PATH of an image, in the form of an environment variable.
const SearchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// nonroot is the user ID in images with only one program.
const nonroot = 65532

// Pause is the recipe of the image for the process that keeps a pod's namespaces.
func (b *Builder) Pause(ctx context.Context) (Recipe, error) {
	bin, err := b.Compile(ctx, "test/cluster/image/pause")
	if err != nil {
		return Recipe{}, err
	}
	return program("localhost/pause:1", bin, "pause",
		v1.Config{Entrypoint: []string{"/pause"}, User: strconv.Itoa(nonroot)})
}

// CoreDNS is the recipe of CoreDNS. It runs as root, because it listens on port 53.
func (b *Builder) CoreDNS(context.Context) (Recipe, error) {
	bin, err := b.Tool("coredns")
	if err != nil {
		return Recipe{}, err
	}
	return program("registry.k8s.io/coredns/coredns:v1.14.2", bin, "coredns", v1.Config{Entrypoint: []string{"/coredns"}})
}

// program returns the recipe of an image with one static binary.
func program(name, bin, file string, c v1.Config) (Recipe, error) {
	sum, err := FileSum(bin)
	if err != nil {
		return Recipe{}, err
	}
	return Recipe{
		Names:  []string{name},
		Inputs: []string{sum, fmt.Sprintf("%q", c.Entrypoint), c.User},
		Build: func(_ context.Context, dir string) (mutate.Appendable, error) {
			w := NewLayer(dir)
			w.Program(file, bin)
			l, err := w.Close()
			if err != nil {
				return nil, err
			}
			return NewImage(runtime.GOARCH, c, l)
		},
	}, nil
}

const crossplaneModule = "github.com/crossplane/crossplane/v2"

// Crossplane is the recipe of Crossplane's image. The image has the same name as in Crossplane's chart. Its tag is
// the version of Crossplane's Go module.
func (b *Builder) Crossplane(ctx context.Context) (Recipe, error) {
	bin, err := b.Tool("core")
	if err != nil {
		return Recipe{}, err
	}
	sum, err := FileSum(bin)
	if err != nil {
		return Recipe{}, err
	}
	certs, err := readCertificates()
	if err != nil {
		return Recipe{}, err
	}
	version, dir, err := CrossplaneModule(ctx, b.Root)
	if err != nil {
		return Recipe{}, err
	}
	return Recipe{
		Names:  []string{"xpkg.crossplane.io/crossplane/crossplane:" + version},
		Inputs: []string{version, sum, certs},
		Build: func(_ context.Context, tmp string) (mutate.Appendable, error) {
			return crossplaneImage(tmp, bin, certs, filepath.Join(dir, "cluster"))
		},
	}, nil
}

func crossplaneImage(tmp, bin, certs, cluster string) (v1.Image, error) {
	w := NewLayer(tmp)
	staticTree(w, certs)
	w.Program("usr/local/bin/crossplane", bin)
	for _, d := range []string{"crds", "webhookconfigurations"} {
		w.Dir(d, 0o755, 0)
		w.manifests(filepath.Join(cluster, d), d)
	}
	l, err := w.Close()
	if err != nil {
		return nil, err
	}
	return NewImage(runtime.GOARCH, v1.Config{
		Entrypoint: []string{"crossplane"}, User: strconv.Itoa(nonroot), Env: []string{SearchPath}, WorkingDir: "/",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
	}, l)
}

// manifests adds YAML files with a fixed file mode, because the files in the module cache are read-only.
func (w *Layer) manifests(from, target string) {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("cannot find manifests in %s", from)
	}
	if err != nil {
		w.err = err
		return
	}
	for _, f := range files {
		w.copy(filepath.Join(target, filepath.Base(f)), f, 0o644)
	}
}

// CrossplaneModule returns the version and the directory of Crossplane's Go module. Both Crossplane's image and its
// chart are from this module.
func CrossplaneModule(ctx context.Context, root string) (version, dir string, err error) {
	cmd := command(ctx, "go", "mod", "download", "-json", crossplaneModule)
	cmd.Dir = filepath.Join(root, "test", "tools", "core")
	out, err := output(cmd)
	if err != nil {
		return "", "", fmt.Errorf("cannot find %s: %w", crossplaneModule, err)
	}
	var m struct {
		Version string `json:"Version"` //nolint:tagliatelle // This is its name in the go command's output.
		Dir     string `json:"Dir"`     //nolint:tagliatelle // This is its name in the go command's output.
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return "", "", fmt.Errorf("cannot find %s: %w", crossplaneModule, err)
	}
	return m.Version, m.Dir, nil
}

// distroless is the recipe of the base image for static programs. It contains no program, so it is built for every
// architecture.
func (b *Builder) distroless(ctx context.Context) (Recipe, error) {
	certs, err := readCertificates()
	if err != nil {
		return Recipe{}, err
	}
	goroot, version, err := goToolchain(ctx)
	if err != nil {
		return Recipe{}, err
	}
	return Recipe{
		Names:  []string{"gcr.io/distroless/static:nonroot"},
		Inputs: []string{certs, version},
		Build: func(_ context.Context, dir string) (mutate.Appendable, error) {
			return distrolessImages(dir, certs, filepath.Join(goroot, "lib", "time", "zoneinfo.zip"))
		},
	}, nil
}

func distrolessImages(dir, certs, zones string) (v1.ImageIndex, error) {
	w := NewLayer(dir)
	staticTree(w, certs)
	w.zones(zones)
	l, err := w.Close()
	if err != nil {
		return nil, err
	}
	images := map[string]v1.Image{}
	for _, arch := range []string{"amd64", "arm64"} {
		images[arch], err = NewImage(arch, v1.Config{
			User: strconv.Itoa(nonroot), WorkingDir: "/home/nonroot",
			Env: []string{SearchPath, "SSL_CERT_FILE=" + certificates},
		}, l)
		if err != nil {
			return nil, err
		}
	}
	return newIndex(images), nil
}

// newIndex returns an index with an image for each architecture.
func newIndex(images map[string]v1.Image) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: images[arch], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index
}

// staticTree adds the files that a static binary may need to the layer, such as CA certificates and /etc/passwd.
func staticTree(w *Layer, certs string) {
	for _, d := range []string{"etc", "etc/ssl", "etc/ssl/certs", "home", "usr", "usr/local", "usr/local/bin"} {
		w.Dir(d, 0o755, 0)
	}
	w.Dir("tmp", 0o1777, 0)
	w.Dir("home/nonroot", 0o700, nonroot)
	w.Text("etc/passwd", fmt.Sprintf(
		"root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"+
			"nonroot:x:%[1]d:%[1]d:nonroot:/home/nonroot:/sbin/nologin\n",
		nonroot))
	w.Text("etc/group", fmt.Sprintf("root:x:0:\nnobody:x:65534:\nnonroot:x:%d:\n", nonroot))
	w.Text(strings.TrimPrefix(certificates, "/"), certs)
}

// zones adds the time zone database of Go to the layer.
func (w *Layer) zones(file string) {
	z, err := zip.OpenReader(file)
	if err != nil {
		w.err = err
		return
	}
	defer z.Close() //nolint:errcheck // It was only read.
	made := map[string]bool{}
	for _, f := range z.File {
		name := filepath.Join("usr/share/zoneinfo", f.Name) //nolint:gosec // It is Go's own archive, and is not unpacked.
		w.parents(name, made)
		if f.FileInfo().IsDir() {
			continue
		}
		b, err := z.Open(f.Name)
		if err != nil {
			w.err = err
			return
		}
		w.header(tarFile(name, f.FileInfo().Size()), b)
		_ = b.Close() // It was only read.
	}
}

func readCertificates() (string, error) {
	b, err := os.ReadFile(certificates)
	if err != nil {
		return "", fmt.Errorf("cannot read the CA certificates, is the package ca-certificates installed: %w", err)
	}
	return string(b), nil
}
