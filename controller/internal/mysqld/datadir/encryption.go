package datadir

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// These constants describe the first page of each tablespace (storage/innobase/include/fil0types.h, fsp0types.h).
const (
	// pageType is the offset of the type of a page. headerPage is the type of the first page.
	pageType   = 24
	headerPage = 8
	// flagsEncrypted is the bit of an encrypted tablespace in MySQL's flags.
	flagsEncrypted = 1 << 13
)

// encryptedBinlog is the beginning of an encrypted binary log or relay log (sql/rpl_log_encryption.cc). Other logs begin
// with another first byte.
const encryptedBinlog = "\xfdbin"

// These constants describe the third block of a redo log file (storage/innobase/include/log0constants.h, os0enc.h).
const (
	// logKey is the offset of the key of an encrypted redo log in the header of a file. The key begins with logKeyMagic
	// and the number of its format.
	logKey      = 2*logBlock + 48
	logKeyMagic = "lC"
)

// EncryptedRedo returns the path of the first redo log file whose header contains a key, or "" if there is none. The
// header keeps the key after encryption was disabled. A server needs the key if the log is still encrypted, and for
// recovery. After a clean shutdown with encryption disabled, it starts without the key.
func EncryptedRedo(dir *os.Root) (string, error) {
	names, err := listDir(dir, redoDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "#ib_redo") || strings.HasSuffix(name, "_tmp") {
			continue
		}
		raw, err := readStart(dir, path.Join(redoDir, name), logKey+len(logKeyMagic))
		if err != nil {
			return "", err
		}
		if len(raw) > logKey && string(raw[logKey:]) == logKeyMagic {
			return path.Join(redoDir, name), nil
		}
	}
	return "", err
}

// Encrypted returns the path of the first encrypted file in a data directory of MySQL, or "" if there is none. It
// examines tablespaces, and binary logs with their usual names. It does not detect the encryption of MariaDB.
func Encrypted(dir *os.Root) (string, error) {
	found := errors.New("found")
	name := ""
	err := walkFiles(dir, ".", 0, func(file string) error {
		encrypted, err := isEncrypted(dir, file)
		if err == nil && encrypted {
			name, err = file, found
		}
		return err
	})
	if errors.Is(err, found) {
		return name, nil
	}
	return "", err
}

// maxFileDepth is the depth of the files of a table: the directory of a schema contains them.
const maxFileDepth = 1

func walkFiles(dir *os.Root, directory string, depth int, visit func(string) error) error {
	f, err := dir.Open(directory)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name := path.Join(directory, e.Name())
		switch {
		case name == lostAndFound || Skip(name, e.Type()):
			continue
		case e.Type().IsRegular():
			err = visit(name)
		case e.IsDir() && depth < maxFileDepth:
			err = walkFiles(dir, name, depth+1, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lostAndFound belongs to the file system. Only root can read it.
const lostAndFound = "lost+found"

func isEncrypted(dir *os.Root, name string) (bool, error) {
	switch {
	case isTablespace(name):
		raw, err := readStart(dir, name, spaceFlags+4)
		if err != nil || len(raw) < spaceFlags+4 || binary.BigEndian.Uint16(raw[pageType:]) != headerPage {
			return false, err
		}
		flags := binary.BigEndian.Uint32(raw[spaceFlags:])
		return flags&flagsFullCRC32 == 0 && flags&flagsEncrypted != 0, nil
	case isNumbered(name):
		raw, err := readStart(dir, name, len(encryptedBinlog))
		return string(raw) == encryptedBinlog, err
	}
	return false, nil
}

func isTablespace(name string) bool {
	switch path.Ext(name) {
	case ".ibd", ".ibu":
		return true
	}
	return path.Dir(name) == "." && (strings.HasPrefix(name, "ibdata") || strings.HasPrefix(name, "undo"))
}

// isNumbered reports whether a name is like binlog.000001.
func isNumbered(name string) bool {
	number := strings.TrimPrefix(path.Ext(name), ".")
	return path.Dir(name) == "." && len(number) >= 6 && strings.Trim(number, "0123456789") == ""
}

// readStart returns up to n bytes from the beginning of a file.
func readStart(dir *os.Root, name string, n int) ([]byte, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	raw := make([]byte, n)
	read, err := f.ReadAt(raw, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return raw[:read], err
}
