package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// ownCommand implements `controller own`, which sets the owner of the files on a hostPath volume.
type ownCommand struct {
	Volume string `help:"Directory where the data volume is mounted." required:"" type:"path"`
}

// Run makes the server's user the owner of all files on the volume, and denies access to other users. The volume is a
// directory of the node, on which other programs run. Its contents are untrusted, because the image that writes them
// is chosen by a tenant. Run therefore does not follow symbolic links. It can be repeated after an interruption.
func (c *ownCommand) Run() error { return ownDir(c.Volume, int(agent.ServerUID)) }

func ownDir(path string, id int) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	if err := closeToOthers(root); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == id && int(stat.Gid) == id {
			return nil
		}
		if err := root.Lchown(name, id, id); err != nil {
			return fmt.Errorf("cannot change the owner of %q to the server's user: %w", name, err)
		}
		return nil
	})
}

// closeToOthers allows only the owner to access the root of the volume. It is called before the owner of the files
// changes.
func closeToOthers(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written through it.
	return dir.Chmod(0o700)
}
