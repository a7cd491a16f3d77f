package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHasDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		folders []string
		files   []string
		want    bool
	}{
		"Nothing":     {reason: "A directory that nobody wrote to."},
		"Half":        {reason: "A first start was cut short: there are system tables, and no account.", folders: []string{"mysql", "sys", "performance_schema", "#innodb_redo", "#innodb_temp"}, files: []string{"ibdata1", "mysql.ibd"}},
		"Whole":       {reason: "The database is made last.", folders: []string{"mysql", "sys", "otus@002ddatabase"}, want: true},
		"File":        {reason: "A file is no database.", files: []string{"shop"}},
		"HiddenOnes":  {reason: "A server takes no folder that begins with a dot for a database.", folders: []string{".snapshot"}},
		"OnlySchemas": {reason: "Without system tables too: they were lost, the rows were not.", folders: []string{"shop"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range tc.folders {
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
