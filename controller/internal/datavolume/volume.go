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

// Steps of a restore, an import or an initialization after which the crash tests kill the process.
const (
	StepUnpacked = "unpacked"
	StepMarked   = "marked"
	StepRenamed  = "renamed"
)

// FileDescriptor returns the descriptor of a file for system calls.
func FileDescriptor(f *os.File) int {
	return int(f.Fd()) //nolint:gosec // A file descriptor is a small number.
}

// SortedNames returns the sorted names of a directory's entries.
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

// Names in the root of a data volume, next to the data directory. The server does not see them.
const (
	// MarkerName is the file with the Marker of the data.
	MarkerName = ".restored.json"
	// StartedName is the file with the version of the last server that was started on the data. It is written before the
	// start, so the start may have failed.
	StartedName = ".started.json"
	// HalfPrefix is the name prefix of a directory into which an archive is unpacked.
	HalfPrefix = ".restore-"
	// LostAndFound is a directory that belongs to the file system, and not to the server.
	LostAndFound = "lost+found"
)

// PartialSuffix is the suffix of an incomplete file.
const PartialSuffix = ".partial"

// maxContent is the maximum size of a marker in bytes.
const maxContent = 64 << 10

// A Volume is a data volume that is locked against other processes of this program.
type Volume struct {
	*os.Root

	directory string
	Handle    *os.File
}

// OpenVolume opens and locks the volume at a path. Its data directory has the given name.
func OpenVolume(path, directory string) (*Volume, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the data volume: %w", err)
	}
	return NewVolume(root, directory)
}

// NewVolume locks the volume with the given root directory. It takes ownership of root, and closes it on an error.
func NewVolume(root *os.Root, directory string) (*Volume, error) {
	if directory == "" || directory == "." || directory == LostAndFound || strings.HasPrefix(directory, ".") ||
		strings.ContainsAny(directory, "/\x00") {
		_ = root.Close() // Nothing was written.
		return nil, exit.With(agent.ExitFailed, "%q is not a valid name for a data directory", directory)
	}
	handle, err := root.Open(".")
	if err != nil {
		_ = root.Close() // Nothing was written.
		return nil, fmt.Errorf("cannot open the data volume: %w", err)
	}
	v := &Volume{Root: root, directory: directory, Handle: handle}
	// Some network file systems cannot lock a directory. In this case, only Kubernetes ensures that the Job has a single
	// running pod.
	if err := unix.Flock(FileDescriptor(handle), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		v.CloseVolume()
		return nil, exit.With(agent.ExitBusy, "another backup or restore uses this volume")
	}
	return v, nil
}

// CloseVolume closes and unlocks the volume.
func (v *Volume) CloseVolume() {
	_ = v.Handle.Close() // All writes are already synced.
	_ = v.Close()
}

// A Marker identifies the data of a volume: the owning XR, the restored archive if any, and the inode of the
// directory. The marker is written before the directory is renamed, and the rename does not change the inode.
// Finished restores and initializations therefore always have a marker.
type Marker struct {
	XR      types.UID `json:"xr,omitempty"`
	Archive string    `json:"archive,omitempty"`
	SHA256  string    `json:"sha256,omitempty"`
	Inode   uint64    `json:"inode"`
	// PasswordSet is true once the restored data has this instance's password instead of the backed-up server's.
	PasswordSet bool `json:"passwordSet,omitempty"`
}

// ReadMarker returns the marker of the volume, or nil if there is none.
func (v *Volume) ReadMarker() (*Marker, error) { return readMarker(v.Root) }

func readMarker(root *os.Root) (*Marker, error) {
	raw, err := readFile(root, MarkerName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // A missing marker is not an error.
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

// writeFile writes a small JSON file to the root of a volume.
func writeFile(root *os.Root, name string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return WriteFile(root, name, append(raw, '\n'))
}

// readFile reads a small file in the root of a volume. A user may have replaced the file with something else, such as
// a link.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return io.ReadAll(io.LimitReader(f, maxContent))
}

// maxUID is the maximum length of a UID in a message if it comes from the volume, which is not trusted.
const maxUID = 64

// CheckOwner returns an error if the marker shows that the data belongs to another XR.
func (v *Volume) CheckOwner(xr types.UID) error { return CheckOwner(v.Root, xr) }

// CheckOwner returns an error if the marker shows that the data belongs to another XR. The product never starts,
// archives or empties the directory of another instance. If xr is empty, nothing is checked.
func CheckOwner(root *os.Root, xr types.UID) error {
	if xr == "" {
		return nil
	}
	m, err := readMarker(root)
	if err != nil || m == nil || m.XR == "" || m.XR == xr {
		return err
	}
	return exit.With(agent.ExitForeign,
		"the data belongs to another instance, whose composite resource has the UID %q according to %s next to the data. "+
			"Check that it is the right volume or directory, on the right node, and restore the right one. The data was not "+
			"changed",
		v1.PrintableText(string(m.XR), maxUID), MarkerName)
}

// A DataState reports whether the data directory is empty or missing, and its inode.
type DataState struct {
	Empty bool
	Inode uint64
}

// DataState reads the data directory, and returns whether it is empty or missing, and its inode.
func (v *Volume) DataState() (DataState, error) {
	info, err := v.Lstat(v.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return DataState{Empty: true}, nil
	}
	if err != nil {
		return DataState{}, err
	}
	if !info.IsDir() {
		return DataState{}, fmt.Errorf("%q on the data volume is not a directory", v.directory)
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
	return DataState{Empty: err != nil, Inode: inodeOf(info)}, nil
}

func inodeOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// CheckNothing returns an error if a volume without data shows signs that it once contained data. It may be the wrong
// volume, or a user may have removed the data.
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
			if made, err := v.Lstat(path.Join(name, importedData)); err == nil { // The data of an import is one level deeper.
				inodes = append(inodes, inodeOf(made))
			}
		default:
			return exit.With(agent.ExitFailed,
				"the volume has no data in %q, but it contains %q, so it may not be empty. Check that it is the "+
					"right volume. Nothing was written", v.directory, name)
		}
	}
	m, err := v.ReadMarker()
	if err != nil {
		return err
	}
	if m != nil && !slices.Contains(inodes, m.Inode) {
		return exit.With(agent.ExitFailed,
			"the volume has no data in %q, although %s shows that a database was written there, so the data was "+
				"deleted. Inspect the volume. Nothing was written", v.directory, MarkerName)
	}
	return nil
}

// Place writes the marker and renames a directory to the data directory. The directory counts as a database only
// after the rename.
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
	return SyncDir(v.Root)
}

// LockDir opens a directory and takes the locks that a server takes. It returns an error if a server is running in
// the directory. No server can start there until release is called.
func (v *Volume) LockDir(directory string) (dir *os.Root, release func(), err error) {
	if dir, err = v.OpenRoot(directory); err != nil {
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

// StoppedIn returns how the last server of a directory stopped. It returns an error if a server is running there.
func (v *Volume) StoppedIn(directory string) (datadir.Shutdown, error) {
	dir, release, err := v.LockDir(directory)
	if err != nil {
		return datadir.Shutdown{}, err
	}
	defer release()
	return HowStopped(dir)
}

// writeMarker writes the marker for a directory that is about to become the data directory.
func (v *Volume) writeMarker(dir string, m Marker) error {
	info, err := v.Lstat(dir)
	if err != nil {
		return err
	}
	m.Inode = inodeOf(info)
	return v.putMarker(m)
}

func (v *Volume) putMarker(m Marker) error {
	if err := writeFile(v.Root, MarkerName, m); err != nil {
		return fmt.Errorf("cannot write %s: %w", MarkerName, err)
	}
	return nil
}

// checkUnused returns an error if a server is running in a directory. The directory may be missing.
func (v *Volume) checkUnused(dir string) error {
	if _, err := v.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, release, err := v.LockDir(dir)
	if err != nil {
		return err
	}
	release()
	return nil
}

// replaceEmpty atomically renames a directory. The target must not exist, or must be an empty directory. os.Root
// cannot replace a directory.
func (v *Volume) replaceEmpty(from, target string) error {
	err := unix.Renameat(FileDescriptor(v.Handle), from, FileDescriptor(v.Handle), target)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return exit.With(agent.ExitOccupied,
			"another process wrote files into %q while the backup was unpacked. They are not changed", target)
	}
	return err
}

// WriteFile creates a file atomically: the file is either complete or does not exist.
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
		_ = root.Remove(partial) // A leftover file does no harm.
		return err
	}
	return SyncDir(root)
}

// SyncDir flushes the entries of a directory to disk.
func SyncDir(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Sync has reported any error.
	return f.Sync()
}

// MakeDir creates a directory and its parents, and flushes their entries to disk.
func MakeDir(path string) error {
	err := os.Mkdir(path, 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		if err := MakeDir(filepath.Dir(path)); err != nil {
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
	return SyncDir(above)
}
