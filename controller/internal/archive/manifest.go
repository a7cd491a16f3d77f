package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// ManifestName is the name of the manifest next to an archive. Each archive has its own directory.
const ManifestName = "manifest.json"

// formatVersion is the version of the archive's and the manifest's format. A reader refuses a newer version.
const formatVersion = 1

// These constants limit the fields of a manifest, and its size.
const (
	maxManifest = 64 << 10
	maxEntries  = 1 << 40
	maxData     = 1 << 50
)

// An Identity identifies a backup by the name of its BackupRecord and by the instance that was backed up.
type Identity struct {
	// Record is the name of the BackupRecord.
	Record string `json:"record"`
	// Instance is the instance that was backed up.
	Instance v1.BackedUpInstance `json:"instance"`
}

// An archiveManifest describes the archive next to it.
type archiveManifest struct {
	Identity
	Contents

	// Format is the formatVersion of the program that wrote the manifest.
	Format int `json:"format"`
	// Image is the server's image, and Version is its version. Version is empty if it is unknown.
	Image   string `json:"image,omitempty"`
	Version string `json:"version,omitempty"`
	// Number is the number of the backup among the backups of its claim, or 0 if it is unknown.
	Number int64 `json:"number,omitempty"`
	// StorageSize is the storage size that the instance requested, as a Kubernetes quantity.
	StorageSize string `json:"storageSize,omitempty"`
	// CleanShutdown is true if the server stopped cleanly. Shutdown describes how this was determined.
	CleanShutdown bool   `json:"cleanShutdown"`
	Shutdown      string `json:"shutdown"`

	// Archive is the file name of the archive. Size is its size in bytes, and SHA256 its checksum.
	Archive string `json:"archive"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`

	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
}

// Contents summarizes the entries of an archive with totals and checksums.
type Contents struct {
	// Entries is the number of files, directories and links. DataBytes is the total size of the files, and
	// LargestFile the size of the largest one.
	Entries     int64 `json:"entries"`
	DataBytes   int64 `json:"dataBytes"`
	LargestFile int64 `json:"largestFile"`
	// Listing is the SHA-256 over the lines of all entries (listingLine), which contain the CRC-32C of their
	// content.
	Listing string `json:"listingSha256"`
	// Tree is the SHA-256 over names, sizes and times only. A later run compares it to detect whether the data has
	// changed since.
	Tree string `json:"treeSha256"`
}

var sumPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// errNoManifest is the error for an archive without a manifest.
var errNoManifest = errors.New("there is no manifest")

// An otherArchiveError reports that a manifest belongs to a different archive than the one next to it.
type otherArchiveError struct{ name string }

func (e *otherArchiveError) Error() string {
	return fmt.Sprintf("the manifest belongs to another archive, %.100q", e.name)
}

// readManifest reads the manifest of an archive. It returns errNoManifest if the manifest is missing, and an
// ExitError if the manifest cannot be used.
func readManifest(archive string) (*archiveManifest, error) {
	m, err := readManifestIn(filepath.Dir(archive))
	if err == nil && m.Archive != filepath.Base(archive) {
		return nil, exit.Damaged("%w", &otherArchiveError{m.Archive})
	}
	return m, err
}

// readManifestIn reads the manifest in a directory. The manifest contains the name of the archive next to it.
func readManifestIn(dir string) (*archiveManifest, error) {
	f, err := openRegular(filepath.Join(dir, ManifestName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoManifest
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	return parseManifest(raw)
}

// parseManifest validates all fields, because a user with write access to the backup volume can write a manifest.
func parseManifest(raw []byte) (*archiveManifest, error) {
	m := &archiveManifest{}
	if len(raw) > maxManifest {
		return nil, exit.Damaged("the manifest is larger than %d bytes", maxManifest)
	}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, exit.Damaged("cannot read the manifest: %w", err)
	}
	switch {
	case m.Format < 1:
		return nil, exit.Damaged("the manifest has no format version")
	case m.Format > formatVersion:
		return nil, exit.With(agent.ExitVersion,
			"the archive has format version %d, but this program reads only versions up to %d: use a newer release",
			m.Format, formatVersion)
	case m.Archive == "" || filepath.Base(m.Archive) != m.Archive:
		return nil, exit.Damaged("the manifest's archive, %.100q, is not a file name", m.Archive)
	case !sumPattern.MatchString(m.SHA256), !sumPattern.MatchString(m.Listing), !sumPattern.MatchString(m.Tree):
		return nil, exit.Damaged("a checksum in the manifest is not a SHA-256 checksum")
	case m.Number < 0, m.Size < 0, m.DataBytes < 0, m.DataBytes > maxData, m.LargestFile < 0, m.LargestFile > m.DataBytes,
		m.Entries < 1, m.Entries > maxEntries:
		return nil, exit.Damaged("the manifest contains impossible sizes")
	}
	return m, nil
}

// openRegular opens a file that must not be a link, a device or a pipe.
func openRegular(path string) (*os.File, error) {
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written through it.
	f, err := openIn(dir, filepath.Base(path))
	if errors.Is(err, unix.ELOOP) {
		return nil, exit.Damaged("%s is a symbolic link, not a file", filepath.Base(path))
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = exit.Damaged("%s is not a regular file", filepath.Base(path))
	}
	if err != nil {
		_ = f.Close() // Nothing was written.
		return nil, err
	}
	return f, nil
}

// openIn opens a file in a directory and follows no link. os.Root would follow links that stay inside.
func openIn(directory *os.Root, name string) (*os.File, error) {
	dir, err := directory.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	fd, err := unix.Openat(datavolume.FileDescriptor(dir), name,
		unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil //nolint:gosec // A file descriptor is a small number.
}

// openDir opens the directory of an archive. It refuses a link, which could lead outside of the backup volume.
func openDir(path string) (*os.Root, error) {
	above, name := filepath.Dir(path), filepath.Base(path)
	if above == path {
		return os.OpenRoot(path) // The root of the file system has no parent.
	}
	volume, err := os.OpenRoot(above)
	if err != nil {
		return nil, err
	}
	defer volume.Close() //nolint:errcheck // Nothing was written through it.
	if info, err := volume.Lstat(name); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return nil, exit.Damaged("%s is a symbolic link, not the directory of an archive", name)
	}
	return volume.OpenRoot(name)
}

// encodeJSON returns the manifest as indented JSON.
func (m *archiveManifest) encodeJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("cannot write the manifest: %w", err)
	}
	return b.Bytes(), nil
}

// fillReport copies the description of the archive from its manifest to a report.
func fillReport(r *agent.Report, m *archiveManifest) {
	r.Archive, r.Size, r.SHA256 = m.Archive, m.Size, m.SHA256
	r.DataBytes, r.Entries = m.DataBytes, m.Entries
	r.Version, r.CleanShutdown, r.Shutdown = m.Version, m.CleanShutdown, m.Shutdown
}

// splitPath splits the path of an archive into directory and name. It refuses hidden names and names that are used
// for other files in that directory.
func splitPath(archive string) (dir, base string, err error) {
	dir, base = filepath.Split(archive)
	if base == "" || strings.HasPrefix(base, ".") || base == ManifestName ||
		strings.HasSuffix(base, datavolume.PartialSuffix) {
		return "", "", exit.With(agent.ExitFailed, "%q is not a valid archive name", archive)
	}
	return filepath.Clean(dir), base, nil
}
