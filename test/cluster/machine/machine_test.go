package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fit returns the Facts of a machine that can run a cluster, for the test cases to change.
func fit() Facts {
	return Facts{
		UID: 0, Capabilities: 1<<41 - 1, DiskPath: "/repo", Disk: 100 << 30, DiskTotal: 200 << 30, Memory: 16 << 30, Overlay: true,
		Controllers: []string{"cpuset", "cpu", "io", "memory", "pids"},
	}
}

func TestProblems(t *testing.T) {
	cases := map[string]struct {
		reason string
		task   *Task // Cluster if nil.
		change func(*Facts)
		want   []string // The words of each problem, in order.
	}{
		"Fit": {reason: "The machine can run a cluster.", change: func(*Facts) {}},
		"NotRoot": {reason: "Without root, no other problem must be reported.",
			change: func(f *Facts) { f.UID, f.Capabilities = 1000, 0 }, want: []string{"sudo"}},
		"Capability": {reason: "The missing capability must be named.", change: func(f *Facts) {
			f.Capabilities &^= 1 << unix.CAP_NET_ADMIN
		}, want: []string{"CAP_NET_ADMIN"}},
		"NoResource": {reason: "CAP_SYS_RESOURCE is not required.", change: func(f *Facts) {
			f.Capabilities &^= 1 << unix.CAP_SYS_RESOURCE
		}},
		"Disk": {reason: "The free space and the directory must be reported.", change: func(f *Facts) { f.Disk = 1 << 30 },
			want: []string{"only 1.0 GiB are free below /repo"}},
		"FullDisk": {reason: "The tests of backups stop if less than a tenth of the disk is free.",
			change: func(f *Facts) { f.DiskTotal = 1000 << 30 },
			want:   []string{"a tenth of the disk, 100.0 GiB, has to stay free"}},
		"AlmostFull": {reason: "A tenth of the disk is free, which is just enough.",
			change: func(f *Facts) { f.DiskTotal = 920 << 30 }},
		"Images": {reason: "An image needs less than a cluster, and no part that stays free.", task: &Images,
			change: func(f *Facts) { f.Disk, f.DiskTotal = 3<<30, 1000<<30 }},
		"ImagesDisk": {reason: "The space that an image needs must be reported.", task: &Images,
			change: func(f *Facts) { f.Disk = 1 << 30 }, want: []string{"2.0 GiB are needed"}},
		"Memory": {reason: "The required memory must be reported.", change: func(f *Facts) { f.Memory = 1 << 30 },
			want: []string{"4.0 GiB are needed"}},
		"Overlay": {reason: "The module overlay may only have to be loaded.", change: func(f *Facts) { f.Overlay = false },
			want: []string{"modprobe overlay"}},
		"Cgroup": {reason: "Each missing controller must be named.",
			change: func(f *Facts) { f.Controllers = []string{"cpu", "cpuset", "pids"} }, want: []string{"controller memory"}},
		"Ports": {reason: "The port that is in use must be named.", change: func(f *Facts) { f.Ports = []int{20000} },
			want: []string{"port 20000 on 127.0.0.1 is in use"}},
		"All": {reason: "All problems must be reported at the same time.",
			change: func(f *Facts) { f.Disk, f.Ports = 0, []int{1, 2} },
			want:   []string{"free", "port 1 ", "port 2 "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := fit()
			tc.change(&f)
			task := &Cluster
			if tc.task != nil {
				task = tc.task
			}
			got := f.Problems(*task)
			if len(got) != len(tc.want) {
				t.Fatalf("%s\nwant %d problems, got %q", tc.reason, len(tc.want), got)
			}
			for i, w := range tc.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("%s\nwant %q in %q", tc.reason, w, got[i])
				}
			}
		})
	}
}

// TestLook checks the results for the machine that runs the test. This machine must be able to run a cluster, because
// other tests do so.
func TestLook(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is closed immediately.
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // Nothing has connected.
	port := l.Addr().(*net.TCPAddr).Port
	f, err := Look(t.TempDir(), port)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Ports) != 1 || f.Ports[0] != port {
		t.Errorf("want port %d to be in use, got %v", port, f.Ports)
	}
	if f.Disk == 0 || f.Memory == 0 || f.Capabilities == 0 || len(f.Controllers) == 0 {
		t.Errorf("a fact is missing: %+v", f)
	}
	f.Ports = nil
	if p := f.Problems(Cluster); len(p) > 0 {
		t.Errorf("these tests need a machine that can run a cluster: %q", p)
	}
}

func TestControllers(t *testing.T) {
	v2, v1 := t.TempDir(), t.TempDir()
	write(t, filepath.Join(v2, "cgroup.controllers"), "cpuset cpu io memory pids\n")
	for _, c := range []string{"cpu", "memory"} {
		write(t, filepath.Join(v1, c, "cgroup.procs"), "")
	}
	for dir, want := range map[string]string{v2: "[cpuset cpu io memory pids]", v1: "[cpu memory]", t.TempDir(): "[]"} {
		if got := fmt.Sprint(controllers(dir)); got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRemoveCgroups checks with real cgroups that all cgroups of the given name are removed, and no others.
func TestRemoveCgroups(t *testing.T) {
	root := CgroupRoot
	if _, err := os.Stat(filepath.Join(root, "pids")); err == nil {
		root = filepath.Join(root, "pids")
	}
	name := fmt.Sprintf("test-cluster-test-%d", os.Getpid())
	other := name + "-other"
	for _, dir := range []string{filepath.Join(name, "node1", "pod"), other} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Remove(filepath.Join(root, other)) //nolint:errcheck // It is checked below.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 { // The second call has nothing to do.
		if err := RemoveCgroups(ctx, CgroupRoot, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, name)); !os.IsNotExist(err) {
		t.Errorf("the cgroup is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, other)); err != nil {
		t.Errorf("the other cgroup is gone: %v", err)
	}
}

func TestInstallSaysWhatAptSays(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "apt-get"), "#!/bin/sh\necho E: Unable to locate package >&2\nexit 100\n")
	if err := os.Chmod(filepath.Join(dir, "apt-get"), 0o700); err != nil { //nolint:gosec // The test runs it.
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/bin")
	err := Install(t.Context(), []string{"containerd"})
	if err == nil || !strings.Contains(err.Error(), "cannot install containerd") ||
		!strings.Contains(err.Error(), "Unable to locate package") {
		t.Errorf("want what apt-get said, got %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	err = Install(t.Context(), []string{"containerd", "runc"})
	if err == nil || !strings.Contains(err.Error(), "install containerd runc by hand") {
		t.Errorf("want what to do without apt-get, got %v", err)
	}
}
