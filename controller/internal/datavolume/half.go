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

// Dump is the file of an object, beside the data that is made of it.
func (h Half) Dump(object string) string { return filepath.Join(h.Folder(), path.Base(object)) }

// A Half is the place where the containers of an import make the data.
type Half struct {
	// Volume is where the data volume is mounted, Directory the folder in its root
	// that the data goes to.
	Volume, Directory string
	// XR whose data it is from then on.
	XR types.UID
	// Name of what is imported: who finds it on the volume has nothing left to do.
	Name string
}

// importedData is the data directory in the folder of an import, and ImportedHalf the way to it.
const (
	importedData = "data"
	ImportedHalf = agent.ImportFolder + "/" + importedData
)

// ImportPrefix in the marker of a volume begins the name of what was imported.
const ImportPrefix = "import/"

// Folder of the half.
func (h Half) Folder() string { return filepath.Join(h.Volume, agent.ImportFolder) }

// A Making is a half that one process works on. No other one of this program does until it is closed.
type Making struct {
	Half

	volume *Volume
}

// Begin anew: what an earlier run left goes. It is nil if there is nothing left to do, because an
// earlier run has put the data where a server looks.
func (h Half) Begin(ctx context.Context) (*Making, error) {
	return h.open(ctx, func(v *Volume) error {
		if err := errors.Join(v.checkUnused(ImportedHalf), v.ClearHalves()); err != nil {
			return fmt.Errorf("cannot remove what an earlier run left: %w", err)
		}
		return v.Mkdir(agent.ImportFolder, 0o755)
	})
}

// GoOn with what a container before this one has begun. It is nil if there is nothing left to do, as with Begin.
func (h Half) GoOn(ctx context.Context) (*Making, error) {
	return h.open(ctx, func(v *Volume) error {
		if err := v.checkUnused(ImportedHalf); err != nil {
			return err
		}
		return v.RemoveAll(ImportedHalf)
	})
}

// Complete is said once the server that made the data has ended: the container that comes next takes no half that does not say so.
func (m *Making) Complete() error {
	root, err := m.volume.OpenRoot(agent.ImportFolder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // What was written was synced.
	return writeNote(root, CompleteName, m.Name)
}

// Discard what was made, which will never be complete: its room is for the next try.
func (m *Making) Discard() error { return m.volume.RemoveAll(agent.ImportFolder) }

// Close the volume.
func (m *Making) Close() { m.volume.CloseVolume() }

// CompleteName is the file in the folder of an import that says that its data is complete.
const CompleteName = "complete"

// Data is the data directory in that folder.
func (h Half) Data() string { return filepath.Join(h.Folder(), importedData) }

// IsDone if the volume has the data. One that has other data is not fit.
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
	return false, exit.With(agent.ExitOccupied, "the volume already holds data in %q, and not what this import put there; nothing was written", h.Directory)
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

// ClearHalves removes what an earlier run left: half a restore, and the marker of
// one that was never put in place. There must be no data: the marker of that goes,
// too, and by it a finished restore is known.
func (v *Volume) ClearHalves() error {
	names, err := SortedNames(v.Root, ".")
	if err != nil {
		return err
	}
	// The marker first: without the folder that it is of, it says that somebody has removed a database.
	for _, name := range append([]string{MarkerName, MarkerName + PartialSuffix}, names...) {
		if name == MarkerName || name == MarkerName+PartialSuffix || strings.HasPrefix(name, HalfPrefix) {
			if err := v.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}
