package image

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// surplusGo matches files of the Go distribution that are not needed to compile a program.
var surplusGo = regexp.MustCompile(`^(api|doc|misc|test|\.git)(/|$)|_test\.go$|(^|/)testdata(/|$)`)

// goCache is the directory of Go's build cache in the image.
const goCache = "/go/cache"

// golang is the recipe of the image golang, on which the repository's Dockerfile is based. It contains this machine's
// Go on a small Debian.
func (b *Builder) golang(ctx context.Context) (Recipe, error) {
	goroot, version, err := goToolchain(ctx)
	if err != nil {
		return Recipe{}, err
	}
	certs, err := readCertificates()
	if err != nil {
		return Recipe{}, err
	}
	return Recipe{
		Names:  []string{DockerHub + "golang:1.26"},
		Inputs: []string{version, certs, Unneeded.String(), surplusGo.String(), strings.Join(BasePackages, " ")},
		Build: func(ctx context.Context, dir string) (mutate.Appendable, error) {
			if !strings.HasPrefix(version, "go1.26") {
				return nil, fmt.Errorf("cannot make it of %s", version)
			}
			return b.golangImage(ctx, dir, goroot, version, certs)
		},
	}, nil
}

func (b *Builder) golangImage(ctx context.Context, dir, goroot, version, certs string) (v1.Image, error) {
	root, err := b.Debian(ctx, dir, "bookworm", BasePackages)
	if err != nil {
		return nil, err
	}
	w := NewLayer(dir)
	w.Text(strings.TrimPrefix(certificates, "/"), certs)
	for _, d := range []string{"root", "go", "go/bin", "go/src", "go/pkg", "usr/local/go"} {
		w.Dir(d, 0o755, 0)
	}
	w.tree(goroot, "usr/local/go", surplusGo.MatchString)
	w.Debian(root, func(string) bool { return false })
	l, err := w.Close()
	if err != nil {
		return nil, err
	}
	return NewImage(runtime.GOARCH, v1.Config{
		Env: []string{
			"PATH=/go/bin:/usr/local/go/bin" + strings.Replace(SearchPath, "PATH=", ":", 1),
			"GOLANG_VERSION=" + strings.TrimPrefix(version, "go"), "GOTOOLCHAIN=local", "GOPATH=/go", "GOCACHE=" + goCache,
		},
		Cmd: []string{"bash"}, WorkingDir: "/go",
	}, l)
}

// goToolchain returns the directory and the version of Go.
func goToolchain(ctx context.Context) (goroot, version string, err error) {
	settings, err := goEnv(ctx, "GOROOT", "GOVERSION")
	if err != nil {
		return "", "", err
	}
	goroot, err = filepath.EvalSymlinks(settings["GOROOT"])
	return goroot, settings["GOVERSION"], err
}

func goEnv(ctx context.Context, names ...string) (map[string]string, error) {
	out, err := output(command(ctx, "go", append([]string{"env", "-json"}, names...)...))
	if err != nil {
		return nil, fmt.Errorf("cannot ask Go for its settings: %w", err)
	}
	settings := map[string]string{}
	if err := json.Unmarshal([]byte(out), &settings); err != nil {
		return nil, fmt.Errorf("cannot ask Go for its settings: %w", err)
	}
	return settings, nil
}
