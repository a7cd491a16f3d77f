package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// The following constants limit the names and links in an archive. maxNameBytes is the limit of Linux.
const (
	maxNameBytes = 255
	maxPathBytes = 2048
	maxDepth     = 32
	maxLinkBytes = 1024
	maxAttrBytes = 64 << 10
)

// attrPrefix is the prefix of extended attributes in PAX records, as GNU tar writes them. Only attributes in the
// namespace "user" are archived, because the others belong to the system.
const (
	attrPrefix = "SCHILY.xattr."
	attrUser   = "user."
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An entry is a file, a directory or a link in the data directory.
type entry struct {
	// name is the path relative to the data directory. The data directory itself is ".".
	name     string
	mode     fs.FileMode
	uid, gid int
	size     int64
	modified time.Time
	link     string
	attrs    map[string]string
}

func (e *entry) isSymlink() bool { return e.mode.Type() == fs.ModeSymlink }

// tarHeader returns the header of the entry in a tar file.
func (e *entry) tarHeader() *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Name: "./" + e.name, Mode: int64(e.mode.Perm()),
		Uid: e.uid, Gid: e.gid, Size: e.size, ModTime: e.modified, Linkname: e.link, Typeflag: tar.TypeReg,
	}
	switch {
	case e.mode.IsDir():
		h.Typeflag = tar.TypeDir
		h.Name = "./"
		if e.name != "." {
			h.Name += e.name + "/"
		}
	case e.isSymlink():
		h.Typeflag = tar.TypeSymlink
	}
	if e.mode&fs.ModeSetgid != 0 {
		h.Mode |= 0o2000
	}
	for name, value := range e.attrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[attrPrefix+name] = value
	}
	return h
}

// fromHeader decodes an entry from an untrusted archive. It refuses entries that the product's backups do not
// contain.
func fromHeader(h *tar.Header) (*entry, error) {
	e := &entry{name: path.Clean(h.Name), uid: h.Uid, gid: h.Gid, size: h.Size, modified: h.ModTime, link: h.Linkname}
	e.mode = fs.FileMode(h.Mode & 0o777)
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		e.mode |= fs.ModeDir
	case tar.TypeSymlink:
		e.mode |= fs.ModeSymlink
	default:
		return nil, exit.Damaged("%.100q has the type %q, which is not valid in a backup", h.Name, h.Typeflag)
	}
	if h.Mode&0o2000 != 0 {
		e.mode |= fs.ModeSetgid
	}
	if h.Mode&^0o2777 != 0 || h.Uid < 0 || h.Gid < 0 || h.Size < 0 || h.ModTime.Year() < 1900 || h.ModTime.Year() > 9999 {
		return nil, exit.Damaged("%.100q has a mode, owner, size or time that is not valid in a backup", h.Name)
	}
	for key, value := range h.PAXRecords {
		if err := e.takeAttribute(key, value); err != nil {
			return nil, err
		}
	}
	return e, e.checkName(h.Name)
}

// takeAttribute decodes the extended attribute in a PAX record. It ignores the standard records, which are already
// decoded into the header's fields.
func (e *entry) takeAttribute(key, value string) error {
	attr, ok := strings.CutPrefix(key, attrPrefix)
	switch {
	case ok && strings.HasPrefix(attr, attrUser) && len(value) <= maxAttrBytes:
		if e.attrs == nil {
			e.attrs = map[string]string{}
		}
		e.attrs[attr] = value
		return nil
	case ok, strings.HasPrefix(key, "GNU."), strings.HasPrefix(key, "LIBARCHIVE."):
		return exit.Damaged("%.100q has the PAX record %.100q, which is not valid in a backup", e.name, key)
	}
	return nil
}

// checkName checks the entry's name, mode and link. Backup and restore use the same check, so that every archive
// can be unpacked.
func (e *entry) checkName(name string) error {
	if err := checkName(e.name, name); err != nil {
		return err
	}
	switch {
	case e.mode.IsRegular() && e.mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0:
		return exit.Damaged("%.100q has a setuid, setgid or sticky bit, so it could run as another user", name)
	case e.mode.IsRegular() && e.link != "", !e.mode.IsRegular() && e.size != 0:
		return exit.Damaged("%.100q has contradictory attributes", name)
	case e.isSymlink() && !staysInside(e.name, e.link):
		return exit.Damaged("%.100q is a symbolic link to %.100q, outside of the data directory, and data there is "+
			"not backed up",
			name, e.link)
	case e.name == "." && !e.mode.IsDir():
		return exit.Damaged("the data directory is not a directory")
	}
	return nil
}

// checkName checks a cleaned name and the name as written in the archive. path.Clean would hide the ".." in
// "a/../b", which no backup contains.
func checkName(name, written string) error {
	if name == "." {
		return nil
	}
	parts := strings.Split(name, "/")
	if len(name) > maxPathBytes || len(parts) > maxDepth || !fs.ValidPath(name) || path.IsAbs(written) ||
		strings.ContainsRune(name, 0) {
		return exit.Damaged("%.100q is not a path in the data directory", written)
	}
	for _, part := range parts {
		if len(part) > maxNameBytes {
			return exit.Damaged("the name %.100q… is too long", part)
		}
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(written, "/"), "/") {
		if part == ".." {
			return exit.Damaged("%.100q is not a path in the data directory", written)
		}
	}
	return nil
}

// staysInside reports whether a relative link stays within the tree, even if its path contains other links. It may
// contain ".." only at its beginning, because after a link to ".", each further ".." would point outside.
func staysInside(name, link string) bool {
	if link == "" || len(link) > maxLinkBytes || path.IsAbs(link) || strings.ContainsRune(link, 0) {
		return false
	}
	up := 0
	for rest := link; strings.HasPrefix(rest+"/", "../"); up++ {
		_, rest, _ = strings.Cut(rest, "/")
		link = rest
	}
	return up <= strings.Count(name, "/") && !slices.Contains(strings.Split(link, "/"), "..")
}

// listingLine returns the entry's line in the listing, with the CRC-32C of its content. Names are quoted, so that a
// line break in a name cannot start a new line.
func (e *entry) listingLine(sum uint32) string {
	attrs := make([]string, 0, len(e.attrs))
	for name, value := range e.attrs {
		attrs = append(attrs, fmt.Sprintf("%q=%q", name, value))
	}
	sort.Strings(attrs)
	return fmt.Sprintf("%s %d %d %d %d %08x %q %q %s\n", e.mode, e.uid, e.gid, e.size, e.modified.UnixNano(), sum, e.name,
		e.link, attrs)
}

// outlineLine returns the line for the entry in the outline, which detects changed data without reading it. For a
// file, the line contains the size and the modification time.
func (e *entry) outlineLine() string {
	if !e.mode.IsRegular() {
		return fmt.Sprintf("%s %q %q\n", e.mode.Type(), e.name, e.link)
	}
	return fmt.Sprintf("%d %d %q\n", e.size, e.modified.UnixNano(), e.name)
}

// A listing computes checksums over entries in the order in which they are added.
type listing struct {
	Contents

	lines, outlines hash.Hash
}

func newListing() *listing { return &listing{lines: sha256.New(), outlines: sha256.New()} }

func (l *listing) addEntry(e *entry, sum uint32) {
	l.Entries++
	l.DataBytes += e.size
	l.LargestFile = max(l.LargestFile, e.size)
	l.lines.Write([]byte(e.listingLine(sum)))
	l.outlines.Write([]byte(e.outlineLine()))
}

func (l *listing) sumEntries() Contents {
	c := l.Contents
	c.Listing, c.Tree = hex.EncodeToString(l.lines.Sum(nil)), hex.EncodeToString(l.outlines.Sum(nil))
	return c
}
