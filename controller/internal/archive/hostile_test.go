package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A crafted archive has valid checksums and malicious contents. An attacker with write access to the backup volume and
// to the BackupRecord could create it.
type crafted struct {
	headers []tar.Header
	content string
	// manifest modifies the valid manifest, and raw modifies the tar file before it is compressed.
	manifest func(*archiveManifest)
	raw      func([]byte) []byte
}

func dir(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o700, ModTime: time.Unix(1, 0)}
}

func file(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, ModTime: time.Unix(1, 0)}
}

func link(target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: "./l", Linkname: target, Mode: 0o777, ModTime: time.Unix(1, 0)}
}

func with(h tar.Header, change func(*tar.Header)) tar.Header {
	change(&h)
	return h
}

func (c crafted) restore(tb testing.TB) (*Restore, string) {
	tb.Helper()
	raw := c.tar(tb)
	if c.raw != nil {
		raw = c.raw(raw)
	}
	var packed bytes.Buffer
	w, err := newCompressor(context.Background(), &packed)
	must(tb, err)
	_, err = w.Write(raw)
	must(tb, err)
	must(tb, w.Close())
	return c.place(tb, packed.Bytes())
}

func (c crafted) tar(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range c.headers {
		if h.Format == tar.FormatUnknown {
			h.Format = tar.FormatPAX
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(c.content))
		}
		must(tb, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(c.content))
			must(tb, err)
		}
	}
	must(tb, w.Close())
	return b.Bytes()
}

// place writes an archive with its manifest. It returns a restore of the archive, and the parent directory of its
// volume.
func (c crafted) place(tb testing.TB, packed []byte) (*Restore, string) {
	tb.Helper()
	around := tb.TempDir()
	archive := filepath.Join(around, "backup", "data.tar.zst")
	must(tb, os.MkdirAll(filepath.Dir(archive), 0o700))
	must(tb, os.WriteFile(archive, packed, 0o600))
	sum := sha256.Sum256(packed)
	m := &archiveManifest{
		Format: formatVersion, Archive: filepath.Base(archive), Size: int64(len(packed)), SHA256: hex.EncodeToString(sum[:]),
		Contents: Contents{Entries: 100, DataBytes: 1 << 20, LargestFile: 1 << 20, Listing: strings.Repeat("0", 64),
			Tree: strings.Repeat("0", 64)},
	}
	if c.manifest != nil {
		c.manifest(m)
	}
	raw, err := m.encodeJSON()
	must(tb, err)
	must(tb, os.WriteFile(filepath.Join(filepath.Dir(archive), ManifestName), raw, 0o600))
	volume := filepath.Join(around, "volume")
	must(tb, os.Mkdir(volume, 0o700))
	return &Restore{
		Archive: archive, SHA256: hex.EncodeToString(sum[:]), Volume: volume, Directory: v1.DataDirectory,
		Source: "9.7.4", SourceClean: true, Target: targetVersion(tb, "9.7.4"), Output: &bytes.Buffer{},
	}, around
}

func TestHostile(t *testing.T) {
	top := dir("./")
	cases := map[string]crafted{
		"Up":           {headers: []tar.Header{top, file("../evil")}},
		"UpInside":     {headers: []tar.Header{top, dir("./a/"), file("./a/../../evil")}},
		"UpAndBack":    {headers: []tar.Header{top, file("./a/../evil")}},
		"Absolute":     {headers: []tar.Header{top, file("/tmp/evil")}},
		"LinkAbsolute": {headers: []tar.Header{top, link("/etc")}},
		"LinkUp":       {headers: []tar.Header{top, link("../..")}},
		"LinkThrough":  {headers: []tar.Header{top, link(".."), file("./l/evil")}},
		"LinkEmpty":    {headers: []tar.Header{top, link("")}},
		"LinkReplaced": {headers: []tar.Header{top, link("a"), file("./l")}},
		"HardLink": {headers: []tar.Header{top,
			{Typeflag: tar.TypeLink, Name: "./l", Linkname: "/etc/passwd", Mode: 0o600}}},
		"HardLinkInside": {headers: []tar.Header{top, file("./f"),
			{Typeflag: tar.TypeLink, Name: "./l", Linkname: "./f", Mode: 0o600}}},
		"LinkToItself": {headers: []tar.Header{top, link("l"), file("./l/evil")}},
		"Device": {headers: []tar.Header{top,
			{Typeflag: tar.TypeChar, Name: "./null", Mode: 0o600, Devmajor: 1, Devminor: 3}}},
		"BlockDevice": {headers: []tar.Header{top, {Typeflag: tar.TypeBlock, Name: "./sda", Mode: 0o600, Devmajor: 8}}},
		"Pipe":        {headers: []tar.Header{top, {Typeflag: tar.TypeFifo, Name: "./p", Mode: 0o600}}},
		"Global": {headers: []tar.Header{
			{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "evil"}}}},
		"SetUID": {headers: []tar.Header{top, with(file("./f"), func(h *tar.Header) { h.Mode = 0o4755 })}},
		"SetGID": {headers: []tar.Header{top, with(file("./f"), func(h *tar.Header) { h.Mode = 0o2755 })}},
		"Sticky": {headers: []tar.Header{top, with(dir("./f/"), func(h *tar.Header) { h.Mode = 0o1777 })}},
		"Capability": {headers: []tar.Header{top,
			with(file("./f"), func(h *tar.Header) {
				h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "x"}
			})}},
		"Trusted": {headers: []tar.Header{top,
			with(file("./f"), func(h *tar.Header) {
				h.PAXRecords = map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y"}
			})}},
		"Time": {headers: []tar.Header{top,
			with(file("./f"), func(h *tar.Header) { h.ModTime = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) })}},
		"Twice":       {headers: []tar.Header{top, file("./f"), file("./f")}},
		"FolderTwice": {headers: []tar.Header{top, dir("./f/"), dir("./f/")}},
		"TopTwice":    {headers: []tar.Header{top, top}},
		"NoFolder":    {headers: []tar.Header{top, file("./a/b")}},
		"NoTop":       {headers: []tar.Header{file("./f")}},
		"TopIsFile":   {headers: []tar.Header{file(".")}},
		"LongName":    {headers: []tar.Header{top, file("./" + strings.Repeat("n", 256))}},
		"LongPath":    {headers: []tar.Header{top, file("./" + strings.Repeat("n/", 1100) + "f")}},
		"HugeAttribute": {headers: []tar.Header{top, with(file("./f"), func(h *tar.Header) {
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", maxAttrBytes+1)}
		})}},
		"SetUIDFolder": {headers: []tar.Header{top, with(dir("./f/"), func(h *tar.Header) { h.Mode = 0o4755 })}},
		"Deep":         {headers: []tar.Header{top, file("./" + strings.Repeat("n/", 40) + "f")}},
		"LongLink":     {headers: []tar.Header{top, link(strings.Repeat("n", 2000))}},
		"Empty":        {},
		"TooMany":      {headers: []tar.Header{top, file("./f")}, manifest: func(m *archiveManifest) { m.Entries = 1 }},
		"TooLarge": {headers: []tar.Header{top, file("./f")}, content: "content",
			manifest: func(m *archiveManifest) { m.LargestFile = 6 }},
		"TooMuch": {headers: []tar.Header{top, file("./f"), file("./g")}, content: "content",
			manifest: func(m *archiveManifest) { m.DataBytes, m.LargestFile = 13, 7 }},
		"HiddenAfterEnd": {headers: []tar.Header{top}, raw: func(b []byte) []byte { return append(b, "more"...) }},
		"ListingLies": {headers: []tar.Header{top, file("./f")},
			manifest: func(m *archiveManifest) { m.Entries, m.DataBytes, m.LargestFile = 2, 0, 0 }},
		"CutInContent": {headers: []tar.Header{top, file("./f")}, content: "content",
			raw: func(b []byte) []byte { return b[:len(b)-1500] }},
		"NoEnd": {headers: []tar.Header{top, file("./f")}, content: "content",
			raw: func(b []byte) []byte { return b[:len(b)-1024] }},
		"Garbage": {headers: []tar.Header{top}, raw: func([]byte) []byte {
			return bytes.Repeat([]byte("garbage "), 1000)
		}},
		"Sparse":       {headers: []tar.Header{top, file("./f")}, content: "content", raw: sparse},
		"OtherArchive": {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Archive = "other.tar.zst" }},
		"PathArchive":  {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Archive = "../data.tar.zst" }},
		"WrongSize":    {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Size++ }},
		"WrongSum": {headers: []tar.Header{top}, manifest: func(m *archiveManifest) {
			m.SHA256 = strings.Repeat("0", 64)
		}},
		"EntriesLie":    {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Entries = 0 }},
		"EntriesAbsurd": {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Entries = maxEntries + 1 }},
		"TreeLies":      {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Tree = "../../../etc" }},
		"NegativeFile":  {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Size = -1 }},
		"SizesLie": {headers: []tar.Header{top}, manifest: func(m *archiveManifest) {
			m.LargestFile = m.DataBytes + 1
		}},
		"NegativeSize": {headers: []tar.Header{top}, manifest: func(m *archiveManifest) {
			m.DataBytes, m.LargestFile = -1, -2
		}},
		"Endless":  {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.DataBytes = 1 << 62 }},
		"NoFormat": {headers: []tar.Header{top}, manifest: func(m *archiveManifest) { m.Format = 0 }},
		"LargeManifest": {headers: []tar.Header{top}, manifest: func(m *archiveManifest) {
			m.Record = strings.Repeat("r", maxManifest)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, around := c.restore(t)
			before := snapshot(t, around)
			report, err := r.Run(t.Context())
			if agent.CodeOf(err) != agent.ExitDamaged || report.OK {
				t.Errorf("Run: %+v, %v", report, err)
			}
			if diff := cmp.Diff(untimed(before), untimed(snapshot(t, around))); diff != "" {
				t.Errorf("it changed something: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestHostileReasons checks the error for each hostile archive. Both the restore and the verification of a backup
// must refuse it before they process later entries.
func TestHostileReasons(t *testing.T) {
	top := dir("./")
	cases := map[string]struct {
		headers []tar.Header
		want    string
	}{
		"LinkThroughDot": {headers: []tar.Header{top, link("."),
			with(link("l/l/../.."), func(h *tar.Header) { h.Name = "./m" })}, want: `"./m" is a symbolic link to`},
		"FileThroughLink": {headers: []tar.Header{top, dir("./a/"), link("a"), file("./l/evil")},
			want: `"l/evil" before its directory`},
		"LinkThroughLink": {headers: []tar.Header{top, dir("./a/"), dir("./a/b/"),
			with(link("../.."), func(h *tar.Header) { h.Name = "./a/b/l" }),
			with(link("../../.."), func(h *tar.Header) {
				h.Name = "./a/b/l/m"
			})}, want: `"a/b/l/m" before its directory`},
		"FileInFile": {headers: []tar.Header{top, file("./f"), file("./f/evil")},
			want: `"f/evil" before its directory`},
		"FolderCameBefore": {headers: []tar.Header{top, dir("./a/"), dir("./b/"), file("./a/late")},
			want: `"a/late" before its directory`},
		"HugeName": {headers: []tar.Header{top, file("./" + strings.Repeat("n", 900<<10))},
			want: "is not a path in the data directory"},
		"HardLink": {headers: []tar.Header{top,
			{Typeflag: tar.TypeLink, Name: "./l", Linkname: "../../target", Mode: 0o600}}, want: "which is not valid in a backup"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, _ := crafted{headers: tc.headers}.restore(t)
			if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Restore must say %q: %v", tc.want, err)
			}
			m, err := readManifest(r.Archive)
			must(t, err)
			if err := verifyArchive(t.Context(), r.Archive, m.writtenArchive(),
				io.Discard); agent.CodeOf(err) != agent.ExitDamaged || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Backup must say %q: %v", tc.want, err)
			}
		})
	}
}

func TestStaysInside(t *testing.T) {
	cases := map[string]struct {
		name, link string
		want       bool
	}{
		"Beside":       {name: "l", link: "f", want: true},
		"Below":        {name: "l", link: "a/b/f", want: true},
		"Itself":       {name: "l", link: ".", want: true},
		"Slash":        {name: "l", link: "a//b/", want: true},
		"UpAndDown":    {name: "a/b/l", link: "../../c/f", want: true},
		"UpToTop":      {name: "a/l", link: "..", want: true},
		"DotsInName":   {name: "l", link: "..f/f..", want: true},
		"Up":           {name: "l", link: ".."},
		"UpTooFar":     {name: "a/l", link: "../../f"},
		"UpLater":      {name: "l", link: "a/../f"},
		"UpAfterDot":   {name: "a/l", link: "./.."},
		"UpAfterSlash": {name: "a/b/l", link: "..//.."},
		"Absolute":     {name: "l", link: "/f"},
		"Nothing":      {name: "l", link: ""},
		"Zero":         {name: "l", link: "a\x00b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := staysInside(tc.name, tc.link); got != tc.want {
				t.Errorf("staysInside(%q, %q) = %t", tc.name, tc.link, got)
			}
		})
	}
}

// untimed returns a snapshot without the times of directories. Creating and removing a file changes the time of its
// directory.
func untimed(snapshot string) string {
	lines := strings.Split(snapshot, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "drw") {
			lines[i] = strings.Join(append(strings.Fields(line)[:4:4], strings.Fields(line)[5:]...), " ")
		}
	}
	return strings.Join(lines, "\n")
}

// sparse returns an archive with a sparse file, which GNU tar would expand to 1 TiB of zeros.
func sparse([]byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700, Format: tar.FormatPAX})
	records := "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n31 GNU.sparse.realsize=1099511\n27 GNU.sparse.name=./large\n"
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: int64(len(records)), Mode: 0o600,
		Format: tar.FormatUSTAR})
	_, _ = w.Write([]byte(records))
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./f", Size: 512, Mode: 0o600, Format: tar.FormatUSTAR})
	_, _ = w.Write([]byte("1\n0\n0\n" + strings.Repeat("\x00", 506)))
	_ = w.Close()
	out := b.Bytes()
	offset := bytes.Index(out, []byte("x\x00"))
	header := out[offset : offset+512]
	header[156] = 'x'
	copy(header[148:], "        ")
	sum := 0
	for _, c := range header {
		sum += int(c)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	return out
}

func TestNewerFormat(t *testing.T) {
	r, _ := crafted{headers: []tar.Header{dir("./")}, manifest: func(m *archiveManifest) {
		m.Format = formatVersion + 1
	}}.restore(t)
	if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitVersion {
		t.Errorf("Run: %v", err)
	}
}

// TestBackupPVLinks checks that a restore refuses an archive or a manifest that is a symbolic link.
func TestBackupPVLinks(t *testing.T) {
	r, around := crafted{headers: []tar.Header{dir("./")}}.restore(t)
	manifest := filepath.Join(filepath.Dir(r.Archive), ManifestName)
	for _, path := range []string{r.Archive, manifest} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			moved := filepath.Join(around, "moved")
			must(t, os.Rename(path, moved))
			must(t, os.Symlink(moved, path))
			if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged {
				t.Errorf("Run: %v", err)
			}
			must(t, os.Rename(moved, path))
		})
	}
}

// TestDamage changes and truncates a real archive at many positions.
func TestDamage(t *testing.T) {
	p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
	p.put(t, "ibdata1", bytes.Repeat([]byte("some pages "), 3000))
	p.put(t, "shop/orders.ibd", []byte("rows"))
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	whole, err := os.ReadFile(p.archive())
	must(t, err)
	r := p.newRestore(t)
	try := func(subject string, offset int, packed []byte) {
		must(t, os.WriteFile(p.archive(), packed, 0o600))
		if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged {
			t.Errorf("%s at %d of %d: %v", subject, offset, len(whole), err)
		}
		if got := names(t, r.Volume); len(got) > 0 {
			t.Fatalf("%s at %d: it left %q", subject, offset, got)
		}
	}
	for offset := range whole {
		packed := bytes.Clone(whole)
		packed[offset] ^= 1 << (offset % 8)
		try("a flipped bit", offset, packed)
		if offset%7 == 0 {
			try("a cut", offset, whole[:offset])
		}
	}
	try("a byte too many", len(whole), append(bytes.Clone(whole), 0))
	must(t, os.WriteFile(p.archive(), whole, 0o600))
	_, err = r.Run(t.Context())
	must(t, err)
}

// TestTooManyDirectories checks that the verification of a backup refuses an archive with too many directories for a
// restore. Verification and restore must have the same limit.
func TestTooManyDirectories(t *testing.T) {
	dir := &entry{name: "shop", mode: os.ModeDir | 0o700}
	d := &drain{dirs: maxDirs - 1}
	if _, err := d.beginEntry(dir); err != nil {
		t.Errorf("the last one that can be unpacked: %v", err)
	}
	_, proof := d.beginEntry(dir)
	u := &unpacker{dirs: make([]*entry, maxDirs)}
	_, restored := u.beginEntry(dir)
	if proof == nil || restored == nil || proof.Error() != restored.Error() {
		t.Errorf("the proof says %v, and the restore %v", proof, restored)
	}
}
