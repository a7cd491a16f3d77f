package datadir

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func TestPageSize(t *testing.T) {
	cases := map[string]struct {
		flags uint32
		want  int
	}{
		"Usual":          {0, 16 << 10},
		"MySQL8":         {1<<14 | 1<<13, 16 << 10}, // These flags are in the ibdata1 of MySQL 8.0.
		"4k":             {3 << 6, 4 << 10},
		"8k":             {4<<6 | 1<<14, 8 << 10},
		"32k":            {6 << 6, 32 << 10},
		"64k":            {7 << 6, 64 << 10},
		"Number1":        {1 << 6, 0},
		"Number8":        {8 << 6, 0},
		"MariaDB":        {1<<4 | 5, 16 << 10},
		"MariaDB4k":      {1<<4 | 3, 4 << 10},
		"MariaDB64k":     {1<<4 | 7, 64 << 10},
		"MariaDBNothing": {1 << 4, 0},
		"Garbage":        {0xffffffff, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			page := make([]byte, 64)
			binary.BigEndian.PutUint32(page[54:], tc.flags)
			if got := pageSizeOf(t, page); got != tc.want {
				t.Errorf("PageSize: %d, want %d", got, tc.want)
			}
		})
	}
	if got := pageSizeOf(t, make([]byte, 57)); got != 0 {
		t.Errorf("of half a page: %d", got)
	}
	if got := pageSizeOf(t, nil); got != 0 {
		t.Errorf("of no file: %d", got)
	}
}

// pageSizeOf returns the page size of a data directory with this ibdata1, or without one.
func pageSizeOf(t *testing.T, content []byte) int {
	t.Helper()
	dir := t.TempDir()
	if content != nil {
		if err := os.WriteFile(filepath.Join(dir, "ibdata1"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	got, err := PageSize(root)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
