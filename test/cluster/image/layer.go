package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch returns the modification time of all files in an image, so that the same inputs result in the same digest.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// A blob is a layer that is stored in a file. It is not compressed, because a cluster would need more time to
// decompress the layer than to transfer it.
type blob struct {
	file string
	size int64
	hash v1.Hash
}

func (b *blob) Digest() (v1.Hash, error)             { return b.hash, nil }
func (b *blob) DiffID() (v1.Hash, error)             { return b.hash, nil }
func (b *blob) Size() (int64, error)                 { return b.size, nil }
func (b *blob) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }
func (b *blob) Compressed() (io.ReadCloser, error)   { return os.Open(b.file) }
func (b *blob) Uncompressed() (io.ReadCloser, error) { return os.Open(b.file) }

func (b *blob) moveTo(file string) error {
	if b.file == file {
		return nil
	}
	if err := os.Rename(b.file, file); err != nil {
		return err
	}
	b.file = file
	return nil
}

// A Layer writes the files of an image layer to a tar file. After an error, its methods do nothing, and Close returns
// the error. If several entries have the same name, the first one is used. Special files must therefore be added before
// a file tree that also contains them.
type Layer struct {
	file  *os.File
	sum   hash.Hash
	tar   *tar.Writer
	links map[uint64]string
	seen  map[string]bool
	err   error
}

// NewLayer returns a Layer that is written to a file in the given directory.
func NewLayer(dir string) *Layer {
	f, err := os.CreateTemp(dir, "layer-*")
	w := &Layer{file: f, sum: sha256.New(), links: map[uint64]string{}, seen: map[string]bool{}, err: err}
	w.tar = tar.NewWriter(io.MultiWriter(f, w.sum))
	return w
}

// Dir adds a directory to the layer. owner is used as both the user ID and the group ID.
func (w *Layer) Dir(name string, mode int64, owner int) {
	w.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner, Gid: owner}, nil)
}

// Text adds a file with the given content to the layer. All users can read it.
func (w *Layer) Text(name, content string) {
	w.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))},
		bytes.NewBufferString(content))
}

// Program adds a binary to the layer, which all users can execute. from is its path on this machine.
func (w *Layer) Program(name, from string) {
	w.copy(name, from, 0o755)
}

// Close finishes the tar file and returns the layer.
func (w *Layer) Close() (v1.Layer, error) {
	if w.file == nil {
		return nil, w.err
	}
	if w.err == nil {
		w.err = w.tar.Close()
	}
	info, err := w.file.Stat()
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	if w.err != nil {
		err = w.err
	}
	if err != nil {
		return nil, fmt.Errorf("cannot pack the layer: %w", err)
	}
	return &blob{file: w.file.Name(), size: info.Size(),
		hash: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(w.sum.Sum(nil))}}, nil
}

func (w *Layer) header(h *tar.Header, content io.Reader) {
	name := strings.TrimSuffix(h.Name, "/")
	if w.err != nil || w.seen[name] {
		return
	}
	w.seen[name] = true
	h.ModTime, h.Format = epoch(), tar.FormatPAX
	if w.err = w.tar.WriteHeader(h); w.err == nil && h.Size > 0 {
		_, w.err = io.Copy(w.tar, content)
	}
}

func (w *Layer) link(name, target string) {
	w.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (w *Layer) copy(name, from string, mode int64) {
	if w.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		w.err = err
		return
	}
	defer f.Close() //nolint:errcheck // It was only read.
	info, err := f.Stat()
	if err != nil {
		w.err = err
		return
	}
	w.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}, f)
}

// tree adds a file tree to the layer under a different name ("" for the root), without the files for which skip returns
// true.
func (w *Layer) tree(from, target string, skip func(rel string) bool) {
	if w.err != nil {
		return
	}
	w.err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if rel != "." && skip(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		w.entry(path, filepath.Join(target, rel), d)
		return w.err
	})
}

func (w *Layer) entry(path, name string, d fs.DirEntry) {
	info, err := d.Info()
	if err != nil {
		w.err = err
		return
	}
	if name == "." || info.Mode()&(fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
		return
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, w.err = os.Readlink(path); w.err != nil {
			return
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		w.err = err
		return
	}
	// All files belong to root, because the accounts of this machine do not exist in the image. A directory with another
	// owner must be added with Dir.
	*h = tar.Header{Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Mode: h.Mode, Size: h.Size}
	if d.IsDir() {
		h.Name += "/"
	}
	w.regular(path, h, info)
}

// regular adds the content of a regular file to the layer only once. Its other names become hard links.
func (w *Layer) regular(path string, h *tar.Header, info fs.FileInfo) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if h.Typeflag != tar.TypeReg || !ok || st.Nlink < 2 {
		w.content(path, h)
		return
	}
	if first, ok := w.links[st.Ino]; ok {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		w.header(h, nil)
		return
	}
	w.links[st.Ino] = h.Name
	w.content(path, h)
}

func (w *Layer) content(path string, h *tar.Header) {
	if h.Typeflag != tar.TypeReg {
		w.header(h, nil)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		w.err = err
		return
	}
	defer f.Close() //nolint:errcheck // It was only read.
	w.header(h, f)
}

// NewImage returns an image with one layer and a configuration.
func NewImage(arch string, c v1.Config, l v1.Layer) (v1.Image, error) {
	img, err := mutate.ConfigFile(
		mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		&v1.ConfigFile{OS: "linux", Architecture: arch, Created: v1.Time{Time: epoch()}, Config: c,
			RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{Layer: l,
		History: v1.History{CreatedBy: "test/cluster/image", Created: v1.Time{Time: epoch()}}})
}

// parents adds the parent directories of a file to the layer, unless they are in made, and adds them to made.
func (w *Layer) parents(file string, made map[string]bool) {
	dir := filepath.Dir(file)
	if dir == "." || made[dir] {
		return
	}
	w.parents(dir, made)
	w.Dir(dir, 0o755, 0)
	made[dir] = true
}

func tarFile(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}
}
