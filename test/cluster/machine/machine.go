// Package machine checks the machine on which a cluster will run. It finds missing packages, and problems that only a
// user can fix.
package machine

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// minMemory is the minimum of available memory in bytes.
const minMemory = 4 << 30

// sparedPart determines how much of a file system must stay free for a cluster: a tenth. The product's backups refuse to
// use this space (sparedPart in controller/internal/archive), so the tests need it in addition.
const sparedPart = 10

// A Task is something that a machine is checked for.
type Task struct {
	Action string // What cannot be done if there is a problem, for messages.
	disk   uint64 // Bytes that it may write.
	spare  bool   // A tenth of the disk must stay free.
}

// The tasks. The first build of Kubernetes needs most of the disk space of a cluster, for the compiler's cache and the
// images. The largest other image is a server's.
var (
	Cluster = Task{Action: "boot a cluster", disk: 8 << 30, spare: true}
	Images  = Task{Action: "build images", disk: 2 << 30}
)

// CgroupRoot is the mount point of the cgroups.
const CgroupRoot = "/sys/fs/cgroup"

// NotRoot is the problem that is reported instead of all others if the user is not root.
const NotRoot = "this is not root; namespaces, mounts and the Debian packages need it: run it with sudo"

// Facts are the properties of a machine that determine whether it can do a Task.
type Facts struct {
	UID          int
	Capabilities uint64 // The value of CapEff in proc_pid_status(5).
	DiskPath     string
	Disk         uint64 // Available bytes.
	DiskTotal    uint64 // Bytes that are used or available.
	Memory       uint64 // Available bytes.
	Overlay      bool   // The kernel supports overlayfs.
	Controllers  []string
	Ports        []int // The wanted ports that are already in use.
}

// capabilities lists the required Linux capabilities. bit is the number of a capability in linux/capability.h.
var capabilities = []struct {
	bit    uint
	name   string
	reason string
}{
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "namespaces and mounts"},
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "the cluster's network"},
	{unix.CAP_MKNOD, "CAP_MKNOD", "devices of containers"},
	{unix.CAP_SYS_CHROOT, "CAP_SYS_CHROOT", "containers"},
	{unix.CAP_CHOWN, "CAP_CHOWN", "files of images"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", "files of images"},
	{unix.CAP_SETUID, "CAP_SETUID", "containers that do not run as root"},
	{unix.CAP_SETGID, "CAP_SETGID", "containers that do not run as root"},
}

// wanted lists the required cgroup controllers, which have the same names in both cgroup versions.
var wanted = []string{"cpu", "cpuset", "memory", "pids"}

// Problems returns the problems that prevent the task on this machine, and that a user must fix. Each message says how to
// fix it.
func (f Facts) Problems(task Task) []string {
	if f.UID != 0 {
		return []string{NotRoot}
	}
	var p []string
	for _, c := range capabilities {
		if f.Capabilities&(1<<c.bit) == 0 {
			p = append(p, fmt.Sprintf("the capability %s is missing, needed for %s; in a container, run it privileged", c.name,
				c.reason))
		}
	}
	spare := f.DiskTotal / sparedPart
	switch {
	case f.Disk < task.disk:
		p = append(p, fmt.Sprintf("only %s are free below %s, and %s are needed", gib(f.Disk), f.DiskPath, gib(task.disk)))
	case task.spare && f.Disk < spare+task.disk:
		p = append(p, fmt.Sprintf("only %s are free below %s; a tenth of the disk, %s, has to stay free beside the %s that are "+
			"needed: tests of backups refuse to fill it", gib(f.Disk), f.DiskPath, gib(spare), gib(task.disk)))
	}
	if f.Memory < minMemory {
		p = append(p, fmt.Sprintf("only %s of memory are available, and %s are needed", gib(f.Memory), gib(minMemory)))
	}
	if !f.Overlay {
		p = append(p, "the kernel does not know overlayfs: modprobe overlay")
	}
	for _, c := range wanted {
		if !slices.Contains(f.Controllers, c) {
			p = append(p, fmt.Sprintf("the cgroup controller %s is missing below %s: mount cgroup v2 there, or v1 with one "+
				"folder a controller", c, CgroupRoot))
		}
	}
	for _, port := range f.Ports {
		p = append(p, fmt.Sprintf("port %d on 127.0.0.1 is in use: end what listens there, or choose others with --port",
			port))
	}
	return p
}

func gib(b uint64) string { return fmt.Sprintf("%.1f GiB", float64(b)/(1<<30)) }

// Look inspects this machine. dir is the directory for the cluster's files, and ports are the ports on which the
// cluster will listen.
func Look(dir string, ports ...int) (Facts, error) {
	f := Facts{UID: os.Geteuid(), DiskPath: dir}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return f, fmt.Errorf("cannot tell how full the disk is: %w", err)
	}
	f.Disk = fs.Bavail * uint64(fs.Bsize)
	f.DiskTotal = (fs.Blocks - fs.Bfree + fs.Bavail) * uint64(fs.Bsize)
	var err error
	if f.Memory, err = procValue("/proc/meminfo", "MemAvailable:", 10); err != nil {
		return f, err
	}
	f.Memory <<= 10 // The unit is labeled kB, but is KiB.
	if f.Capabilities, err = procValue("/proc/self/status", "CapEff:", 16); err != nil {
		return f, err
	}
	b, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return f, fmt.Errorf("cannot tell which file systems there are: %w", err)
	}
	f.Overlay = slices.Contains(strings.Fields(string(b)), "overlay")
	f.Controllers = controllers(CgroupRoot)
	for _, p := range ports {
		if inUse(p) {
			f.Ports = append(f.Ports, p)
		}
	}
	return f, nil
}

func procValue(file, key string, base int) (uint64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("cannot look at this machine: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key {
			return strconv.ParseUint(f[1], base, 64)
		}
	}
	return 0, fmt.Errorf("cannot look at this machine: %s does not say %s", file, key)
}

// controllers returns the available cgroup controllers. cgroup v2 lists them in a file. cgroup v1 has a directory or
// a link for each of them.
func controllers(root string) []string {
	if b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
		return strings.Fields(string(b))
	}
	var found []string
	for _, c := range wanted {
		if _, err := os.Stat(filepath.Join(root, c, "cgroup.procs")); err == nil {
			found = append(found, c)
		}
	}
	return found
}

func inUse(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // It is closed immediately.
	if err != nil {
		return true
	}
	_ = l.Close() // Nothing has connected.
	return false
}

// A program is a required program and the Debian package that contains it. CNI plugins are not in PATH.
type program struct{ file, pkg string }

var programs = []program{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"ip", "iproute2"},
	{"nft", "nftables"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"ethtool", "ethtool"},
	{"mkfs.ext4", "e2fsprogs"},
	{"losetup", "mount"},
	{"mkfs.xfs", "xfsprogs"},
	{"mmdebstrap", "mmdebstrap"},
	{"buildah", "buildah"},
	{"zstd", "zstd"},
}

// MissingPackages returns the Debian packages that are not installed.
func MissingPackages() []string {
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p.file); err != nil {
			missing = append(missing, p.pkg)
		}
	}
	return missing
}
