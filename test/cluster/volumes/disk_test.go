package volumes

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv is the environment variable with the directory of the test. It is set when the test runs itself again in
// its own mount namespace.
const insideEnv = "VOLUMES_TEST_INSIDE"

// TestDisk runs TestInside and TestNextInside in new mount namespaces, with real disks. Mounts that these tests leave
// must disappear with their namespace, and their loop devices must be released.
func TestDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	dir := t.TempDir()
	for _, test := range []string{"TestInside", "TestNextInside"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
		cmd.Env = append(os.Environ(), insideEnv+"="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} // This also makes mounts private.
		out, err := cmd.CombinedOutput()
		t.Logf("in its own mount namespace:\n%s", out)
		if err != nil {
			t.Fatal(err)
		}
	}
	until(t, "loop devices stay behind", func() bool { return len(loops(t, dir)) == 0 })
	left, err := filepath.Glob(filepath.Join(dir, "dir", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("mounts are seen outside: %v, %v", left, err)
	}
}

// TestInside runs only when TestDisk calls it.
func TestInside(t *testing.T) {
	dir := os.Getenv(insideEnv)
	if dir == "" {
		t.Skip("only in the mount namespace of TestDisk")
	}
	d, err := newDisk(filepath.Join(dir, "images"), filepath.Join(dir, "dir"),
		slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.choose(t.Context()); err != nil {
		t.Fatal(err)
	}
	chosen := d.kind
	t.Run("chosen "+chosen, func(t *testing.T) { testInstance(t, d, dir) })
	for _, kind := range []string{ext4, plain} {
		d.kind = kind
		t.Run(kind, func(t *testing.T) { testRestart(t, d) })
	}
	d.kind = chosen
	t.Run("many", func(t *testing.T) { testMany(t, d, dir) })
	t.Run("twice", func(t *testing.T) { testTwice(t, d, dir) })
	m, err := d.provision(t.Context(), "pvc-left", smallest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.path, "data"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNextInside runs only when TestDisk calls it after TestInside, as on a node that was killed and restarted.
func TestNextInside(t *testing.T) {
	dir := os.Getenv(insideEnv)
	if dir == "" {
		t.Skip("only in the mount namespace of TestDisk")
	}
	p := &Provisioner{Images: filepath.Join(dir, "images"), Dir: filepath.Join(dir, "dir")}
	if err := p.Mount(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(p.Dir, "pvc-left", "data")); err != nil || string(b) != "kept" {
		t.Errorf("in the next namespace: %q, %v", b, err)
	}
	if err := p.Unmount(); err != nil {
		t.Fatal(err)
	}
}

// testTwice mounts an image file that is still mounted elsewhere, as in a namespace that still exists.
func testTwice(t *testing.T, d *disk, dir string) {
	t.Helper()
	first, err := d.provision(t.Context(), "pvc-twice", smallest)
	if err != nil {
		t.Fatal(err)
	}
	next, err := newDisk(d.images, t.TempDir(), d.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.mountAll(); err != nil {
		t.Fatal(err)
	}
	if got := len(loops(t, dir)); d.kind != plain && got != 1 {
		t.Errorf("one image has %d loop devices", got)
	}
	if err := os.WriteFile(filepath.Join(first.path, "data"), []byte("seen"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(next.target("pvc-twice"), "data")); err != nil || string(b) != "seen" {
		t.Errorf("seen through the other mount: %q, %v", b, err)
	}
	if err := next.unmountAll(); err != nil {
		t.Fatal(err)
	}
	if err := d.remove("pvc-twice"); err != nil {
		t.Fatal(err)
	}
}

// testInstance creates, fills, grows and deletes a volume.
func testInstance(t *testing.T, d *disk, dir string) {
	t.Helper()
	if d.kind == plain {
		t.Skip("this machine has no loop devices")
	}
	m, err := d.provision(t.Context(), "pvc-life", smallest)
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.provision(t.Context(), "pvc-life", 2*smallest)
	if err != nil || second != m || capacity(t, m.path) > smallest {
		t.Errorf("a second time it is another volume: %v, %v", second, err)
	}
	if info, err := os.Stat(m.path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the root of the volume: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(m.path, "lost+found")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("lost+found: %v, %v", info, err)
	}
	if err := fill(m.path); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full volume says: %v", err)
	}
	testGrowth(t, d, m.path)
	testInUse(t, d, m.path)
	if err := d.remove("pvc-life"); err != nil {
		t.Fatal(err)
	}
	if err := d.remove("pvc-life"); err != nil {
		t.Errorf("a second time it cannot be removed: %v", err)
	}
	until(t, "a loop device stays behind", func() bool { return len(loops(t, dir)) == 0 })
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func testGrowth(t *testing.T, d *disk, path string) {
	t.Helper()
	if _, err := d.try(t.Context(), d.kind); err != nil {
		t.Logf("not tested, as no file system grows here: %v", err)
		return
	}
	for range 2 {
		if err := d.grow(t.Context(), "pvc-life", 4*smallest); err != nil {
			t.Fatal(err)
		}
	}
	if c := capacity(t, path); c < 3*smallest {
		t.Errorf("after growth to %d it holds %d", 4*smallest, c)
	}
	if err := os.WriteFile(filepath.Join(path, "more"), make([]byte, mebibyte), 0o600); err != nil {
		t.Errorf("after growth there is no room: %v", err)
	}
}

// testInUse mounts a part of the volume, as the kubelet does for a subPath.
func testInUse(t *testing.T, d *disk, path string) {
	t.Helper()
	pod, sub := t.TempDir(), filepath.Join(path, "part")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := bind(sub, pod); err != nil {
		t.Fatal(err)
	}
	if err := d.remove("pvc-life"); err == nil || !strings.Contains(err.Error(), pod) {
		t.Errorf("in use, but: %v", err)
	}
	if !d.has("pvc-life") {
		t.Error("what a pod has is gone")
	}
	if err := unmount(pod); err != nil {
		t.Fatal(err)
	}
}

// testRestart checks the content of a volume after everything was unmounted.
func testRestart(t *testing.T, d *disk) {
	t.Helper()
	m, err := d.provision(t.Context(), "pvc-restart", smallest)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.path, "data")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.unmountAll(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.target("pvc-stale"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.mountAll(); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("after a restart: %q, %v", b, err)
	}
	if _, err := os.Stat(d.target("pvc-stale")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder without a disk stays: %v", err)
	}
	if err := d.remove("pvc-restart"); err != nil {
		t.Fatal(err)
	}
}

// testMany uses more loop devices than a new machine has device files for.
func testMany(t *testing.T, d *disk, dir string) {
	t.Helper()
	if d.kind == plain {
		t.Skip("this machine has no loop devices")
	}
	const many = 10
	for i := range many {
		if _, err := d.provision(t.Context(), fmt.Sprintf("pvc-%d", i), smallest); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(loops(t, dir)); got != many {
		t.Errorf("%d loop devices for %d volumes", got, many)
	}
	for i := range many {
		if err := d.remove(fmt.Sprintf("pvc-%d", i)); err != nil {
			t.Error(err)
		}
	}
}
