package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An ownCluster is the cluster that the tests have booted. before describes the machine before the boot, so that the
// tests can detect leftovers of the cluster.
type ownCluster struct {
	Kubeconfig string
	namespaces []string
	before     map[string]string
}

func boot(ctx context.Context) (*ownCluster, error) {
	own := &ownCluster{}
	if err := typeMake(ctx, "cluster-down"); err != nil {
		return nil, err
	}
	own.before = look()
	if err := typeMake(ctx, "cluster-up", "cluster-load"); err != nil {
		return own, err
	}
	dir := filepath.Join(Repository(), ".cache", "cluster", ClusterName)
	own.Kubeconfig = filepath.Join(dir, "kubeconfig")
	var err error
	own.namespaces, err = namespaces(filepath.Join(dir, "process.json"))
	return own, err
}

// ReplaceCluster deletes the cluster that the tests have booted, and boots another one. Meanwhile, no other test may
// use the cluster.
func ReplaceCluster(t *testing.T) {
	t.Helper()
	if Suite.Own == nil {
		t.Fatal("the cluster of KUBECONFIG is somebody else's, and is not destroyed: run this without")
	}
	if err := Suite.Own.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, ns := range Suite.Own.namespaces { // This check runs before new namespaces can get the same inode numbers.
		if err := deserted(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	another, err := boot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	Suite.Own.namespaces = another.namespaces
	if err := connect(); err != nil {
		t.Fatal(err)
	}
}

// down deletes the cluster. It ignores the cancellation of ctx, because the cluster must also be deleted after an
// interrupt.
func (o *ownCluster) down(ctx context.Context) error {
	return typeMake(context.WithoutCancel(ctx), "cluster-down")
}

// windUp is the time for the kernel to release resources after the cluster has exited. A resource that still exists
// after this time is leaked.
const windUp = 2 * time.Minute

// end deletes the cluster. After a successful run, it checks that nothing is left on the machine. There must be no
// processes in the cluster's namespaces, and no new mounts, network links, cgroups or loop devices.
func (o *ownCluster) end(ctx context.Context, good bool) error {
	if err := o.down(ctx); err != nil || !good {
		return err
	}
	var errs []error
	for _, ns := range o.namespaces {
		errs = append(errs, deserted(ctx, ns))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), windUp)
	defer cancel()
	return errors.Join(append(errs, Poll(ctx, func() error {
		if diff := cmp.Diff(o.before, look()); diff != "" {
			return fmt.Errorf("the machine is not as before the cluster (-before, +after):\n%s", diff)
		}
		return nil
	}))...)
}

// namespaces returns the Linux namespaces (pid, net and mnt) of the cluster's first process.
func namespaces(processFile string) ([]string, error) {
	b, err := os.ReadFile(processFile)
	if err != nil {
		return nil, err
	}
	var p struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	var found []string
	for _, kind := range []string{"pid", "net", "mnt"} {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.PID, kind))
		if err != nil {
			return nil, err
		}
		mine, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return nil, err
		}
		if ns == mine {
			return nil, fmt.Errorf("the cluster shares the machine's %s namespace", kind)
		}
		found = append(found, ns)
	}
	return found, nil
}

// deserted waits until no process is left in a Linux namespace. A killed process still exists until the machine's init
// process has reaped it.
func deserted(ctx context.Context, ns string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), windUp)
	defer cancel()
	return Poll(ctx, func() error {
		if subject := processesIn(ns); len(subject) > 0 {
			return fmt.Errorf("processes %v are left in the cluster's namespace %s", subject, ns)
		}
		return nil
	})
}

func processesIn(ns string) []string {
	kind, _, _ := strings.Cut(ns, ":")
	links, _ := filepath.Glob("/proc/[0-9]*/ns/" + kind) // The pattern is well-formed.
	var subject []string
	for _, l := range links {
		if got, err := os.Readlink(l); err == nil && got == ns {
			subject = append(subject, strings.Split(l, "/")[2])
		}
	}
	return subject
}

// SignalComponent sends a signal to a program of the cluster, such as kube-controller-manager.
func SignalComponent(t *testing.T, name string, signal syscall.Signal) {
	t.Helper()
	if Suite.Own == nil {
		t.Fatal("the cluster of KUBECONFIG is somebody else's, and its programs are left alone: run this without")
	}
	for _, pid := range processesIn(Suite.Own.namespaces[0]) {
		words, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err != nil || !strings.Contains(string(words), "\x00"+name+"\x00") {
			continue
		}
		n, err := strconv.Atoi(pid)
		if err == nil {
			err = syscall.Kill(n, signal)
		}
		if err != nil {
			t.Fatalf("%s of %s: %v", signal, name, err)
		}
		return
	}
	t.Fatalf("the cluster has no %s", name)
}

// look describes the resources of the machine that a cluster could leak, such as mounts and network links. It lists
// only those mounts, cgroups and loop devices that contain the cluster's name, because other programs may create some
// concurrently.
func look() map[string]string {
	cgroups, _ := filepath.Glob("/sys/fs/cgroup/*/test-cluster-" + ClusterName + "-*") // The pattern is well-formed.
	v2, _ := filepath.Glob("/sys/fs/cgroup/test-cluster-" + ClusterName + "-*")
	return map[string]string{
		"mounts":       lines("/proc/self/mountinfo", ClusterName),
		"links":        said("ip", "-brief", "link"),
		"netns":        said("ip", "netns", "list"),
		"loop devices": filter(said("losetup", "--all"), filepath.Join("cluster", ClusterName)),
		"cgroups":      strings.Join(append(cgroups, v2...), "\n"),
	}
}

func said(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput() //nolint:noctx // It takes only milliseconds.
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func lines(file, pattern string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return filter(string(b), filepath.Join("cluster", pattern))
}

func filter(s, pattern string) string {
	var keep strings.Builder
	for line := range strings.Lines(s) {
		if strings.Contains(line, pattern) {
			keep.WriteString(line)
		}
	}
	return keep.String()
}
