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

// ManifestName is the file beside an archive. Each archive has a folder of its
// own.
const ManifestName = "manifest.json"

// formatVersion of archive and manifest. A reader refuses what is newer.
const formatVersion = 1

// Bounds on what a manifest may say, and on its own size.
const (
	maxManifest = 64 << 10
	maxEntries  = 1 << 40
	maxData     = 1 << 50
)

// An Identity says which backup an archive is: which record's, and of which life
// of which instance.
type Identity struct {
	// Record is the name of the MySQLBackup.
	Record string `json:"record"`
	// Instance that was backed up.
	Instance v1.BackedUpInstance `json:"instance"`
}

// A archiveManifest describes the archive beside it.
type archiveManifest struct {
	Identity
	Contents

	// Format is FormatVersion of the program that wrote it.
	Format int `json:"format"`
	// Image and Version of the server. Version is empty where nobody knows it.
	Image   string `json:"image,omitempty"`
	Version string `json:"version,omitempty"`
	// Number of the backup among those of its claim; 0 where nobody knows it.
	Number int64 `json:"number,omitempty"`
	// StorageSize that the instance had asked for, a quantity.
	StorageSize string `json:"storageSize,omitempty"`
	// CleanShutdown is true if the server stopped cleanly; Shutdown says why it is
	// thought so.
	CleanShutdown bool   `json:"cleanShutdown"`
	Shutdown      string `json:"shutdown"`

	// Archive is the file's name, Size its bytes and SHA256 their sum.
	Archive string `json:"archive"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`

	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
}

// Contents sum a listing up.
type Contents struct {
	// Entries are files, folders and links; DataBytes the sizes of the files,
	// LargestFile that of the largest.
	Entries     int64 `json:"entries"`
	DataBytes   int64 `json:"dataBytes"`
	LargestFile int64 `json:"largestFile"`
	// Listing is the SHA-256 over a line for each entry, with the CRC-32C of its
	// content (func listingLine).
	Listing string `json:"listingSha256"`
	// Tree is the SHA-256 over the names, sizes and times only, by which a later
	// run sees whether the data is still what was archived.
	Tree string `json:"treeSha256"`
}

var sumPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// errNoManifest is for an archive without one.
var errNoManifest = errors.New("there is no manifest")

// An otherArchiveError is for a manifest beside an archive that it does not name.
type otherArchiveError struct{ name string }

func (e *otherArchiveError) Error() string {
	return fmt.Sprintf("the manifest is that of %.100q", e.name)
}

// readManifest of an archive; errNoManifest where there is none. Where there is one
// that cannot be used, the error is an ExitError.
func readManifest(archive string) (*archiveManifest, error) {
	m, err := readManifestIn(filepath.Dir(archive))
	if err == nil && m.Archive != filepath.Base(archive) {
		return nil, exit.Damaged("%w", &otherArchiveError{m.Archive})
	}
	return m, err
}

// readManifestIn a folder, which says the name of the archive beside it.
func readManifestIn(folder string) (*archiveManifest, error) {
	f, err := openRegular(filepath.Join(folder, ManifestName))
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

// parseManifest trusts nothing: whoever can write to the backup volume can write
// one.
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
		return nil, exit.With(agent.ExitVersion, "the archive's format is version %d, and this program reads up to %d: use a newer one", m.Format, formatVersion)
	case m.Archive == "" || filepath.Base(m.Archive) != m.Archive:
		return nil, exit.Damaged("the manifest's archive, %.100q, is not a file's name", m.Archive)
	case !sumPattern.MatchString(m.SHA256), !sumPattern.MatchString(m.Listing), !sumPattern.MatchString(m.Tree):
		return nil, exit.Damaged("a sum in the manifest is not a SHA-256 sum")
	case m.Number < 0, m.Size < 0, m.DataBytes < 0, m.DataBytes > maxData, m.LargestFile < 0, m.LargestFile > m.DataBytes, m.Entries < 1, m.Entries > maxEntries:
		return nil, exit.Damaged("the manifest's sizes cannot be")
	}
	return m, nil
}

// openRegular opens a file that must not be a link, a device or a pipe.
func openRegular(path string) (*os.File, error) {
	folder, err := openFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer folder.Close() //nolint:errcheck // Nothing was written through it.
	f, err := openIn(folder, filepath.Base(path))
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

// openIn a folder, and through no link: os.Root follows those that stay inside.
func openIn(folder *os.Root, name string) (*os.File, error) {
	at, err := folder.Open(".")
	if err != nil {
		return nil, err
	}
	defer at.Close() //nolint:errcheck // Nothing was written.
	fd, err := unix.Openat(datavolume.FileDescriptor(at), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil //nolint:gosec // A file descriptor is a small number.
}

// openFolder of an archive. A link in its place would lead out of the backup
// volume, to where nobody said that anything may be read or written.
func openFolder(path string) (*os.Root, error) {
	above, name := filepath.Dir(path), filepath.Base(path)
	if above == path {
		return os.OpenRoot(path) // The root of all.
	}
	volume, err := os.OpenRoot(above)
	if err != nil {
		return nil, err
	}
	defer volume.Close() //nolint:errcheck // Nothing was written through it.
	if info, err := volume.Lstat(name); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return nil, exit.Damaged("%s is a symbolic link, not the folder of an archive", name)
	}
	return volume.OpenRoot(name)
}

// encodeJSON as people like to read it.
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

// fillReport with what a manifest says of its archive.
func fillReport(r *agent.Report, m *archiveManifest) {
	r.Archive, r.Size, r.SHA256 = m.Archive, m.Size, m.SHA256
	r.DataBytes, r.Entries = m.DataBytes, m.Entries
	r.Version, r.CleanShutdown, r.Shutdown = m.Version, m.CleanShutdown, m.Shutdown
}

// splitPath of an archive into its folder and its name. A name that means something
// else in that folder, or is hidden, is refused.
func splitPath(archive string) (folder, base string, err error) {
	folder, base = filepath.Split(archive)
	if base == "" || strings.HasPrefix(base, ".") || base == ManifestName || strings.HasSuffix(base, datavolume.PartialSuffix) {
		return "", "", exit.With(agent.ExitFailed, "%q cannot be an archive's name", archive)
	}
	return filepath.Clean(folder), base, nil
}
