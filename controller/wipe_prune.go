package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// wipeCommand is `controller wipe`.
type wipeCommand struct {
	Volume string `help:"Where the volume is mounted, or the folder of it that is to be emptied." required:"" type:"path"`
	XR     string `help:"UID of the XR whose data is to go: what says that it is another one's stays." name:"xr"`
}

// Run removes all that lies on the volume. Nothing outside can be reached: what
// a symbolic link points to stays.
func (c *wipeCommand) Run() error {
	root, err := os.OpenRoot(c.Volume)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	if err := datavolume.CheckOwner(root, types.UID(c.XR)); err != nil {
		return err
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := root.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// pruneCommand is `controller prune`.
type pruneCommand struct {
	Volume string   `help:"Where the backup volume is mounted." required:"" type:"path"`
	Folder []string `help:"Folder to remove: one archive with its manifest. One that is gone is no error." required:""`
}

// Run removes the folders.
func (c *pruneCommand) Run() error {
	root, err := os.OpenRoot(c.Volume)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	for _, name := range c.Folder {
		if err := pruneFolder(root, name); err != nil {
			return err
		}
	}
	return nil
}

// pruneFolder removes a folder, its manifest last: what a crash leaves is still
// known as an archive's, or empty. A folder that has files and no manifest is
// refused, as are names that lead to another place.
func pruneFolder(root *os.Root, name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsRune(name, filepath.Separator) {
		return fmt.Errorf("%q cannot be the folder of an archive", name)
	}
	entries, err := fs.ReadDir(root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	isManifest := func(e fs.DirEntry) bool { return e.Name() == archive.ManifestName }
	if len(entries) > 0 && !slices.ContainsFunc(entries, isManifest) {
		return fmt.Errorf("%q has no %s: it is not the folder of an archive", name, archive.ManifestName)
	}
	for _, e := range entries {
		if isManifest(e) {
			continue
		}
		if err := root.RemoveAll(filepath.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return root.RemoveAll(name)
}
