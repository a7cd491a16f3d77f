package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// A place contains the paths of two directories that simulate the data volume and the backup volume of an instance.
type place struct {
	data, backup string
}

// newPlace returns a place whose data directory contains an entry of each kind, such as files, links and a socket.
func newPlace(tb testing.TB) place {
	tb.Helper()
	root := tb.TempDir()
	p := place{data: filepath.Join(root, "volume"), backup: filepath.Join(root, "backup")}
	noise := rand.NewChaCha8([32]byte{1})
	files := map[string]int{
		"ibdata1": 3 << 20, "mysql.ibd": 1<<20 + 1, "undo_001": 512, "auto.cnf": 56, "binlog.000001": 511,
		"#ib_16384_0.dblwr": 4096, "#innodb_redo/#ib_redo5": 2048, "#innodb_redo/#ib_redo6_tmp": 2048,
		"#innodb_temp/temp_1.ibt": 99, "ibtmp1": 99, "host.pid": 3, "mysql.sock.lock": 3,
		"shop/orders.ibd": 5<<20 + 17, "shop/empty.ibd": 0, "shop/with space \u00fc\U0001F600\n.ibd": 10,
		"shop/" + strings.Repeat("n", 250) + ".ibd": 7,
	}
	for name, size := range files {
		content := make([]byte, size)
		_, _ = noise.Read(content[:size/2]) // The rest stays zero, as in tablespaces.
		p.put(tb, name, content)
	}
	must(tb, os.Mkdir(filepath.Join(p.data, v1.DataDirectory, "void"), 0o700))
	must(tb, os.Symlink("shop/orders.ibd", filepath.Join(p.data, v1.DataDirectory, "inside")))
	must(tb, os.Symlink("/run/mysqld/mysqld.sock", filepath.Join(p.data, v1.DataDirectory, "mysql.sock")))
	must(tb, os.Mkdir(filepath.Join(p.data, datavolume.LostAndFound), 0o700))
	p.age(tb)
	return p
}

func (p place) put(tb testing.TB, name string, content []byte) {
	tb.Helper()
	path := filepath.Join(p.data, v1.DataDirectory, name)
	must(tb, os.MkdirAll(filepath.Dir(path), 0o750))
	must(tb, os.WriteFile(path, content, 0o640))
}

// age sets old times on all files, so that the test fails if a restore does not restore the times.
func (p place) age(tb testing.TB) {
	tb.Helper()
	modified := time.Date(2024, 2, 29, 12, 30, 45, 123456789, time.UTC)
	must(tb, filepath.WalkDir(p.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSymlink {
			return err
		}
		return os.Chtimes(path, modified, modified) //nolint:gosec // It is a directory of the test.
	}))
}

func (p place) archive() string { return filepath.Join(p.backup, "default", "one", "data.tar.zst") }

func (p place) newBackup() *Backup {
	return &Backup{
		Identity: Identity{Record: "one",
			Instance: v1.BackedUpInstance{Kind: "MySQL", Namespace: "default", Name: "shop", XR: "uid-1"}},
		Volume: p.data, Directory: v1.DataDirectory, Archive: p.archive(),
		Image: "mysql:9.7", Version: "9.7.4-2", Output: io.Discard,
	}
}

// newRestore returns a restore of the archive to a new volume.
func (p place) newRestore(tb testing.TB) *Restore {
	tb.Helper()
	m, err := readManifest(p.archive())
	must(tb, err)
	return &Restore{
		Archive: p.archive(), SHA256: m.SHA256, Volume: tb.TempDir(), Directory: v1.DataDirectory,
		Source: "9.7.4-2", SourceClean: true, Target: targetVersion(tb, "9.7.4-2"), Output: io.Discard,
	}
}

func targetVersion(tb testing.TB, version string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "version.json")
	must(tb, os.WriteFile(path, fmt.Appendf(nil, `{"version":%q,"flavour":"mysql"}`, version), 0o600))
	return path
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// socket creates a socket in the data directory. The kernel limits the length of a socket's path, so the socket is
// created in a short directory and moved.
func (p place) socket(tb testing.TB, name string) {
	tb.Helper()
	short, err := os.MkdirTemp("", "s") //nolint:usetesting // A socket's path is at most 107 bytes.
	must(tb, err)
	defer os.RemoveAll(short) //nolint:errcheck // The directory is empty.
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "unix", filepath.Join(short, "s"))
	must(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	must(tb, os.Rename(filepath.Join(short, "s"), filepath.Join(p.data, v1.DataDirectory, name)))
}

// snapshot describes the tree of a data directory, with one line per entry, so that a copy can be compared with it.
// It omits the files that copies omit.
func snapshot(tb testing.TB, dir string) string {
	tb.Helper()
	root, err := os.OpenRoot(dir)
	must(tb, err)
	defer root.Close() //nolint:errcheck // Nothing was written.
	var b bytes.Buffer
	must(tb, tree{Root: root}.walkEntries(tb.Context(), func(e *entry) error {
		sum := sha256.New()
		if e.mode.IsRegular() {
			raw, err := root.ReadFile(e.name)
			if err != nil {
				return err
			}
			sum.Write(raw)
		}
		if e.isSymlink() {
			e.modified = time.Time{}
		}
		fmt.Fprintf(&b, "%s%s\n", e.listingLine(0), hex.EncodeToString(sum.Sum(nil)))
		return nil
	}))
	return b.String()
}

// restorable returns the snapshot without the server's identity, which a restore omits.
func restorable(tb testing.TB, dir string) string {
	tb.Helper()
	lines, out := strings.SplitAfter(snapshot(tb, dir), "\n"), strings.Builder{}
	for n := 0; n+1 < len(lines); n += 2 { // Each entry has two lines, the second with its checksum.
		if !strings.Contains(lines[n], ` "`+serverID+`" `) {
			out.WriteString(lines[n] + lines[n+1])
		}
	}
	return out.String()
}

// names returns the names of the entries in a directory.
func names(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
