package datavolume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
)

// Steps of putting data in place after which a test crashes.
const (
	StepUnpacked = "unpacked"
	StepMarked   = "marked"
	StepRenamed  = "renamed"
)

// FileDescriptor of a file, for system calls.
func FileDescriptor(f *os.File) int {
	return int(f.Fd()) //nolint:gosec // A file descriptor is a small number.
}

// SortedNames of a folder's entries.
func SortedNames(root *os.Root, name string) ([]string, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Names at the root of a data volume, beside the data directory, where no server
// sees them.
const (
	// MarkerName is the file that says which archive was restored, if any.
	MarkerName = ".restored.json"
	// StartedName is the file that says which version of a server was started last on the data. It is
	// written before that server begins, which may not be able to.
	StartedName = ".started.json"
	// HalfPrefix begins the name of the folder that an archive is unpacked into.
	HalfPrefix = ".restore-"
	// LostAndFound belongs to the file system.
	LostAndFound = "lost+found"
)

// PartialSuffix is that of a file that is being written.
const PartialSuffix = ".partial"

// maxNote in bytes of what is read of a marker.
const maxNote = 64 << 10

// A Volume is a data volume that this process has to itself, as far as others of
// this program go.
type Volume struct {
	*os.Root

	directory string
	Handle    *os.File
}

// OpenVolume opens the volume at a path, whose data directory has the name of directory.
func OpenVolume(path, directory string) (*Volume, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the data volume: %w", err)
	}
	return NewVolume(root, directory)
}

// NewVolume takes the root over: it is closed with the volume, or here.
func NewVolume(root *os.Root, directory string) (*Volume, error) {
	if directory == "" || directory == "." || directory == LostAndFound || strings.HasPrefix(directory, ".") || strings.ContainsAny(directory, "/\x00") {
		_ = root.Close() // Nothing was written.
		return nil, exit.With(agent.ExitFailed, "%q cannot be a data directory's name", directory)
	}
	handle, err := root.Open(".")
	if err != nil {
		_ = root.Close() // Nothing was written.
		return nil, fmt.Errorf("cannot open the data volume: %w", err)
	}
	v := &Volume{Root: root, directory: directory, Handle: handle}
	// Some network file systems cannot lock a folder. There the Job is alone in
	// that Kubernetes runs it once at a time.
	if err := unix.Flock(FileDescriptor(handle), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		v.CloseVolume()
		return nil, exit.With(agent.ExitBusy, "another backup or restore works on this volume")
	}
	return v, nil
}

// CloseVolume lets others of this program have the volume.
func (v *Volume) CloseVolume() {
	_ = v.Handle.Close() // What was written was synced.
	_ = v.Close()
}

// A Marker says which archive was unpacked, or none for a new database, for which XR, and
// into which folder: a rename keeps its inode. It is written before the rename, so that
// a finished restore, or first start, always has one.
type Marker struct {
	XR      types.UID `json:"xr,omitempty"`
	Archive string    `json:"archive,omitempty"`
	SHA256  string    `json:"sha256,omitempty"`
	Inode   uint64    `json:"inode"`
	// PasswordSet is true once what was unpacked has this instance's password, and no
	// more that of the server which was backed up.
	PasswordSet bool `json:"passwordSet,omitempty"`
}

// ReadMarker of what was put on the volume; nil if nothing was.
func (v *Volume) ReadMarker() (*Marker, error) { return readMarker(v.Root) }

func readMarker(root *os.Root) (*Marker, error) {
	raw, err := readNote(root, MarkerName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // No marker, and no error.
	}
	if err != nil {
		return nil, err
	}
	m := &Marker{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("cannot read the volume's %s: %w", MarkerName, err)
	}
	return m, nil
}

// writeNote makes a small file at the root of a volume, as JSON.
func writeNote(root *os.Root, name string, note any) error {
	raw, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return WriteFile(root, name, append(raw, '\n'))
}

// readNote is a small file at the root of a volume, where somebody may have put anything in its place.
func readNote(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return io.ReadAll(io.LimitReader(f, maxNote))
}

// maxUID is how much is said of a UID that a volume has and not the API server.
const maxUID = 64

// CheckOwner is nil unless the volume says that its data is another XR's.
func (v *Volume) CheckOwner(xr types.UID) error { return CheckOwner(v.Root, xr) }

// CheckOwner of the data on a volume: nil unless it says that it is another XR's. Nobody
// else's folder is started on, archived or emptied because it lies where ours should. Who
// does not say for which XR it asks is asked nothing.
func CheckOwner(root *os.Root, xr types.UID) error {
	if xr == "" {
		return nil
	}
	m, err := readMarker(root)
	if err != nil || m == nil || m.XR == "" || m.XR == xr {
		return err
	}
	return exit.With(agent.ExitForeign, "the data is that of another instance, whose XR has the UID %q, as %s beside it says: is it the right volume, or folder, on the right node? Bring the right one back; this one is not touched", v1.PrintableText(string(m.XR), maxUID), MarkerName)
}

// A DataState is what there is of a data directory.
type DataState struct {
	exists, Empty bool
	Inode         uint64
}

// DataState is what lies in the data directory.
func (v *Volume) DataState() (DataState, error) {
	info, err := v.Lstat(v.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return DataState{Empty: true}, nil
	}
	if err != nil {
		return DataState{}, err
	}
	if !info.IsDir() {
		return DataState{}, fmt.Errorf("%q on the data volume is not a folder", v.directory)
	}
	f, err := v.Open(v.directory)
	if err != nil {
		return DataState{}, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	_, err = f.Readdirnames(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return DataState{}, err
	}
	return DataState{exists: true, Empty: err != nil, Inode: inodeOf(info)}, nil
}

func inodeOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// CheckNothing is nil if a volume without data never had any. A volume that is not
// what it should be may be another one, or one that something was taken from:
// doubt is not absence.
func (v *Volume) CheckNothing() error {
	names, err := SortedNames(v.Root, ".")
	if err != nil {
		return err
	}
	inodes := []uint64{}
	for _, name := range names {
		switch {
		case name == v.directory, name == LostAndFound:
		case name == MarkerName, name == MarkerName+PartialSuffix, name == StartedName, name == StartedName+PartialSuffix:
		case strings.HasPrefix(name, HalfPrefix), name == v.directory+initialSuffix:
			info, err := v.Lstat(name)
			if err != nil {
				return err
			}
			inodes = append(inodes, inodeOf(info))
			if made, err := v.Lstat(path.Join(name, importedData)); err == nil { // That of an import lies one deeper.
				inodes = append(inodes, inodeOf(made))
			}
		default:
			return exit.With(agent.ExitFailed, "the volume has no data in %q, but it has %q: is it the right volume? Look at it; nothing is taken for empty that may not be", v.directory, name)
		}
	}
	m, err := v.ReadMarker()
	if err != nil {
		return err
	}
	if m != nil && !slices.Contains(inodes, m.Inode) {
		return exit.With(agent.ExitFailed, "the volume has no data in %q, but %s says that a database was put there: somebody removed it. Look at the volume; nothing is taken for empty that may not be", v.directory, MarkerName)
	}
	return nil
}

// Place puts a folder where the server looks, with its marker. From the rename on, and not
// before, there is a database.
func (v *Volume) Place(half string, m Marker, afterStep func(string)) error {
	afterStep(StepUnpacked)
	if err := v.writeMarker(half, m); err != nil {
		return err
	}
	afterStep(StepMarked)
	if err := v.replaceEmpty(half, v.directory); err != nil {
		return err
	}
	afterStep(StepRenamed)
	return SyncFolder(v.Root)
}

// LockFolder opens a folder under the locks that a server takes: none runs in it, and none can start before it is released.
func (v *Volume) LockFolder(folder string) (dir *os.Root, release func(), err error) {
	if dir, err = v.OpenRoot(folder); err != nil {
		return nil, nil, err
	}
	locks, err := datadir.Lock(dir)
	if err != nil {
		_ = dir.Close() // Nothing was written.
		return nil, nil, err
	}
	return dir, func() {
		locks.Release()
		_ = dir.Close() // Nothing was written.
	}, nil
}

// StoppedIn says how the server stopped that made the data in a folder, in which none runs.
func (v *Volume) StoppedIn(folder string) (datadir.Shutdown, error) {
	dir, release, err := v.LockFolder(folder)
	if err != nil {
		return datadir.Shutdown{}, err
	}
	defer release()
	return HowStopped(dir)
}

// writeMarker of a folder that is about to become the data directory, beside it.
func (v *Volume) writeMarker(folder string, m Marker) error {
	info, err := v.Lstat(folder)
	if err != nil {
		return err
	}
	m.Inode = inodeOf(info)
	return v.putMarker(m)
}

func (v *Volume) putMarker(m Marker) error {
	if err := writeNote(v.Root, MarkerName, m); err != nil {
		return fmt.Errorf("cannot write %s: %w", MarkerName, err)
	}
	return nil
}

// checkUnused is nil if no server runs in a folder, which need not be there.
func (v *Volume) checkUnused(folder string) error {
	if _, err := v.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, release, err := v.LockFolder(folder)
	if err != nil {
		return err
	}
	release()
	return nil
}

// replaceEmpty renames a folder over another at once, if that is empty or not
// there. os.Root does not replace folders.
func (v *Volume) replaceEmpty(from, to string) error {
	err := unix.Renameat(FileDescriptor(v.Handle), from, FileDescriptor(v.Handle), to)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return exit.With(agent.ExitOccupied, "something has put files into %q while the backup was unpacked; they are untouched", to)
	}
	return err
}

// WriteFile makes a file appear whole, under its name, or not at all.
func WriteFile(root *os.Root, name string, content []byte) error {
	partial := name + PartialSuffix
	if err := root.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if serr := f.Sync(); err == nil {
		err = serr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = root.Rename(partial, name)
	}
	if err != nil {
		_ = root.Remove(partial) // It is in the way of nothing.
		return err
	}
	return SyncFolder(root)
}

// SyncFolder writes the entries of a folder to disk.
func SyncFolder(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Sync says what there is to say.
	return f.Sync()
}

// MakeFolder and those above it, so that they are on disk too.
func MakeFolder(path string) error {
	err := os.Mkdir(path, 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		if err := MakeFolder(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o750)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	above, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close() //nolint:errcheck // Nothing was written through it.
	return SyncFolder(above)
}
