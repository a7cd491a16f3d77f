package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// The push tests use real packages and the real CLI. If these are missing, the tests fail instead of being skipped,
// because a skipped test looks like a success.
const howTo = `make the packages and run the tests again, in the repository:
    go run -C package/build . --cli "$(go run ./test/tools cli)"
    CROSSPLANE_CLI="$(go run ./test/tools cli)" DIST="$PWD/dist" go test -C package/build ./...`

var repository = filepath.Join("..", "..") //nolint:gochecknoglobals // A constant path.

func fromEnv(t *testing.T, key string) string {
	t.Helper()
	path := os.Getenv(key)
	if path == "" {
		t.Fatalf("%s is not set; %s", key, howTo)
	}
	if !filepath.IsAbs(path) {
		t.Fatalf("%s is %q, but must be an absolute path; %s", key, path, howTo)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s: %v; %s", key, err, howTo)
	}
	return path
}

// A target is a temporary registry in this process, with the path of the real Crossplane CLI that pushes to it.
type target struct {
	host string
	cli  string
}

func newTarget(t *testing.T) target {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return target{host: strings.TrimPrefix(s.URL, "http://"), cli: fromEnv(t, "CROSSPLANE_CLI")}
}

func (r target) tag(t *testing.T, repo string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(r.host+"/crossplane-mysql/"+repo+":v0.1.0", name.StrictValidation)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// push runs the CLI with an empty docker configuration, so that it uses no credentials.
func (r target) push(t *testing.T, tag name.Tag, files ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.cli, "xpkg", "push", "--package-files", strings.Join(files, ","),
		tag.String())
	cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r target) mustPush(t *testing.T, tag name.Tag, files ...string) {
	t.Helper()
	if out, err := r.push(t, tag, files...); err != nil {
		t.Fatalf("crossplane xpkg push %s: %v\n%s", tag, err, out)
	}
}

func TestPushFunction(t *testing.T) {
	dist, r := fromEnv(t, "DIST"), newTarget(t)
	tag := r.tag(t, "function-mysql")

	images := map[string]pkg{}
	var files []string
	for _, p := range packages() {
		if p.arch != "" {
			images[p.arch] = p
			files = append(files, filepath.Join(dist, p.file))
		}
	}
	r.mustPush(t, tag, files...)

	idx, err := remote.Index(tag)
	if err != nil {
		t.Fatalf("what was pushed is not an index of images: %v", err)
	}
	pulled, err := platforms(idx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, sortedKeys(pulled)); diff != "" {
		t.Errorf("one tag must serve both architectures: -want, +got:\n%s", diff)
	}
	for platform, img := range pulled {
		arch := strings.TrimPrefix(platform, "linux/")
		if err := checkRuntime(img, arch); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
		if err := checkContent(img, images[arch].sources(repository)); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
		if platform == runtime.GOOS+"/"+runtime.GOARCH {
			checkRuns(t, img)
		}
	}
}

// checkRuns starts the function from an image of the registry.
func checkRuns(t *testing.T, img v1.Image) {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := readLayers(img, entrypoint[1:])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "function")
	if err := os.WriteFile(file, bin, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --version: %v\n%s", entrypoint, err, out)
	}
	if diff := cmp.Diff(c.Config.Labels[versionLabel], strings.TrimSpace(string(out))); diff != "" {
		t.Errorf("the function must say the version of its image: -want, +got:\n%s", diff)
	}
}

func TestPushConfigurations(t *testing.T) {
	dist, r := fromEnv(t, "DIST"), newTarget(t)
	for _, p := range packages() {
		if p.arch != "" {
			continue
		}
		t.Run(p.file, func(t *testing.T) {
			tag := r.tag(t, strings.TrimSuffix(p.file, ".xpkg"))
			r.mustPush(t, tag, filepath.Join(dist, p.file))
			img, err := remote.Image(tag)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkContent(img, p.sources(repository)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReadmePush runs the commands of docs/how-to/private-registry.md, with a local registry as REGISTRY.
func TestReadmePush(t *testing.T) {
	dist, r := fromEnv(t, "DIST"), newTarget(t)
	page, err := os.ReadFile(filepath.Join(repository, "docs", "how-to", "private-registry.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(r.cli, filepath.Join(bin, "crossplane")); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^crossplane xpkg push .* REGISTRY/(\S+):v0\.1\.0$`).
		FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 {
		t.Errorf("want a function and a configuration pushed, got %q", commands)
	}
	for _, c := range commands {
		typed := strings.ReplaceAll(c[0], "REGISTRY", r.host+"/crossplane-mysql")
		cmd := exec.CommandContext(t.Context(), "bash", "-c", typed)
		cmd.Dir = filepath.Dir(dist)
		cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+t.TempDir(),
			"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("$ %s: %v\n%s", typed, err, out)
		}
		if _, err := remote.Head(r.tag(t, c[1])); err != nil {
			t.Errorf("$ %s: %v", typed, err)
		}
	}
}

// TestPushRefusesHalf checks that a truncated package is not pushed, as after an interrupted copy or download.
func TestPushRefusesHalf(t *testing.T) {
	dist, r := fromEnv(t, "DIST"), newTarget(t)
	for _, p := range packages() {
		t.Run(p.file, func(t *testing.T) {
			whole, err := os.ReadFile(filepath.Join(dist, p.file))
			if err != nil {
				t.Fatal(err)
			}
			half := filepath.Join(t.TempDir(), p.file)
			if err := os.WriteFile(half, whole[:len(whole)/2], 0o600); err != nil {
				t.Fatal(err)
			}
			tag := r.tag(t, "half-"+strings.TrimSuffix(p.file, ".xpkg"))
			if out, err := r.push(t, tag, half); err == nil {
				t.Errorf("crossplane xpkg push took half of %s:\n%s", p.file, out)
			}
			if _, err := remote.Head(tag); err == nil {
				t.Errorf("half of %s is in the registry", p.file)
			}
			// The complete file must be accepted by the same command. Otherwise the refusal would prove nothing.
			r.mustPush(t, tag, filepath.Join(dist, p.file))
		})
	}
}
