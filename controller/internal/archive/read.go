package archive

import (
	"archive/tar"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// A target receives the entries of an archive. To verify an archive, the backup uses a target that discards
// everything.
type target interface {
	// beginEntry starts an entry. The returned writer takes the content of a file, and is nil for other entries.
	beginEntry(e *entry) (io.WriteCloser, error)
}

// readArchive reads the whole archive, passes its entries to the target, and compares contents, size and checksum
// with the expected values. It never passes more data to the target than expected.
func readArchive(ctx context.Context, archive io.Reader, want written, t target, m *agent.Meter) error {
	if f, ok := archive.(*os.File); ok {
		readSoon(f)
	}
	d, err := newDecompressor(ctx, archive)
	if err != nil {
		return err
	}
	defer d.Close()
	l := newListing()
	r := &reader{decompressor: d, target: t, listing: l, want: want.Contents, meter: m}
	if err := r.readEntries(); err != nil {
		return err
	}
	// tar would ignore data after the end of the tar file.
	if _, err := d.readPart(1); !errors.Is(err, io.EOF) {
		if err == nil {
			err = exit.Damaged("the archive contains data after its end")
		}
		return err
	}
	switch sum := hex.EncodeToString(d.sum.Sum(nil)); {
	case sum != want.sum:
		return exit.Damaged("the archive's SHA-256 checksum is %s, but should be %s", sum, want.sum)
	case d.size != want.size:
		return exit.Damaged("the archive is %d bytes long, but should be %d bytes long", d.size, want.size)
	case l.sumEntries() != want.Contents:
		return exit.Damaged("the archive's content does not match its listing")
	}
	return nil
}

type reader struct {
	*decompressor

	target  target
	listing *listing
	want    Contents
	meter   *agent.Meter
	// dirs are the directories that contain the current entry, the innermost last.
	dirs []string
}

func (r *reader) readEntries() error {
	for {
		// A tar.Reader may read ahead. It is used only to parse a header, and a new one is created for each header.
		// The content is read directly from the decompressed chunks, which avoids a copy.
		h, err := tar.NewReader(r).Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return readError(err)
		}
		e, err := fromHeader(h)
		if err != nil {
			return err
		}
		if err := r.checkBounds(e); err != nil {
			return err
		}
		if err := r.enterDir(e); err != nil {
			return err
		}
		sum, err := r.readEntry(e)
		if err != nil {
			return err
		}
		r.listing.addEntry(e, sum)
	}
}

// checkBounds returns an error if the archive contains more data than its manifest states. A small archive can
// unpack to any size, but the volume has space only for the stated size.
func (r *reader) checkBounds(e *entry) error {
	contents := &r.listing.Contents
	switch {
	case contents.Entries == 0 && e.name != ".":
		return exit.Damaged("the archive does not begin with the data directory")
	case contents.Entries+1 > r.want.Entries:
		return exit.Damaged("the archive has more entries than the %d in its manifest", r.want.Entries)
	case e.size > r.want.LargestFile, contents.DataBytes+e.size > r.want.DataBytes:
		return exit.Damaged("%.100q in the archive is larger than its manifest allows", e.name)
	}
	return nil
}

// enterDir checks that the entry belongs to the directory that was unpacked last, or to its parents. Archives
// contain each directory before its contents. The check ensures that nothing is unpacked through a symbolic link.
func (r *reader) enterDir(e *entry) error {
	for e.name != "." && r.dirs[len(r.dirs)-1] != path.Dir(e.name) {
		r.dirs = r.dirs[:len(r.dirs)-1]
		if len(r.dirs) == 0 {
			return exit.Damaged("the archive contains %.100q before its directory", e.name)
		}
	}
	if e.mode.IsDir() {
		r.dirs = append(r.dirs, e.name)
	}
	return nil
}

func (r *reader) readEntry(e *entry) (uint32, error) {
	w, err := r.target.beginEntry(e)
	if err != nil {
		return 0, fmt.Errorf("cannot unpack %.100q: %w", e.name, err)
	}
	if w == nil {
		return 0, nil // A directory or a link has no content.
	}
	sum, err := r.readContent(e, w)
	if cerr := w.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("cannot unpack %.100q: %w", e.name, cerr)
	}
	return sum, err
}

func (r *reader) readContent(e *entry, w io.Writer) (uint32, error) {
	sum := uint32(0)
	for left := e.size; left > 0; {
		part, err := r.readPart(left)
		if err != nil {
			return 0, readError(err)
		}
		sum = crc32.Update(sum, castagnoli, part)
		if _, err := w.Write(part); err != nil {
			return 0, fmt.Errorf("cannot unpack %.100q: %w", e.name, err)
		}
		r.meter.Add(int64(len(part)))
		left -= int64(len(part))
	}
	return sum, r.skipPadding(e.size)
}

// skipPadding skips the padding up to the next tar block.
func (r *reader) skipPadding(size int64) error {
	for left := (tarBlock - size%tarBlock) % tarBlock; left > 0; {
		part, err := r.readPart(left)
		if err != nil {
			return readError(err)
		}
		left -= int64(len(part))
	}
	return nil
}

// readError marks errors of the tar format as damage. Other errors come from the file or the frames, and have their
// own exit code.
func readError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) {
		return exit.Damaged("cannot read the archive: %w", err)
	}
	return err
}

// A drain reads everything and stores nothing. It refuses the same entries as an unpacker, because an archive that
// cannot be unpacked must not pass the verification.
type drain struct{ dirs int }

func (*drain) Write(p []byte) (int, error) { return len(p), nil }

// Close does nothing, because a drain stores nothing.
func (*drain) Close() error { return nil }

func (d *drain) beginEntry(e *entry) (io.WriteCloser, error) {
	switch {
	case e.mode.IsRegular():
		return d, nil
	case e.mode.IsDir():
		if d.dirs++; d.dirs > maxDirs {
			return nil, tooManyDirs()
		}
	}
	return nil, nil //nolint:nilnil // Nothing to write, and no error.
}
