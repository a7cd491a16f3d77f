package datavolume

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// Dump returns the path of a dump file, which is next to the data that is created from it.
func (h Half) Dump(object string) string { return filepath.Join(h.Dir(), path.Base(object)) }

// A Half is the directory in which the containers of an import create the data. It becomes the data directory only
// when it is complete.
type Half struct {
	// Volume is the mount path of the data volume. Directory is the name of the data directory in its root.
	Volume, Directory string
	// XR is the UID of the composite resource that will own the data.
	XR types.UID
	// Name is the name of the import. If the volume already contains data with this name, the import is complete.
	Name string
}

// importedData is the data directory in the directory of an import. ImportedHalf is its path on the volume.
const (
	importedData = "data"
	ImportedHalf = agent.ImportDir + "/" + importedData
)

// ImportPrefix is the prefix of Marker.Archive for imported data. It distinguishes an import from a restored archive.
const ImportPrefix = "import/"

// Dir returns the path of the import's directory.
func (h Half) Dir() string { return filepath.Join(h.Volume, agent.ImportDir) }

// A Making is a Half that this process keeps locked until Close.
type Making struct {
	Half

	volume *Volume
}

// Begin removes all files of an earlier run and locks the Half. It is for the first container of an import. It returns
// nil if an earlier run has already completed the import.
func (h Half) Begin(ctx context.Context) (*Making, error) {
	return h.open(ctx, func(v *Volume) error {
		if err := errors.Join(v.checkUnused(ImportedHalf), v.ClearHalves()); err != nil {
			return fmt.Errorf("cannot remove the files of an earlier run: %w", err)
		}
		return v.Mkdir(agent.ImportDir, 0o755)
	})
}

// GoOn locks a Half for a container that creates the data from files of an earlier container, such as a dump. It
// removes incomplete data, and keeps these files. It returns nil if the import is already complete.
func (h Half) GoOn(ctx context.Context) (*Making, error) {
	return h.open(ctx, func(v *Volume) error {
		if err := v.checkUnused(ImportedHalf); err != nil {
			return err
		}
		return v.RemoveAll(ImportedHalf)
	})
}

// Continue locks a Half for a container that changes data which an earlier container has written. It keeps that data.
// It returns nil if the import is already complete.
func (h Half) Continue(ctx context.Context) (*Making, error) {
	return h.open(ctx, func(v *Volume) error { return v.checkUnused(ImportedHalf) })
}

// OpenVolume returns the locked volume. Close closes it.
func (m *Making) OpenVolume() *Volume { return m.volume }

// Complete marks the data as complete. It must be called after the server of the import has exited. The next container
// accepts only data with this mark.
func (m *Making) Complete() error {
	root, err := m.volume.OpenRoot(agent.ImportDir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // The file is already synced.
	return writeFile(root, CompleteName, m.Name)
}

// Remove removes the incomplete data, so that the next run has enough space.
func (m *Making) Remove() error { return m.volume.RemoveAll(agent.ImportDir) }

// Close closes and unlocks the volume.
func (m *Making) Close() { m.volume.CloseVolume() }

// CompleteName is the name of the file that marks the data of an import as complete.
const CompleteName = "complete"

// Data returns the path at which the import creates the data directory, before the rename to its final name.
func (h Half) Data() string { return filepath.Join(h.Dir(), importedData) }

// IsDone reports whether the volume already contains the data of this import. It returns an error if the volume
// contains other data.
func (h Half) IsDone(v *Volume) (done bool, err error) {
	state, err := v.DataState()
	switch {
	case err != nil:
		return false, err
	case state.Empty:
		return false, nil
	}
	m, err := v.ReadMarker()
	switch {
	case err != nil:
		return false, err
	case m != nil && m.XR == h.XR && m.Archive == ImportPrefix+h.Name && m.Inode == state.Inode:
		return true, nil
	}
	return false, exit.With(agent.ExitOccupied,
		"the volume already contains data in %q that this import did not write. Nothing was written", h.Directory)
}

func (h Half) open(ctx context.Context, prepare func(*Volume) error) (*Making, error) {
	v, err := OpenVolume(h.Volume, h.Directory)
	if err != nil {
		return nil, exit.CodeOf(ctx, err)
	}
	done, err := h.IsDone(v)
	if err == nil && !done {
		err = prepare(v)
	}
	if err != nil || done {
		v.CloseVolume()
		return nil, exit.CodeOf(ctx, err)
	}
	return &Making{Half: h, volume: v}, nil
}

// ClearHalves removes incomplete restores and the marker of a restore that was interrupted before its rename.
// Callers must not use it on a volume with data, because it would also remove that data's marker, which identifies
// a finished restore.
func (v *Volume) ClearHalves() error {
	names, err := SortedNames(v.Root, ".")
	if err != nil {
		return err
	}
	// The marker is removed first. A marker without its directory would mean that a user has removed a database.
	for _, name := range append([]string{MarkerName, MarkerName + PartialSuffix}, names...) {
		if name == MarkerName || name == MarkerName+PartialSuffix || strings.HasPrefix(name, HalfPrefix) {
			if err := v.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}
