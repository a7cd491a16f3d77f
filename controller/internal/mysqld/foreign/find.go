// Package foreign describes data directories of servers that the product has not created. It finds them on a volume,
// and decides which of them a server of the product can use.
package foreign

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The search for data directories visits at most maxVisited directories, and none that is more than maxDepth levels
// below the start. Known layouts have at most two levels, such as mysql/data.
const (
	maxDepth   = 3
	maxVisited = 1000
)

// ErrTooMany means that a volume has too many directories to search.
var ErrTooMany = errors.New("the volume has too many directories to search")

// IsDataDirectory reports whether a directory contains the system tablespace and the system tables. It does not follow
// symbolic links.
func IsDataDirectory(volume *os.Root, name string) (bool, error) {
	isFile, err := hasType(volume, path.Join(name, "ibdata1"), 0)
	if err != nil || !isFile {
		return false, err
	}
	hasDictionary, err := hasType(volume, path.Join(name, "mysql.ibd"), 0)
	if err != nil || hasDictionary {
		return hasDictionary, err
	}
	return hasType(volume, path.Join(name, "mysql"), fs.ModeDir)
}

// hasType reports whether a name exists and has the type of the given mode.
func hasType(volume *os.Root, name string, kind fs.FileMode) (bool, error) {
	info, err := volume.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().Type() == kind, err
}

// Find returns the data directories below a directory of a volume, in sorted order. It does not search inside of a
// data directory, and does not follow symbolic links. It omits directories that the field directory of an import
// cannot name. If it finds nothing, it returns the error of the first directory that it could not read.
func Find(volume *os.Root, start string) ([]string, error) {
	s := search{volume: volume}
	if err := s.visitBelow(start, maxDepth); err != nil {
		return nil, err
	}
	if len(s.found) == 0 {
		return nil, s.denied
	}
	return s.found, nil
}

// A search collects data directories, and the first error about permissions.
type search struct {
	volume  *os.Root
	visited int
	found   []string
	denied  error
}

func (s *search) visitBelow(name string, depth int) error {
	dirs, err := subfolders(s.volume, name)
	if err != nil {
		return s.recordDenied(err)
	}
	for _, dir := range dirs {
		if s.visited++; s.visited > maxVisited {
			return ErrTooMany
		}
		if err := s.visit(path.Join(name, dir), depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) visit(dir string, depth int) error {
	isData, err := IsDataDirectory(s.volume, dir)
	switch {
	case err != nil:
		return s.recordDenied(err)
	case isData:
		s.found = append(s.found, dir)
	case depth > 1:
		return s.visitBelow(dir, depth-1)
	}
	return nil
}

// FindDump returns the path of an SQL dump in a directory of a volume or in one of its subdirectories, or "" if there is
// none.
func FindDump(volume *os.Root, start string) string {
	dirs, err := subfolders(volume, start)
	if err != nil {
		return ""
	}
	for _, dir := range append([]string{"."}, dirs[:min(len(dirs), maxVisited)]...) {
		dir = path.Join(start, dir)
		names, err := listNames(volume, dir)
		if err != nil {
			continue
		}
		for _, name := range names {
			if isDump.MatchString(name) {
				return path.Join(dir, name)
			}
		}
	}
	return ""
}

// isDump matches the names of dumps that an import can load.
var isDump = regexp.MustCompile(`^[^.].*\.sql(\.gz|\.zst)?$`)

// recordDenied stores an error about permissions, and returns all other errors.
func (s *search) recordDenied(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	s.denied = cmp.Or(s.denied, err)
	return nil
}

// Nested returns the data directories that are direct subdirectories of a data directory. A server would use such a
// directory as a schema, and InnoDB never creates ibdata1 in a schema.
func Nested(dir *os.Root) ([]string, error) {
	dirs, err := subfolders(dir, ".")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, directory := range dirs {
		isData, err := IsDataDirectory(dir, directory)
		if err != nil {
			return nil, err
		}
		if isData {
			found = append(found, directory)
		}
	}
	return found, nil
}

// subfolders returns the sorted names of the subdirectories that an import can name.
func subfolders(volume *os.Root, name string) ([]string, error) {
	f, err := volume.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && canBeNamed(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// canBeNamed reports whether the name can be the data directory of a user. lost+found belongs to the file system, and
// names with a number sign belong to InnoDB.
func canBeNamed(name string) bool {
	return name != lostAndFound && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "#") &&
		!strings.ContainsFunc(name, unicode.IsControl)
}
