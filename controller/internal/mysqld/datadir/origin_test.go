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
		"Nothing": {reason: "An empty directory contains no database."},
		"Half": {reason: "The initialization was interrupted: there are only system tables.",
			dirs:  []string{"mysql", "sys", "performance_schema", "#innodb_redo", "#innodb_temp"},
			files: []string{"ibdata1", "mysql.ibd"}},
		"Whole": {reason: "The entrypoint of the image creates the database as its last step.",
			dirs: []string{"mysql", "sys", "otus@002ddatabase"},
			want: true},
		"File": {reason: "A file is not a database.", files: []string{"shop"}},
		"HiddenOnes": {reason: "MySQL does not treat a directory whose name begins with a dot as a database.",
			dirs: []string{".snapshot"}},
		"OnlySchemas": {reason: "If the system tables are lost, the directory of the database still contains data.", dirs: []string{"shop"},
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

// TestVersionOfPairs checks which version is returned if two sources have different ones. The source that Version
// lists first must win, unless a server of that version cannot have used these files.
func TestVersionOfPairs(t *testing.T) {
	const history, dictionary, info = "mysql_upgrade_history", "mysql.ibd", "mysql_upgrade_info"
	since84 := map[string]string{history: `{"upgrade_history":[{"version":"8.4.6"},{"version":"9.7.4"}]}`, dictionary: ""}
	cases := map[string]struct {
		reason              string
		files               map[string]string
		started, text, want string
	}{
		"Noted": {reason: "The history file, which the server writes itself, must take precedence.", files: since84, started: "26.7.0",
			text: "8.4.6", want: "9.7.4"},
		"Upgraded": {reason: "No client has logged in since the in-place upgrade, so the started version must be used.",
			files:   map[string]string{dictionary: ""},
			started: "8.0.43", text: "8.0.36", want: "8.0.43"},
		"Silent": {reason: "No client has ever logged in, so the started version must be used.",
			files: map[string]string{dictionary: ""}, started: "8.0.43",
			want: "8.0.43"},
		"Refused": {reason: "MySQL 8.4 writes a history file, so without that file this server has not run.",
			files:   map[string]string{dictionary: ""},
			started: "8.4.6", text: "8.0.36", want: "8.0.36"},
		"Old": {reason: "Without a data dictionary, MySQL 8.0 has not run successfully.", started: "8.0.36", text: "5.7.44",
			want: "5.7.44"},
		"Older": {reason: "MySQL 5.7 cannot open a directory with a data dictionary.", files: map[string]string{dictionary: ""},
			started: "5.7.44", text: "8.0.36", want: "8.0.36"},
		"Oldest": {reason: "No client has logged in to the MySQL 5.7 server, so the started version must be used.",
			started: "5.7.44", want: "5.7.44"},
		"Stranger": {reason: "MariaDB cannot open a directory with the data dictionary and the history file of MySQL.",
			files: since84, started: "11.4.2-MariaDB", text: "9.7.4",
			want: "9.7.4"},
		"MariaDB": {reason: "MariaDB writes no history file, so the started version must be used.",
			started: "11.4.2-MariaDB", text: "10.11.6-MariaDB",
			want: "11.4.2-MariaDB"},
		"Nonsense": {reason: "The started version is read from the volume and may be invalid, so it must be ignored.",
			files:   map[string]string{dictionary: ""},
			started: "no version", text: "8.0.36", want: "8.0.36"},
		"Tool": {reason: "The file of mysql_upgrade is older than the version that the server reported to a client.",
			files: map[string]string{info: "5.7.30"}, text: "5.7.44",
			want: "5.7.44"},
		"OnlyTool": {reason: "The file of mysql_upgrade is the only source of the version.",
			files: map[string]string{info: "5.7.30"}, want: "5.7.30"},
		"Unknown": {reason: "No source contains a version.", want: ""},
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
