package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/volumes"
)

// Directories that the programs of a node write to. Each node has its own directories. varLib also contains its
// hostPath volumes.
const (
	varLib     = "/var/lib"
	varLog     = "/var/log"
	containerd = "/run/containerd/containerd.sock"
)

// The maximum number of restarts of a node's program during the boot, and the timeout. A program may fail several
// times, because the API server is busy.
const (
	nodeRetries = 5
	startTime   = time.Minute
)

// provisioner is the name of the volume provisioner of the cluster, as in its StorageClasses.
const provisioner = "local.cluster.test"

// A node is the process of one node of the cluster, which runs the kubelet and the other programs of the node.
type node struct {
	Config

	sup *supervisor
	dir string
}

// Node runs a node until it is killed. The parent process closes standard input when it has created the node's
// network interface, and Node waits for that.
func Node(c Config) error {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	n := &node{Config: c, sup: newSupervisor(clusterDir, nodeRetries), dir: filepath.Join(clusterDir, NodeName(c.Node))}
	ctx := context.Background()
	if err := n.network(ctx); err != nil {
		return err
	}
	if err := n.mounts(); err != nil {
		return err
	}
	if err := n.cgroups(); err != nil {
		return err
	}
	if err := n.configure(); err != nil {
		return err
	}
	if err := n.start(ctx); err != nil {
		return err
	}
	go func() {
		if err := n.serveVolumes(ctx); err != nil {
			n.sup.fail(err)
		}
	}()
	return <-n.sup.failed
}

func (n *node) name() string { return NodeName(n.Node) }

func (n *node) network(ctx context.Context) error {
	commands := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "addr", "add", nodeIP(n.Node) + "/24", "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", controlIP},
	}
	for i := 1; i <= n.Nodes; i++ {
		if i != n.Node {
			commands = append(commands, []string{"ip", "route", "add", podSubnet(i), "via", nodeIP(i)})
		}
	}
	if err := runAll(ctx, commands); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(n.name())); err != nil {
		return fmt.Errorf("cannot name the node: %w", err)
	}
	if _, err := os.Stat("/proc/sys/net/bridge"); errors.Is(err, fs.ErrNotExist) {
		_ = exec.CommandContext(ctx, "modprobe", "br_netfilter").Run() // The next call fails if the module is missing.
	}
	return sysctls(map[string]string{
		"net/ipv4/ip_forward": "1",
		// A pod's response to another pod on the same node must pass through the NAT rules of the Service.
		"net/bridge/bridge-nf-call-iptables": "1",
	})
}

func sysctls(values map[string]string) error {
	for name, value := range values {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			return fmt.Errorf("cannot set %s: %w; is the kernel module br_netfilter loaded", name, err)
		}
	}
	return nil
}

// mounts hides the directories in which the node's programs keep their files under the node's own directories.
func (n *node) mounts() error {
	for from, target := range map[string]string{"lib": varLib, "log": varLog} {
		dir := filepath.Join(n.dir, from)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := bind(dir, target); err != nil {
			return err
		}
	}
	// Each node has its own sockets, and its own network namespaces for pods.
	for _, d := range []string{"containerd", "netns", "lock"} {
		dir := filepath.Join(runDir, d)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("run", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return fmt.Errorf("cannot mount %s: %w", dir, err)
		}
	}
	// The kubelet requires shared mounts, because pods can use mountPropagation.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("cannot share mounts with pods: %w", err)
	}
	return nil
}

// cgroups creates the parent cgroup of the pods, because the kubelet does not create it.
func (n *node) cgroups() error {
	entries, err := os.ReadDir(machine.CgroupRoot)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(machine.CgroupRoot, "cgroup.controllers")); err == nil {
		return n.cgroup2()
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(machine.CgroupRoot, e.Name(), n.Cgroup, n.name())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot make a cgroup: %w", err)
		}
		if e.Name() == "cpuset" {
			if err := inheritCpuset(filepath.Dir(dir), dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCpuset copies the parent's cpuset to a new cgroup (cgroup v1), because no process can run in a cgroup with
// an empty cpuset.
func inheritCpuset(dirs ...string) error {
	for _, dir := range dirs {
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), f))
			if errors.Is(err, os.ErrNotExist) {
				continue // This is a directory with that name in a hybrid cgroup v2.
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, f), b, 0); err != nil {
				return fmt.Errorf("cannot fill a cpuset: %w", err)
			}
		}
	}
	return nil
}

// cgroup2 enables all controllers at each level of the hierarchy, as cgroup v2 requires.
func (n *node) cgroup2() error {
	b, err := os.ReadFile(filepath.Join(machine.CgroupRoot, "cgroup.controllers"))
	if err != nil {
		return err
	}
	all := "+" + strings.Join(strings.Fields(string(b)), " +")
	dir := machine.CgroupRoot
	for _, next := range []string{n.Cgroup, n.name(), ""} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(all), 0); err != nil {
			return fmt.Errorf("cannot hand cgroup controllers down in %s: %w; in a container, move its processes out of the "+
				"root cgroup first", dir, err)
		}
		dir = filepath.Join(dir, next)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot make a cgroup: %w", err)
		}
	}
	return nil
}

// start starts the programs of a node. It starts the kubelet after containerd, because the kubelet exits if
// containerd is not running.
func (n *node) start(ctx context.Context) error {
	n.sup.run("containerd-"+n.name(), "containerd", "--config="+filepath.Join(n.dir, "containerd.toml"))
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := n.sup.until(ctx, "containerd", func(context.Context) error {
		_, err := os.Stat(containerd)
		return err
	})
	if err != nil {
		return err
	}
	n.sup.run("kubelet-"+n.name(), kubeFile, "kubelet",
		"--kubeconfig="+n.pkiFile(n.name()+".kubeconfig"), "--config="+filepath.Join(n.dir, "kubelet.yaml"),
		"--hostname-override="+n.name(), "--node-ip="+nodeIP(n.Node))
	n.sup.run("kube-proxy-"+n.name(), kubeFile, "kube-proxy",
		"--kubeconfig="+n.pkiFile("kube-proxy.kubeconfig"), "--proxy-mode=nftables",
		"--cluster-cidr="+podNet, "--hostname-override="+n.name(),
		// These flags keep kube-proxy from changing the machine's limits.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
	return nil
}

func (n *node) pkiFile(name string) string { return filepath.Join(clusterDir, "pki", name) }

// serveVolumes provisions the volumes of this node in the mount namespace of its kubelet.
func (n *node) serveVolumes(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", n.pkiFile("volumes.kubeconfig"))
	if err != nil {
		return fmt.Errorf("cannot serve volumes: %w", err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot serve volumes: %w", err)
	}
	p := &volumes.Provisioner{
		Client: c,
		Node:   n.name(),
		Dir:    filepath.Join(varLib, "volumes"),
		Images: filepath.Join(n.dir, "volumes"),
		Name:   provisioner,
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	return p.Run(ctx)
}
