package volumes

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// A filesystem is a kind of file system for volumes.
type filesystem struct {
	// name is the kernel's name of the file system. It is also the suffix of an image file.
	name string
	// format returns the command that creates the file system in an image file. size is the size of the file in bytes.
	format func(image string, size int64) []string
	// grow returns the command that enlarges a mounted file system to the size of its device.
	grow func(device, target string) []string
}

// Names of file systems. A plain volume is a directory.
const (
	ext4  = "ext4"
	xfs   = "xfs"
	plain = "plain"
)

// xfsSupported is the size below which mkfs.xfs requires the flag --unsupported.
const xfsSupported = 300 * mebibyte

// filesystems lists the file systems in order of preference. Cloud CSI drivers use ext4 by default, but growing a
// mounted ext4 requires CAP_SYS_RESOURCE. For XFS, CAP_SYS_ADMIN is sufficient. The mkfs options are those of
// k8s.io/mount-utils.
var filesystems = []filesystem{
	{
		name:   ext4,
		format: func(image string, _ int64) []string { return []string{"mkfs.ext4", "-q", "-F", "-m0", image} },
		grow:   func(device, _ string) []string { return []string{"resize2fs", device} },
	},
	{
		name:   xfs,
		format: formatXFS,
		grow:   func(_, target string) []string { return []string{"xfs_growfs", "-d", target} },
	},
}

func formatXFS(image string, size int64) []string {
	if size < xfsSupported {
		return []string{"mkfs.xfs", "-q", "-f", "--unsupported", image}
	}
	return []string{"mkfs.xfs", "-q", "-f", image}
}

func named(name string) (filesystem, bool) {
	for _, fs := range filesystems {
		if fs.name == name {
			return fs, true
		}
	}
	return filesystem{}, false
}

func command(ctx context.Context, args []string) error {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}
