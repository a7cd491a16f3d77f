package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/registry"
)

// Configuration files for buildah. They replace the files in this machine's /etc/containers.
const (
	registriesConf = `unqualified-search-registries = ["docker.io"]
short-name-mode = "permissive"
[[registry]]
prefix = "docker.io"
location = "%[1]s"
insecure = true
[[registry]]
prefix = "gcr.io"
location = "%[1]s"
insecure = true
`
	policyJSON  = `{"default": [{"type": "insecureAcceptAnything"}]}`
	storageConf = "[storage]\ndriver = \"vfs\"\n"
)

// A buildahRun builds an image from a Dockerfile. The base images are in the Builder's OCI layout, so that only Go
// modules are downloaded.
type buildahRun struct {
	*Builder

	dir   string // It is removed after the run.
	store string // It contains unpacked base images.
	goEnv map[string]string
}

func (b *Builder) buildah(ctx context.Context, dir, version string) (map[string]v1.Image, error) {
	if err := needs("buildah", "unshare"); err != nil {
		return nil, err
	}
	settings, err := goEnv(ctx, "GOPROXY", "GOSUMDB", "GOFLAGS", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return nil, err
	}
	r := &buildahRun{Builder: b, dir: dir, store: filepath.Join(b.Work, "buildah"), goEnv: settings}
	address, stop, err := r.serve(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := r.configure(address); err != nil {
		return nil, err
	}
	return r.images(ctx, version)
}

// serve starts a registry with the images of the OCI layout on a free port. buildah pulls the base images from it,
// because a pull selects the image for the required architecture, but an import does not.
func (r *buildahRun) serve(ctx context.Context) (address string, stop func(), err error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", nil, fmt.Errorf("cannot serve the base images: %w", err)
	}
	server := &http.Server{Handler: registry.Handler(r.Layout, filepath.Join(r.dir, "registry")),
		ReadHeaderTimeout: time.Minute}
	go server.Serve(l) //nolint:errcheck // It returns an error when the listener is closed.
	stop = func() { _ = server.Close() }
	if err := registry.Load(ctx, r.Layout, l.Addr().String()); err != nil {
		stop()
		return "", nil, err
	}
	return l.Addr().String(), stop, nil
}

// configure writes the configuration. If an earlier run was killed, it removes the data of that run, which may be
// incomplete.
func (r *buildahRun) configure(address string) error {
	_, err := os.Stat(r.busy())
	if !errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(r.store); err != nil {
			return fmt.Errorf("cannot remove what an earlier run left: %w", err)
		}
	}
	if err := os.MkdirAll(r.store, 0o700); err != nil {
		return err
	}
	for file, text := range map[string]string{
		r.busy(): "", r.file("registries.conf"): fmt.Sprintf(registriesConf, address),
		r.file("policy.json"): policyJSON, r.file("storage.conf"): storageConf, r.file("containers.conf"): "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (r *buildahRun) busy() string            { return filepath.Join(r.store, "busy") }
func (r *buildahRun) file(name string) string { return filepath.Join(r.dir, name) }

func (r *buildahRun) images(ctx context.Context, version string) (map[string]v1.Image, error) {
	if err := r.unpin(); err != nil {
		return nil, fmt.Errorf("cannot read the Dockerfile: %w", err)
	}
	images := map[string]v1.Image{}
	for _, arch := range r.architectures() {
		img, err := r.image(ctx, arch, version)
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", arch, err)
		}
		images[arch] = img
	}
	// Remove base images that were replaced by newer ones.
	if err := r.run(ctx, "rmi", "--prune", "--force"); err != nil {
		return nil, err
	}
	return images, os.Remove(r.busy())
}

func (r *buildahRun) image(ctx context.Context, arch, version string) (v1.Image, error) {
	tag, out := "localhost/built:"+arch, r.file(arch)
	if err := r.run(ctx, r.bud(tag, arch, version)...); err != nil {
		return nil, err
	}
	if err := r.run(ctx, "push", "--quiet", "--signature-policy", r.file("policy.json"), "--format", "oci", tag,
		"oci:"+out+":"+arch); err != nil {
		return nil, err
	}
	if err := r.run(ctx, "rmi", "--force", tag); err != nil {
		return nil, err
	}
	return onlyImage(out)
}

func (r *buildahRun) bud(tag, arch, version string) []string {
	args := []string{
		"bud", "--isolation", "chroot", "--layers=false", "--signature-policy", r.file("policy.json"), "--format", "oci",
		"--platform", "linux/" + arch, "--tag", tag, "--timestamp", "0",
		"--volume", r.goEnv["GOMODCACHE"] + ":/go/pkg/mod", "--volume", r.goEnv["GOCACHE"] + ":" + goCache,
		"--build-arg", "VERSION=" + version,
	}
	for _, k := range []string{"GOPROXY", "GOSUMDB", "GOFLAGS"} {
		args = append(args, "--build-arg", k+"="+r.goEnv[k])
	}
	return append(args, "--file", r.file("Dockerfile"), r.Root)
}

var pinned = regexp.MustCompile(`(?m)^(FROM .*)@sha256:[0-9a-f]{64}`)

// unpin writes a copy of the Dockerfile without digests, because the base images are built locally and have the same
// names but different digests.
func (r *buildahRun) unpin() error {
	raw, err := os.ReadFile(filepath.Join(r.Root, "Dockerfile"))
	if err != nil {
		return err
	}
	return os.WriteFile(r.file("Dockerfile"), pinned.ReplaceAll(raw, []byte("$1")), 0o600)
}

func (r *buildahRun) run(ctx context.Context, args ...string) error {
	cmd := r.command(ctx, args...)
	out, err := output(cmd)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(out, 20))
	}
	return nil
}

func (r *buildahRun) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := isolated(ctx, append([]string{
		"buildah", "--root", filepath.Join(r.store, "root"), "--runroot", r.file("run"), "--storage-driver", "vfs",
		"--registries-conf", r.file("registries.conf"),
	}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+r.dir, "HOME="+r.dir, "XDG_RUNTIME_DIR="+r.file("run"),
		"CONTAINERS_CONF="+r.file("containers.conf"), "CONTAINERS_STORAGE_CONF="+r.file("storage.conf"))
	return cmd
}
