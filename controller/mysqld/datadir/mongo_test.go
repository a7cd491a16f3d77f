package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHowMongoStopped(t *testing.T) {
	cases := map[string]struct {
		reason       string
		files        map[string]string
		known, clean bool
	}{
		"Clean":        {reason: "mongod empties its lock file at the end.", files: map[string]string{"mongod.lock": "", "WiredTiger.wt": "x"}, known: true, clean: true},
		"Killed":       {reason: "Its process ID is still there.", files: map[string]string{"mongod.lock": "17\n"}, known: true},
		"SQLite":       {reason: "A database that was closed has no write-ahead log.", files: map[string]string{"shop.sqlite": "x"}, known: true, clean: true},
		"SQLiteKilled": {reason: "One that was not, has.", files: map[string]string{"a.sqlite": "x", "shop.sqlite": "x", "shop.sqlite-wal": "x"}, known: true},
		"EmptyLog":     {reason: "Nothing is in it.", files: map[string]string{"shop.sqlite": "x", "shop.sqlite-wal": ""}, known: true, clean: true},
		"MySQL":        {reason: "Others judge those.", files: map[string]string{"ibdata1": "x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := directory(t)
			for file, content := range tc.files {
				if err := os.WriteFile(filepath.Join(dir.Name(), file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := howMongoStopped(dir)
			if err != nil || got.Known != tc.known || got.Clean != tc.clean || (got.Reason == "") == tc.known {
				t.Errorf("%s got %+v, %v", tc.reason, got, err)
			}
			if whole, err := HowStopped(dir); err != nil || tc.known && whole != got {
				t.Errorf("HowStopped says %+v, %v", whole, err)
			}
		})
	}
}
