// Package machine looks at the machine that a cluster is to run on: what it lacks, and what cannot be mended.
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

// Least free space in bytes. A cold build of Kubernetes needs most of the disk: compilers' caches, and the images.
const (
	minDisk   = 8 << 30
	minMemory = 4 << 30
)

// sparedPart of a file system stays free when the agent copies data to it, as in package archive.
const sparedPart = 10

// CgroupRoot is where the kernel's control groups are mounted.
const CgroupRoot = "/sys/fs/cgroup"

// NotRoot is the problem that nothing can be said before.
const NotRoot = "this is not root; namespaces, mounts and the Debian packages need it: run it with sudo"

// Facts are what was found out about a machine.
type Facts struct {
	UID          int
	Capabilities uint64 // As CapEff of proc_pid_status(5).
	DiskPath     string
	Disk         uint64 // Bytes free for us.
	DiskTotal    uint64 // Bytes that are used or free for us.
	Memory       uint64 // Bytes available.
	Overlay      bool   // The kernel knows overlayfs.
	Controllers  []string
	Ports        []int // Of those wanted, the ones in use.
}

// capabilities that the cluster cannot do without, by their numbers in linux/capability.h.
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

// wanted cgroup controllers, as both versions name them.
var wanted = []string{"cpu", "cpuset", "memory", "pids"}

// Problems are what must be mended by a person before anything is started, in words that say how.
func (f Facts) Problems() []string {
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
	if f.Disk < minDisk {
		p = append(p, fmt.Sprintf("only %s are free below %s, and %s are needed", gib(f.Disk), f.DiskPath, gib(minDisk)))
	}
	if spare := f.DiskTotal / sparedPart; f.Disk >= minDisk && f.Disk < spare+minDisk {
		p = append(p, fmt.Sprintf("only %s are free below %s; a tenth of the disk, %s, has to stay free beside the %s that are "+
			"needed: tests of backups refuse to fill it", gib(f.Disk), f.DiskPath, gib(spare), gib(minDisk)))
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

// Look finds the facts out. Dir is where the cluster's files will be, ports those that it will listen on.
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
	f.Memory <<= 10 // It says kB and means KiB.
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

// controllers of cgroup v2 are words of a file; those of v1 are folders, which a link may give a second name.
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
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // It is closed at once.
	if err != nil {
		return true
	}
	_ = l.Close() // Nobody connected.
	return false
}

// A program and the Debian package that it is in. CNI plugins are no commands.
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

// MissingPackages are the Debian packages that must still be installed.
func MissingPackages() []string {
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p.file); err != nil {
			missing = append(missing, p.pkg)
		}
	}
	return missing
}
