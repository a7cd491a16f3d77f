package volumes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A mount is a mount point of this process, which is a line of proc_pid_mountinfo(5).
type mount struct {
	device string // For example "7:3".
	root   string // The mounted part of the file system.
	target string
	source string
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func parseMounts(mountinfo string) []mount {
	var ms []mount
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 2 {
			continue
		}
		ms = append(ms, mount{device: f[2], root: unescape.Replace(f[3]), target: unescape.Replace(f[4]),
			source: unescape.Replace(g[1])})
	}
	return ms
}

func readMounts() ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot list mounts: %w", err)
	}
	return parseMounts(string(b)), nil
}

// at returns the topmost mount at the path target.
func at(ms []mount, target string) (mount, bool) {
	for _, m := range slices.Backward(ms) {
		if m.target == target {
			return m, true
		}
	}
	return mount{}, false
}

// below returns the mount points in a directory in the order in which they must be unmounted, the last one first.
func below(ms []mount, dir string) []string {
	var targets []string
	for _, m := range slices.Backward(ms) {
		if filepath.Dir(m.target) == dir {
			targets = append(targets, m.target)
		}
	}
	return targets
}

// others returns the mount points of a volume other than own, including mounts of directories in the volume. The
// kubelet creates them for pods.
func others(ms []mount, own mount) []string {
	var targets []string
	for _, m := range ms {
		if m.device == own.device && m.target != own.target && inside(m.root, own.root) {
			targets = append(targets, m.target)
		}
	}
	return targets
}

func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func unmount(target string) error {
	if err := unix.Unmount(target, 0); err != nil {
		return fmt.Errorf("cannot unmount %s: %w", target, err)
	}
	return nil
}
