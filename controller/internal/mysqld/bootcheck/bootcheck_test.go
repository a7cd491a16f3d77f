package bootcheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

func TestArguments(t *testing.T) {
	base := arguments{dir: "/copy", directory: "data"}
	cases := map[string]struct {
		reason string
		a      arguments
		want   []string
	}{
		"Usual": {a: base},
		"PageSize": {a: arguments{dir: "/copy", directory: "data", pageSize: 8192},
			want: []string{"--innodb-page-size=8192"}},
		"Case": {a: arguments{dir: "/copy", directory: "data", lowerCase: "1"},
			want: []string{"--lower-case-table-names=1"}},
		"Root": {reason: "mysqld refuses to run as the operating system's root without --user=root.",
			a:    arguments{dir: "/copy", directory: "data", root: true},
			want: []string{"--user=root"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.a.options()
			if got[0] != "--no-defaults" {
				t.Errorf("the first is %q, and a server takes this one only there", got[0])
			}
			for _, want := range []string{"--datadir=/copy/data", "--socket=/copy/s", "--tmpdir=/copy/tmp", "--skip-networking",
				"--skip-grant-tables"} {
				if !slices.Contains(got, want) {
					t.Errorf("%q is missing: %q", want, got)
				}
			}
			if diff := cmp.Diff(append(base.options(), tc.want...), got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	for length, bad := range map[int]bool{105: false, 106: true} {
		if err := (arguments{dir: strings.Repeat("a", length)}).checkSocketPath(); (err != nil) != bad {
			t.Errorf("a folder of %d bytes: %v", length, err)
		}
	}
}

func TestLowerCase(t *testing.T) {
	for value, want := range map[string]string{
		"":            "",
		"[ERROR] abc": "",
		"x: [MY-011087] [Server] Different lower_case_table_names settings for server ('0') and data dictionary ('1').; y": "1",
		"Different lower_case_table_names settings for server ('0') and data dictionary ('2').":                            "2",
	} {
		if got := lowerCase(value); got != want {
			t.Errorf("lowerCase(%q): %q, want %q", value, got, want)
		}
	}
}

func TestTablespaces(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"mysql.ibd", "ibdata1", "undo_001", "big.ibd", "mysql/x.frm", "shop/orders.ibd", "shop/years#p#a.ibd",
		"shop/a@0024b.ibd", "shop/#sql-ib12-1.ibd",
		"shop/#sql-1_2.ibd", "#innodb_temp/temp_1.ibd", "shop/mysql.ibd", "shop/old.MYD",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close() //nolint:errcheck // Nothing was written.
	got, err := tablespaces(root)
	must(t, err)
	if diff := cmp.Diff([]string{"big.ibd", "shop/a@0024b.ibd", "shop/mysql.ibd", "shop/orders.ibd", "shop/years#p#a.ibd"},
		got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJudgeFiles(t *testing.T) {
	cases := map[string]struct {
		reason             string
		before, known, now []string
		want               string
	}{
		"Same": {before: []string{"s/a.ibd", "s/b#p#x.ibd"}, known: []string{"s/b#p#x.ibd", "s/a.ibd"},
			now: []string{"s/a.ibd", "s/b#p#x.ibd"}},
		"Missing": {known: []string{"s/a.ibd", "s/b.ibd"}, now: []string{"s/a.ibd"}, before: []string{"s/a.ibd"},
			want: `missing: "s/b.ibd"`},
		"Outside": {reason: "A table file outside of the data directory is not in the backup, so it is missing.",
			known: []string{"/other/s/a.ibd"},
			want:  `missing: "/other/s/a.ibd"`},
		"Strange": {before: []string{"s/a.ibd"}, now: []string{"s/a.ibd"}, want: `these table files are not in the server's data dictionary: "s/a.ibd"`},
		"Undone": {reason: "At its start, the server removes the files of an interrupted change, which is not an error.",
			before: []string{"s/a.ibd"}},
		"Redone": {reason: "The server may create a missing file again at its start, which is not an error.",
			known: []string{"s/a.ibd"}, now: []string{"s/a.ibd"}},
		"Many":    {known: []string{"d", "c", "b", "a", "e"}, want: `missing: "a", "b", "c" and 2 more`},
		"Long":    {known: []string{strings.Repeat("l", 500)}, want: strings.Repeat("l", 150) + `"`},
		"Nothing": {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := judgeFiles(tc.before, tc.known, func(name string) bool { return slices.Contains(tc.now, name) })
			if (err == nil) != (tc.want == "") || err != nil && (!isBroken(err) || !strings.HasSuffix(err.Error(), tc.want)) {
				t.Errorf("%s: %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestHasDictionary(t *testing.T) {
	for text, want := range map[string]bool{
		"5.7.44-log": false, "8.0.13": false, "8.0.14": true, "8.4.0": true, "9.7.4-2": true, "10.11.18-MariaDB": false,
	} {
		v, err := version.Parse(text)
		must(t, err)
		if got := hasDictionary(v); got != want {
			t.Errorf("hasDictionary(%s): %v", text, got)
		}
	}
}

func TestJudgeTable(t *testing.T) {
	cases := map[string]struct {
		reason  string
		answers []answer
		want    string
		unsure  bool
	}{
		"OK":       {answers: []answer{{"status", "OK"}}},
		"UpToDate": {answers: []answer{{"status", "Table is already up to date"}}},
		"NoCheck":  {answers: []answer{{"note", "The storage engine for the table doesn't support check"}}},
		"Plugin": {
			reason:  "With --skip-grant-tables, mysqld loads no plugins, so an unknown engine is not an error.",
			answers: []answer{{"Error", "Unknown storage engine 'ROCKSDB'"}, {"status", "Operation failed"}},
		},
		"Discarded": {answers: []answer{{"Warning", "InnoDB: Tablespace is discarded for table, 'a'"},
			{"Error", "Tablespace has been discarded for table `a`"}, {"error", "Corrupt"}}},
		"Rebuild": {answers: []answer{
			{"error", "Table rebuild required. Please do \"ALTER TABLE `a` FORCE\" or dump/reload to fix it!"}}},
		"NotClosed": {reason: "A server that was killed leaves tables that are not closed, which is not an error.",
			answers: []answer{{"warning", "1 client is using or hasn't closed the table properly"}, {"status", "OK"}}},
		"Corrupt": {answers: []answer{{"Warning", "InnoDB: The B-tree of index PRIMARY is corrupted."},
			{"error", "Corrupt"}}, want: "the server reports that the table `s`.`a``b` is corrupt: InnoDB: The " +
			"B-tree of index PRIMARY is corrupted.; Corrupt"},
		"Warned": {answers: []answer{{"warning", "InnoDB: Index x is marked as corrupted"}, {"status", "OK"}},
			want: "marked as corrupted"},
		"Failed": {answers: []answer{{"status", "Operation failed"}}, want: "Operation failed"},
		"Missing": {answers: []answer{{"Error", "Table 's.a' doesn't exist"}, {"status", "Operation failed"}},
			want: "doesn't exist; Operation failed"},
		"Many": {answers: slices.Repeat([]answer{{"error", strings.Repeat("e", 1000)}}, 100),
			want: strings.Repeat("e", 200) + "; " + strings.Repeat("e", 200) + "; " + strings.Repeat("e", 200)},
		"Busy": {answers: []answer{{"Error", "Lock wait timeout exceeded; try restarting transaction"},
			{"status", "Operation failed"}}, want: "Lock wait timeout", unsure: true},
		"Nothing": {want: "nothing", unsure: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := judgeTable(table{schema: "s", name: "a`b"}, tc.answers)
			if (err == nil) != (tc.want == "") || err != nil &&
				(isBroken(err) == tc.unsure || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s: %v, want %q", tc.reason, err, tc.want)
			}
			if err != nil && len(err.Error()) > 800 {
				t.Errorf("it has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestJudgeEnd(t *testing.T) {
	cases := map[string]struct {
		state, complaints string
		broken            bool
	}{
		"Exit":       {"exit status 1", "Corrupted page", true},
		"Abort":      {"signal: aborted (core dumped)", "Assertion failure", true},
		"Segfault":   {"signal: segmentation fault", "it printed nothing", true},
		"NoMemory":   {"signal: killed", "Corrupted page", false},
		"Allocation": {"exit status 1", "[MY-012681] [InnoDB] Cannot allocate memory for the buffer pool", false},
		"Full": {"exit status 1",
			"[MY-012267] [InnoDB] Could not set the file size of './ibtmp1'. Probably out of disk space; OS errno 28 - No " +
				"space left on device", false},
		"Rights": {"exit status 1", "[MY-010092] [Server] Can't start server: Permission denied", false},
		"Option": {"exit status 7", "[MY-000067] [Server] unknown variable 'a=b'.", false},
		"Value":  {"exit status 9", "mariadbd: Error while setting value 'abc' to 'max_connections'", false},
		"Place":  {"exit status 1", "t 0 [Warning] Failed to normalize the argument for --secure-file-priv.", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := judgeEnd("does not start", tc.state, tc.complaints)
			if isBroken(err) != tc.broken || !strings.Contains(err.Error(), tc.complaints) {
				t.Errorf("judgeEnd: %T %v", err, err)
			}
		})
	}
}
