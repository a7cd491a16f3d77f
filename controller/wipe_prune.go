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

// wipeCommand implements `controller wipe`, which empties a directory on a volume, such as a hostPath directory.
type wipeCommand struct {
	Volume string `help:"Directory where the volume is mounted, or the directory on it to empty." required:"" type:"path"`
	XR     string `help:"UID of the composite resource whose data is deleted. Data of another one is kept." name:"xr"`
}

// Run removes everything on the volume. It does not follow symbolic links, so that nothing outside is removed.
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

// pruneCommand implements `controller prune`, which deletes expired archives from a backup volume.
type pruneCommand struct {
	Volume string   `help:"Directory where the backup volume is mounted." required:"" type:"path"`
	Dir    []string `help:"Directory to delete: one archive with its manifest. It is no error if it does not exist." required:""`
}

// Run removes the directories of the archives.
func (c *pruneCommand) Run() error {
	root, err := os.OpenRoot(c.Volume)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing was written through it.
	for _, name := range c.Dir {
		if err := pruneDir(root, name); err != nil {
			return err
		}
	}
	return nil
}

// pruneDir removes the directory of an archive, its manifest last. After a crash, the directory is empty or still
// recognized by its manifest. It refuses a directory with files but no manifest, and names that point outside the
// volume.
func pruneDir(root *os.Root, name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsRune(name, filepath.Separator) {
		return fmt.Errorf("%q cannot be the directory of an archive", name)
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
		return fmt.Errorf("%q has no %s, so it is not the directory of an archive", name, archive.ManifestName)
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
