package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// ownCommand implements `controller own`.
type ownCommand struct {
	Volume string `help:"Directory where the data volume is mounted." required:"" type:"path"`
}

// Run changes the owner of everything on the volume to the server's user, and denies access to others. The directory
// belongs to the node, where other programs run, and an image that a tenant chose writes its contents. Symbolic links
// are not followed. An interrupted run is repeated.
func (c *ownCommand) Run() error { return ownFolder(c.Volume, int(agent.ServerUID)) }

func ownFolder(path string, id int) error {
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

// closeToOthers is called first, so that other users cannot read the files.
func closeToOthers(root *os.Root) error {
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // Nothing was written through it.
	return folder.Chmod(0o700)
}
