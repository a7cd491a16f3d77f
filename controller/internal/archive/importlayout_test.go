package archive

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// A layout describes the volume of another server. The data directory at the given path contains everything that
// place.foreign creates.
type layout struct {
	// directory is the path of the data directory on the volume, or "." for the root.
	directory string
	// files are additional files on the volume: the content by the path. dirs are additional directories.
	files map[string]string
	dirs  []string
	// owner is the user and the group of all entries.
	owner int
}

// layouts are the volumes that the charts, the operators and the images create.
var layouts = map[string]layout{
	"Bitnami": {directory: "data", dirs: []string{"lost+found"},
		files: map[string]string{"data/.user_scripts_initialized": ""}, owner: 1001},
	"BitnamiSubPath":     {directory: "mysql/data", owner: 1001},
	"Official":           {directory: ".", owner: 999},
	"OfficialLostFound":  {directory: ".", dirs: []string{"lost+found"}, owner: 999},
	"OfficialSubPath":    {directory: "mysql", dirs: []string{"lost+found"}, owner: 999},
	"OracleLinux":        {directory: ".", owner: 27},
	"OriginalHostPath":   {directory: ".", owner: 999},
	"Moco":               {directory: "data", dirs: []string{"lost+found"}, owner: 10000},
	"PerconaServer":      {directory: ".", files: map[string]string{"mysql-state-monitor.log": "", "pre-stop.log": "x"}, owner: 1001},
	"PerconaClusterLast": {directory: ".", files: perconaCluster("12", "1"), owner: 1001},
}

// perconaCluster returns the files of Percona's operator for XtraDB Cluster that MySQL does not have.
func perconaCluster(seqno, last string) map[string]string {
	return map[string]string{
		"grastate.dat": "# GALERA saved state\nversion: 2.1\nuuid:    8b6b2e92-320c-11e7-9498-53f394e3a32a\nseqno:   " + seqno +
			"\nsafe_to_bootstrap: " + last + "\n",
		"galera.cache": strings.Repeat("x", 1000), "version_info": "mysqld  Ver 9.7.4-2.1 for Linux on x86_64 (Percona)",
		"xtrabackup_checkpoints": "backup_type = full-prepared\nfrom_lsn = 0\n", "pxc-entrypoint.sh": "#!/bin/bash\n",
		"auth_plugin": "caching_sha2_password\n", "sst.log": "",
	}
}

// make creates the volume and returns its path.
func (l layout) make(t *testing.T) string {
	t.Helper()
	p := newPlace(t)
	volume := filepath.Join(sharedDir(t), "volume")
	data := filepath.Join(volume, l.directory)
	must(t, os.MkdirAll(filepath.Dir(data), 0o755))
	must(t, os.CopyFS(data, os.DirFS(withoutLinks(t, p.foreign(t)))))
	for _, name := range l.dirs {
		must(t, os.MkdirAll(filepath.Join(volume, name), 0o700))
	}
	for name, text := range l.files {
		must(t, os.WriteFile(filepath.Join(volume, name), []byte(text), 0o640))
	}
	must(t, filepath.WalkDir(volume, func(path string, d fs.DirEntry, err error) error {
		if err != nil || os.Geteuid() != 0 {
			return err
		}
		mode := fs.FileMode(0o640)
		if d.IsDir() {
			mode = 0o750
		}
		if d.Name() == datavolume.LostAndFound { // Only root can read it.
			return nil
		}
		must(t, os.Lchown(path, l.owner, l.owner)) //nolint:gosec // A directory of the test.
		if d.Type()&(fs.ModeSymlink|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			return nil
		}
		return os.Chmod(path, mode) //nolint:gosec // A directory of the test.
	}))
	return volume
}

// withoutLinks removes the link to the socket of the server, which os.CopyFS would follow.
func withoutLinks(t *testing.T, dir string) string {
	t.Helper()
	must(t, os.Remove(filepath.Join(dir, "mysql.sock")))
	return dir
}

// describe returns a line with the owner, the mode, the size and the name of each entry of a volume.
func describe(t *testing.T, volume string) string {
	t.Helper()
	var out strings.Builder
	must(t, filepath.WalkDir(volume, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		must(t, err)
		stat := info.Sys().(*syscall.Stat_t)
		_, err = fmt.Fprintln(&out, path, info.Mode(), info.Size(), info.ModTime(), stat.Uid, stat.Gid, stat.Ino)
		return err
	}))
	return out.String()
}

// importAsJob imports a directory of a volume in a process with the user and the groups of a Job.
func importAsJob(t *testing.T, volume, within string) (*Import, int, string) {
	t.Helper()
	i := newImport(t, volume)
	i.Within = within
	r := role{Import: i, AsJob: os.Geteuid() == 0}
	if r.AsJob {
		shared := sharedDir(t)
		i.Volume = filepath.Join(shared, "target")
		must(t, os.Mkdir(i.Volume, 0o750))
		must(t, os.Chown(i.Volume, int(agent.ServerUID), int(agent.ServerUID)))
		raw, err := os.ReadFile(i.Target)
		must(t, err)
		i.Target = filepath.Join(shared, "version.json")
		must(t, os.WriteFile(i.Target, raw, 0o644))
	}
	code, out := r.run(t)
	return i, code, out
}

// TestImportLayouts imports each layout as the Job would, without changing the source. The files must belong to the
// server of the product, and files of the old server must be missing.
func TestImportLayouts(t *testing.T) {
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			volume := l.make(t)
			before := describe(t, volume)
			within := strings.TrimPrefix(l.directory, ".")
			i, code, out := importAsJob(t, volume, within)
			if code != 0 {
				t.Fatalf("it ended with %d: %s", code, out)
			}
			target := filepath.Join(i.Volume, v1.DataDirectory)
			if diff := cmp.Diff(imported(t, filepath.Join(volume, l.directory)), imported(t, target)); diff != "" {
				t.Errorf("imported: -want, +got:\n%s", diff)
			}
			if diff := cmp.Diff(before, describe(t, volume)); diff != "" {
				t.Errorf("the source: -want, +got:\n%s", diff)
			}
			got := names(t, target)
			for _, own := range append(slices.Clone(notImported), "host.pid") {
				if slices.Contains(got, own) {
					t.Errorf("%s belongs to the old server, and was imported", own)
				}
			}
			if os.Geteuid() != 0 {
				return
			}
			must(t, filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
				must(t, err)
				info, err := d.Info()
				must(t, err)
				if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 999 || stat.Gid != 999 {
					t.Errorf("%s belongs to %d:%d", path, stat.Uid, stat.Gid)
				}
				return nil
			}))
		})
	}
}

// TestImportLayoutNamed checks that an import without the field directory names the data directory of a volume, and
// that this directory can be imported.
func TestImportLayoutNamed(t *testing.T) {
	for name, l := range layouts {
		if l.directory == "." {
			continue
		}
		t.Run(name, func(t *testing.T) {
			volume := l.make(t)
			_, code, out := importAsJob(t, volume, "")
			if want := "spec.restore.import.volume.directory: " + l.directory; code != agent.ExitSource || !strings.Contains(out, want) {
				t.Errorf("want %d and %q, got %d: %s", agent.ExitSource, want, code, out)
			}
		})
	}
}

// TestImportHostileVolume checks that an import refuses a volume with dangerous contents, such as links, and writes
// nothing.
func TestImportHostileVolume(t *testing.T) {
	bitnami := layouts["Bitnami"]
	link := func(target string) func(*testing.T, string) {
		return func(t *testing.T, volume string) {
			t.Helper()
			must(t, os.Symlink(target, filepath.Join(volume, "link")))
		}
	}
	put := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, volume string) {
			t.Helper()
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(volume, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(volume, name), []byte(text), 0o644))
		}
	}
	pipe := func(name string) func(*testing.T, string) {
		return func(t *testing.T, volume string) {
			t.Helper()
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(volume, name)), 0o755))
			must(t, syscall.Mkfifo(filepath.Join(volume, name), 0o644))
		}
	}
	second := func(directory string) func(*testing.T, string) {
		return func(t *testing.T, volume string) {
			t.Helper()
			put(directory+"/ibdata1", "")(t, volume)
			put(directory+"/mysql.ibd", "")(t, volume)
		}
	}
	for name, tc := range map[string]struct {
		layout layout
		change func(*testing.T, string)
		within string
		code   int
		says   string
	}{
		"LinkOut":    {bitnami, link("/"), "link", agent.ExitSource, `"link" on the volume to import is a symbolic link`},
		"LinkAbove":  {bitnami, link(".."), "link/volume/data", agent.ExitSource, `"link" on the volume to import is a symbolic link`},
		"LinkIn":     {bitnami, link("data"), "link", agent.ExitSource, "is a symbolic link"},
		"LinkedRoot": {bitnami, link("data"), "", agent.ExitSource, "spec.restore.import.volume.directory: data"},
		"File":       {bitnami, put("file", ""), "file", agent.ExitSource, `"file" on the volume to import is not a directory`},
		"Fifo":       {bitnami, pipe("pipe"), "pipe", agent.ExitSource, "is not a directory"},
		"FifoInside": {bitnami, pipe("data/shop/pipe"), "data", agent.ExitSource, "which no server creates"},
		"FifoState":  {bitnami, pipe("data/grastate.dat"), "data", agent.ExitSource, "seqno missing"},
		"FifoSpace":  {bitnami, pipe("old/ibdata1"), "old", agent.ExitSource, "is not a data directory"},
		"Socket": {bitnami, func(t *testing.T, volume string) {
			t.Helper()
			place{data: volume}.socket(t, "mysqlx.sock")
		}, "data", 0, ""},
		"OptionFile": {bitnami, put("data/my.cnf", "[mysqld]\nbasedir=/opt/bitnami/mysql\n"), "data", 0, ""},
		"Missing":    {bitnami, nil, "mysql", agent.ExitMissing, `has no directory "mysql"`},
		"Above":      {bitnami, nil, "..", agent.ExitFailed, "escapes"},
		"Absolute":   {bitnami, nil, "/etc", agent.ExitMissing, "has no directory"},
		"Two":        {bitnami, second("old/data"), "", agent.ExitSource, `several data directories: "data", "old/data"`},
		"TwoChosen":  {bitnami, second("old/data"), "data", 0, ""},
		"Below":      {layouts["BitnamiSubPath"], nil, "mysql", agent.ExitSource, "spec.restore.import.volume.directory: mysql/data"},
		"Nested": {layouts["Official"], second("mysql_old"), "", agent.ExitSource,
			`several data directories: the root, and in it "mysql_old"`},
		"NestedBelow": {bitnami, second("data/inner"), "data", agent.ExitSource, `in it "data/inner"`},
		"Nothing": {layout{directory: "data/deep/er/than/anybody/looks", owner: 1001}, nil, "", agent.ExitSource,
			"no directory below it is one"},
		"Dump": {layout{directory: "too/deep/to/find", files: map[string]string{"too/mysql-instance.sql": ""}, owner: 1001}, nil, "",
			agent.ExitSource, `It contains the dump "too/mysql-instance.sql". To import a dump, upload it to a BackupStore`},
		"NotLast": {layout{directory: ".", files: perconaCluster("12", "0"), owner: 1001}, nil, "", agent.ExitSource,
			"was not the last one"},
		"Member": {layouts["PerconaClusterLast"], put("gvwstate.dat", "x"), "", agent.ExitSource,
			"did not leave the cluster"},
		"GroupMember": {bitnami, put("data/host-relay-bin-group_replication_applier.000001", ""), "data", agent.ExitSource,
			"member of Group Replication"},
		"Rocks":    {bitnami, put("data/.rocksdb/CURRENT", ""), "data", agent.ExitSource, "MyRocks (.rocksdb)"},
		"Transfer": {layouts["PerconaClusterLast"], put("sst_in_progress", ""), "", agent.ExitSource, "was interrupted"},
		"Encrypted": {bitnami, func(t *testing.T, volume string) {
			t.Helper()
			page := make([]byte, 16<<10)
			page[25], page[56] = 8, 0x60
			put("data/shop/secret.ibd", string(page))(t, volume)
		}, "data", agent.ExitSource, "shop/secret.ibd is encrypted"},
		"OtherPatch": {layout{directory: ".", files: map[string]string{"version_info": "mysqld  Ver 9.7.9-1.1 for Linux on x86_64 (P)",
			"mysql_upgrade_history": "{}"}, owner: 1001}, nil, "", agent.ExitUnclean, "its version is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			volume := tc.layout.make(t)
			if tc.change != nil {
				tc.change(t, volume)
			}
			i, code, out := importAsJob(t, volume, tc.within)
			if code != tc.code || !strings.Contains(out, strings.ReplaceAll(tc.says, `"`, `\"`)) {
				t.Errorf("want %d and %q, got %d: %s", tc.code, tc.says, code, out)
			}
			if got := names(t, i.Volume); (len(got) > 0) != (tc.code == 0) {
				t.Errorf("on the volume: %v", got)
			}
		})
	}
}

// TestImportUnreadable checks that a file that the Job may not read is refused with its owner, and that the owner can
// be changed afterwards.
func TestImportUnreadable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create files of other users")
	}
	for name, path := range map[string]string{"File": "data/shop/orders.ibd", "Locked": "data/ibdata1", "Folder": "data/shop",
		"DataDirectory": "data"} {
		t.Run(name, func(t *testing.T) {
			volume := layouts["Bitnami"].make(t)
			path := filepath.Join(volume, path)
			must(t, os.Chmod(path, 0o700)) //nolint:gosec // The point of the test.
			_, code, out := importAsJob(t, volume, "data")
			if code != agent.ExitFailed || !strings.Contains(out, "has owner 1001, group 1001 and mode 0700)") ||
				!strings.Contains(out, "groups 27, 999, 1001, 10000. Change their owner (chown -R 999:999)") {
				t.Errorf("got %d: %s", code, out)
			}
			must(t, os.Chown(path, 999, 999))
			if _, code, out := importAsJob(t, volume, "data"); code != 0 {
				t.Errorf("after chown: %d: %s", code, out)
			}
		})
	}
}

// TestImportLayoutRunning checks that a running server in a subdirectory is detected through a mount that the Job may
// only read.
func TestImportLayoutRunning(t *testing.T) {
	for _, name := range []string{"Bitnami", "Official"} {
		t.Run(name, func(t *testing.T) {
			l := layouts[name]
			volume := l.make(t)
			server, out := role{Hold: filepath.Join(volume, l.directory, "ibdata1")}.start(t)
			line := make([]byte, len("held: <nil>\n"))
			if _, err := out.Read(line); err != nil || string(line) != "held: <nil>\n" {
				t.Fatalf("it holds nothing: %q, %v", line, err)
			}
			if _, code, out := importAsJob(t, volume, strings.TrimPrefix(l.directory, ".")); code != agent.ExitBusy {
				t.Errorf("want %d, got %d: %s", agent.ExitBusy, code, out)
			}
			must(t, server.Process.Kill())
			_ = server.Wait() // The process was killed.
			if _, code, out := importAsJob(t, volume, strings.TrimPrefix(l.directory, ".")); code != 0 {
				t.Errorf("after the end of the server: %d: %s", code, out)
			}
		})
	}
}
