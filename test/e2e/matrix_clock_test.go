package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// Offsets of the controller's clock. fast is a larger offset than a store accepts, and monthOff is longer than the
// retention period of backups.
const (
	fast     = time.Hour
	monthOff = 31 * 24 * time.Hour
)

// Names of the controller images whose clocks are ahead by fast and by monthOff.
const (
	fastController  = "ghcr.io/crossplane-mysql/crossplane-mysql:fast"
	monthController = "ghcr.io/crossplane-mysql/crossplane-mysql:month"
)

// setsClock replaces the controller with a controller whose clock is fast, until the deletion is complete. The nodes
// share the clock of one machine, so time.Now is changed in the controller's source code instead.
func setsClock(t *testing.T, c *cell) {
	t.Helper()
	runsFastController(t, c, c.host.fastController, fastController, fast)
}

// setsClockByAMonth is like setsClock, but the clock is a month ahead. The controller must use the API server's time
// for the deletion. Otherwise it would treat a backup of the last 30 days as expired
// (lifecycle.TestWrongClockDeletesNoBackup).
func setsClockByAMonth(t *testing.T, c *cell) {
	t.Helper()
	runsFastController(t, c, c.host.monthController, monthController, monthOff)
}

func runsFastController(t *testing.T, c *cell, build func() (string, error), name string, ahead time.Duration) {
	t.Helper()
	image, err := build()
	if err != nil {
		t.Fatal(err)
	}
	c.host.load(t, image)
	installed := &appsv1.Deployment{}
	if err := framework.Suite.Kube.Get(t.Context(),
		client.ObjectKey{Namespace: framework.SystemNamespace, Name: "crossplane-mysql"}, installed); err != nil {
		t.Fatal(err)
	}
	c.later(t, func(t *testing.T) { t.Helper(); runsController(t, installed.Spec.Template.Spec.Containers[0].Image) })
	runsController(t, name)
	framework.Eventually(t, "a clock that is fast", func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := framework.Suite.Kube.Get(ctx,
			client.ObjectKey{Namespace: framework.SystemNamespace, Name: "controller.crossplane-mysql.io"}, &lease); err != nil {
			return err
		}
		if renewTime := lease.Spec.RenewTime; renewTime == nil || time.Until(renewTime.Time) < ahead/2 {
			return fmt.Errorf("the controller says that it is %s", renewTime)
		}
		return nil
	})
}

// deletionsAreOver waits for the deletions of all cases that run together. If a case uses a store, its deletion
// cannot finish, because a store refuses requests if the clock is an hour off. The claim must report the reason.
func deletionsAreOver(t *testing.T, c *cell) {
	t.Helper()
	for _, m := range c.meeting.all() {
		if m.usesStore() {
			m.Says(t, "the clocks of the store and of this machine differ")
			continue
		}
		framework.Eventually(t, "the deletion of "+m.title(), func(ctx context.Context) error {
			if step := m.progress(ctx); step != isOver {
				return fmt.Errorf("it is at %s", step)
			}
			return nil
		})
	}
}

func runsController(t *testing.T, image string) {
	t.Helper()
	rollOut(t, framework.SystemNamespace, "crossplane-mysql",
		fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller","image":%q}]}}}}`, image))
}

// controllerWithFastClock builds an image that contains only a controller with a fast clock, and returns the image
// file. This compiles Go's standard library again, which takes minutes.
func controllerWithFastClock(ctx context.Context, dir, name string, ahead time.Duration) (string, error) {
	root := exec.CommandContext(ctx, "go", "env", "GOROOT")
	root.Dir = framework.Repository()
	out, err := root.Output()
	if err != nil {
		return "", fmt.Errorf("cannot find Go's own sources: %w", err)
	}
	const asked = "sec, nsec, mono := runtimeNow()\n"
	answered := fmt.Sprintf("%s\tsec += %d\n", asked, int(ahead.Seconds()))
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	return imageWithOtherWords(ctx, dir, "./controller", name, map[string][2]string{source: {asked, answered}})
}

// imageWithOtherWords builds an image that contains a single program of this repository, and returns the image file.
// For each source file, words contains a text and its replacement (see -overlay in `go help build`).
func imageWithOtherWords(ctx context.Context, dir, program, image string, words map[string][2]string) (string, error) {
	replace := map[string]string{}
	for source, w := range words {
		text, err := os.ReadFile(source)
		if err != nil {
			return "", err
		}
		if n := bytes.Count(text, []byte(w[0])); n != 1 {
			return "", fmt.Errorf("want one place in %s that says %q, there are %d", source, w[0], n)
		}
		replace[source] = filepath.Join(dir, filepath.Base(source))
		if err := os.WriteFile(replace[source], bytes.Replace(text, []byte(w[0]), []byte(w[1]), 1), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list, binary, file := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program"), filepath.Join(dir,
		"image.tar")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", binary, program)
	build.Dir = framework.Repository()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s with other words: %w: %s", program, err, out)
	}
	img, err := imageOf(binary)
	if err != nil {
		return "", err
	}
	tag, err := name.NewTag(image)
	if err != nil {
		return "", err
	}
	return file, tarball.WriteToFile(file, tag, img)
}

// imageOf returns an image with a static binary.
func imageOf(binary string) (v1.Image, error) {
	b, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "controller", Mode: 0o755,
		Size: int64(len(b))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		Config: v1.Config{Entrypoint: []string{"/controller"}},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(img, layer)
}

// load imports an image file on all nodes.
func (h *host) load(t *testing.T, file string) {
	t.Helper()
	var nodes corev1.NodeList
	if err := framework.Suite.Kube.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		image, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd := h.command(t.Context(), h.number(t, nodes.Items[i].Name), "ctr images import -")
		cmd.Stdin = image
		out, err := cmd.CombinedOutput()
		_ = image.Close() // It was only read.
		if err != nil {
			t.Fatalf("cannot load an image into %s: %v: %s", nodes.Items[i].Name, err, strings.TrimSpace(string(out)))
		}
	}
}
