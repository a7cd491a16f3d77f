package volumes

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// A filesystem is what volumes are formatted with.
type filesystem struct {
	// name for the kernel, also the ending of an image's name.
	name string
	// format a file of that many bytes.
	format func(image string, size int64) []string
	// grow to the end of the device, while mounted.
	grow func(device, target string) []string
}

// The names of file systems. A plain one is a folder.
const (
	ext4  = "ext4"
	xfs   = "xfs"
	plain = "plain"
)

// xfsSupported is the size below which mkfs.xfs wants to be told that one knows what one is doing.
const xfsSupported = 300 * mebibyte

// filesystems are in the order of preference. Clouds' drivers use ext4 unless told otherwise, but the kernel lets only
// those with CAP_SYS_RESOURCE grow it while it is mounted; for XFS, CAP_SYS_ADMIN is enough. The options of mkfs are
// those of k8s.io/mount-utils.
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
