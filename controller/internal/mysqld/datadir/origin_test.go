package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHasDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		dirs   []string
		files  []string
		want   bool
	}{
		"Nothing": {reason: "A directory that nobody wrote to."},
		"Half": {reason: "A first start was cut short: there are system tables, and no account.",
			dirs:  []string{"mysql", "sys", "performance_schema", "#innodb_redo", "#innodb_temp"},
			files: []string{"ibdata1", "mysql.ibd"}},
		"Whole": {reason: "The database is made last.", dirs: []string{"mysql", "sys", "otus@002ddatabase"},
			want: true},
		"File": {reason: "A file is no database.", files: []string{"shop"}},
		"HiddenOnes": {reason: "A server takes no folder that begins with a dot for a database.",
			dirs: []string{".snapshot"}},
		"OnlySchemas": {reason: "Without system tables too: they were lost, the rows were not.", dirs: []string{"shop"},
			want: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range tc.dirs {
				if err := os.Mkdir(filepath.Join(dir, f), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range tc.files {
				if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close() //nolint:errcheck // Nothing was written.
			got, err := HasDatabase(root)
			if err != nil || got != tc.want {
				t.Errorf("%s\nwant %t, got %t, %v", tc.reason, tc.want, got, err)
			}
		})
	}
}

// TestVersionOfPairs checks that the first source is used, unless a server of that version cannot have used these
// files.
func TestVersionOfPairs(t *testing.T) {
	const history, dictionary, info = "mysql_upgrade_history", "mysql.ibd", "mysql_upgrade_info"
	since84 := map[string]string{history: `{"upgrade_history":[{"version":"8.4.6"},{"version":"9.7.4"}]}`, dictionary: ""}
	cases := map[string]struct {
		reason              string
		files               map[string]string
		started, text, want string
	}{
		"Noted": {reason: "The server noted itself what it made of the directory.", files: since84, started: "26.7.0",
			text: "8.4.6", want: "9.7.4"},
		"Upgraded": {reason: "Nobody logged in since it was upgraded in place.", files: map[string]string{dictionary: ""},
			started: "8.0.43", text: "8.0.36", want: "8.0.43"},
		"Silent": {reason: "Nobody ever logged in.", files: map[string]string{dictionary: ""}, started: "8.0.43",
			want: "8.0.43"},
		"Refused": {reason: "A server that would have noted itself has not run.", files: map[string]string{dictionary: ""},
			started: "8.4.6", text: "8.0.36", want: "8.0.36"},
		"Old": {reason: "There is no data dictionary: 8.0 did not get through.", started: "8.0.36", text: "5.7.44",
			want: "5.7.44"},
		"Older": {reason: "There is one, which 5.7 does not open.", files: map[string]string{dictionary: ""},
			started: "5.7.44", text: "8.0.36", want: "8.0.36"},
		"Oldest": {reason: "A server of 5.7 that nobody has logged in to.", started: "5.7.44", want: "5.7.44"},
		"Stranger": {reason: "MariaDB does not read MySQL's.", files: since84, started: "11.4.2-MariaDB", text: "9.7.4",
			want: "9.7.4"},
		"MariaDB": {reason: "It notes nothing by itself.", started: "11.4.2-MariaDB", text: "10.11.6-MariaDB",
			want: "11.4.2-MariaDB"},
		"Nonsense": {reason: "Who may write to the volume may write anything.", files: map[string]string{dictionary: ""},
			started: "no version", text: "8.0.36", want: "8.0.36"},
		"Tool": {reason: "Somebody ran the tool, long ago.", files: map[string]string{info: "5.7.30"}, text: "5.7.44",
			want: "5.7.44"},
		"OnlyTool": {reason: "It is better than nothing.", files: map[string]string{info: "5.7.30"}, want: "5.7.30"},
		"Unknown":  {reason: "Nobody knows.", want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := directory(t)
			for file, content := range tc.files {
				write(t, dir, file, []byte(content))
			}
			if got := Version(dir, tc.started, tc.text); got != tc.want {
				t.Errorf("%s want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
