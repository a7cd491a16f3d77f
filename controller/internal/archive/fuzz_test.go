package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// FuzzManifest changes a manifest at random and checks that no invalid manifest is accepted.
func FuzzManifest(f *testing.F) {
	good := archiveManifest{
		Format: 1, Archive: "data.tar.zst", SHA256: strings.Repeat("0", 64),
		Contents: Contents{Entries: 1, Listing: strings.Repeat("0", 64), Tree: strings.Repeat("0", 64)},
	}
	raw, err := good.encodeJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err != nil {
			return
		}
		if filepath.Base(m.Archive) != m.Archive || m.Size < 0 || m.DataBytes < 0 || m.DataBytes > maxData ||
			m.LargestFile > m.DataBytes || m.Entries > maxEntries {
			t.Errorf("taken: %+v", m)
		}
	})
}

// FuzzFrames passes any input to the reader of zstd frames.
func FuzzFrames(f *testing.F) {
	f.Add(packed(f, bytes.Repeat([]byte("row "), 100)))
	f.Fuzz(func(t *testing.T, raw []byte) { unpackAny(t, raw) })
}

// FuzzArchive passes any input to the reader of tar files.
func FuzzArchive(f *testing.F) {
	f.Add(crafted{headers: []tar.Header{dir("./"), dir("./shop/"), file("./shop/orders.ibd"), link("shop")},
		content: "rows"}.tar(f))
	f.Add(sparse(nil))
	f.Fuzz(func(t *testing.T, raw []byte) { unpackAny(t, packed(t, raw)) })
}

// FuzzUnpack restores any archive with any manifest. The size and the checksum of the file are corrected in the
// manifest. A successful restore must have unpacked everything. A failed one must leave no files, neither on the
// volume nor elsewhere.
func FuzzUnpack(f *testing.F) {
	p := place{data: filepath.Join(f.TempDir(), "v"), backup: f.TempDir()}
	p.put(f, "shop/orders.ibd", []byte("rows"))
	_, err := p.newBackup().Run(f.Context())
	must(f, err)
	manifest, err := os.ReadFile(filepath.Join(filepath.Dir(p.archive()), ManifestName))
	must(f, err)
	f.Add(manifest, unzipped(f, p.archive()))
	f.Add(manifest, crafted{headers: []tar.Header{dir("./"), link("../.."), file("./l/evil")}, content: "rows"}.tar(f))
	f.Fuzz(func(t *testing.T, manifest, raw []byte) {
		c := crafted{manifest: func(m *archiveManifest) {
			archive, size, sum := m.Archive, m.Size, m.SHA256
			if json.Unmarshal(manifest, m) == nil {
				m.Archive, m.Size, m.SHA256 = archive, size, sum
			}
		}}
		r, around := c.place(t, packed(t, raw))
		report, err := r.Run(t.Context())
		if report.OK != (err == nil) || agent.CodeOf(err) == agent.ExitFailed {
			t.Errorf("Run: %+v, %v", report, err)
		}
		if got := names(t, around); !slices.Equal(got, []string{"backup", "volume"}) {
			t.Errorf("something came to be outside: %q", got)
		}
		if got := names(t, r.Volume); err != nil && len(got) > 0 || err == nil &&
			!slices.Equal(got, []string{datavolume.MarkerName, v1.DataDirectory}) {
			t.Errorf("after %v the volume has %q", err, got)
		}
	})
}

// unzipped returns the decompressed content of an archive.
func unzipped(tb testing.TB, archive string) []byte {
	tb.Helper()
	in, err := os.Open(archive)
	must(tb, err)
	defer in.Close() //nolint:errcheck // Nothing was written.
	d, err := newDecompressor(tb.Context(), in)
	must(tb, err)
	defer d.Close()
	raw, err := io.ReadAll(d)
	must(tb, err)
	return raw
}

func packed(tb testing.TB, raw []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := newCompressor(context.Background(), &b)
	must(tb, err)
	_, err = w.Write(raw)
	must(tb, err)
	must(tb, w.Close())
	return b.Bytes()
}

// unpackAny unpacks an archive with valid checksums to a directory. It fails the test if files appear outside, or if
// more data is unpacked than allowed.
func unpackAny(t *testing.T, raw []byte) {
	t.Helper()
	around := t.TempDir()
	archive, inside := filepath.Join(around, "archive"), filepath.Join(around, "inside")
	must(t, os.WriteFile(archive, raw, 0o600))
	must(t, os.Mkdir(inside, 0o700))
	root, err := os.OpenRoot(inside)
	must(t, err)
	defer root.Close() //nolint:errcheck // The directory is removed.
	in, err := openRegular(archive)
	must(t, err)
	defer in.Close() //nolint:errcheck // Nothing was written.
	sum := sha256.Sum256(raw)
	want := written{size: int64(len(raw)), sum: hex.EncodeToString(sum[:]),
		Contents: Contents{Entries: 20, DataBytes: 1 << 16, LargestFile: 1 << 15}}
	u := newUnpacker(root)
	err = readArchive(t.Context(), in, want, u, nil)
	u.waitForWriters()
	if err == nil {
		t.Error("an archive without a listing was taken")
	}
	if got := names(t, around); len(got) != 2 {
		t.Errorf("something came to be outside: %q", got)
	}
	if n := size(t, inside); n > 1<<16 {
		t.Errorf("%d bytes were unpacked", n)
	}
}

func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	must(t, filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil // A directory that became unreadable because of the archive is skipped.
	}))
	return n
}
