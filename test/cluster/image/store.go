package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations of an image in the layout's index.
const (
	refName   = "org.opencontainers.image.ref.name"
	inputsKey = "test.cluster.inputs"
)

const lockEvery = 300 * time.Millisecond

// A store writes an OCI layout atomically: each file is renamed when it is complete, and the index is written last.
// The library does not write manifests and the index in this way.
type store struct {
	dir  string
	lock *os.File
	sayf func(format string, a ...any)
}

// openStore waits until no other process uses the layout, and then removes blobs that do not belong to an image.
func openStore(ctx context.Context, dir string, sayf func(string, ...any)) (*store, error) {
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o750); err != nil {
		return nil, err
	}
	l, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, lock: l, sayf: sayf}
	if err := s.begin(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *store) begin(ctx context.Context) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	if err := s.write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	// If the index cannot be read, the layout is treated as empty.
	if _, _, err := s.index(); err != nil {
		if err := s.writeIndex(nil); err != nil {
			return err
		}
	}
	return s.collect()
}

// wait acquires the lock of the OCI layout. If the process exits, the kernel releases the lock.
func (s *store) wait(ctx context.Context) error {
	for announced := false; ; announced = true {
		err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if !announced {
			s.sayf("waiting for another run that makes images")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockEvery):
		}
	}
}

func (s *store) close() { _ = s.lock.Close() } // Nothing was written to it.

func (s *store) index() (v1.ImageIndex, []v1.Descriptor, error) {
	i, err := layout.ImageIndexFromPath(s.dir)
	if err != nil {
		return nil, nil, err
	}
	m, err := i.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	return i, m.Manifests, nil
}

// find returns the descriptor of the image with the given name in the OCI layout.
func (s *store) find(name string) (in v1.ImageIndex, d v1.Descriptor, err error) {
	in, all, err := s.index()
	if err != nil {
		return nil, d, err
	}
	index := slices.IndexFunc(all, func(d v1.Descriptor) bool { return d.Annotations[refName] == name })
	if index < 0 {
		return nil, d, fmt.Errorf("cannot find %s among the images", name)
	}
	return in, all[index], nil
}

// has reports whether there is a complete image for each name, and all of them were built from the inputs with the
// given key.
func (s *store) has(names []string, key string) bool {
	i, all, err := s.index()
	if err != nil {
		return false
	}
	for _, n := range names {
		index := slices.IndexFunc(all, func(d v1.Descriptor) bool {
			return d.Annotations[refName] == n && d.Annotations[inputsKey] == key
		})
		if index < 0 || s.visit(i, all[index], s.present) != nil {
			return false
		}
	}
	return true
}

// present returns an error if the file of a blob is missing or incomplete in the OCI layout.
func (s *store) present(d v1.Descriptor) error {
	info, err := os.Stat(s.blob(d.Digest))
	if err == nil && info.Size() != d.Size {
		return fmt.Errorf("the blob %s has not its size", d.Digest)
	}
	return err
}

// visit calls see for a descriptor and for every blob that it refers to, such as the layers of an image.
func (s *store) visit(in v1.ImageIndex, d v1.Descriptor, see func(v1.Descriptor) error) error {
	if err := see(d); err != nil {
		return err
	}
	if d.MediaType.IsIndex() {
		return s.visitIndex(in, d, see)
	}
	if !d.MediaType.IsImage() {
		return nil
	}
	img, err := in.Image(d.Digest)
	if err != nil {
		return err
	}
	m, err := img.Manifest()
	if err != nil {
		return err
	}
	for _, child := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if err := see(child); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) visitIndex(in v1.ImageIndex, d v1.Descriptor, see func(v1.Descriptor) error) error {
	i, err := in.ImageIndex(d.Digest)
	if err != nil {
		return err
	}
	m, err := i.IndexManifest()
	if err != nil {
		return err
	}
	for _, child := range m.Manifests {
		if err := s.visit(i, child, see); err != nil {
			return err
		}
	}
	return nil
}

// put stores an image or an index in the OCI layout under all its names. An existing image with the same name is
// replaced.
func (s *store) put(names []string, key string, made mutate.Appendable) error {
	if err := s.writeAll(made); err != nil {
		return fmt.Errorf("cannot write the image: %w", err)
	}
	desc, err := partial.Descriptor(made)
	if err != nil {
		return err
	}
	_, all, err := s.index()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(d v1.Descriptor) bool { return slices.Contains(names, d.Annotations[refName]) })
	for _, n := range names {
		d := *desc
		d.Annotations = map[string]string{refName: n, inputsKey: key}
		all = append(all, d)
	}
	if err := s.writeIndex(all); err != nil {
		return err
	}
	return s.collect()
}

func (s *store) writeIndex(all []v1.Descriptor) error {
	b, err := json.MarshalIndent(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: slices.Concat([]v1.Descriptor{}, all)}, "", "  ")
	if err != nil {
		return err
	}
	return s.write("index.json", b)
}

// collect removes blobs that do not belong to an image, including the blobs of a run that was killed.
func (s *store) collect() error {
	i, all, err := s.index()
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, d := range all {
		// Ignore the error for an incomplete image. Its blobs are then removed, and the image is built again.
		_ = s.visit(i, d, func(d v1.Descriptor) error { needed[d.Digest.Hex] = true; return nil })
	}
	blobs := filepath.Join(s.dir, "blobs", "sha256")
	files, err := os.ReadDir(blobs)
	if err != nil {
		return err
	}
	for _, f := range files {
		if needed[f.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(blobs, f.Name())); err != nil {
			return err
		}
	}
	return nil
}
