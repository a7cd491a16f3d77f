package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	serverversion "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// installCommand implements `controller install`, which copies this program to a volume, for containers of other
// images.
type installCommand struct {
	To string `help:"File to create, such as /tools/controller. An existing file is replaced atomically." required:"" type:"path"`
}

// self is the path of this program, even after its file was replaced.
const self = "/proc/self/exe"

// Run copies this program to the file.
func (c *installCommand) Run() error {
	in, err := os.Open(self)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // Nothing was written.
	return replaceFile(c.To, 0o755, in)
}

// versionCommand implements `controller version-of-server`. It runs in a server's image.
type versionCommand struct {
	To string `help:"File to create, such as /tools/version.json." required:"" type:"path"`
}

// Run determines the version of the image's server and writes it to the file.
func (c *versionCommand) Run(ctx context.Context) error {
	server, err := serverversion.Ask(ctx)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(server)
	if err != nil {
		return err
	}
	return replaceFile(c.To, 0o644, bytes.NewReader(append(raw, '\n')))
}

// replaceFile atomically writes a file. It overwrites an existing file.
func replaceFile(path string, mode os.FileMode, content io.Reader) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // A remaining temporary file does no harm.
		}
	}()
	_, err = io.Copy(f, content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
