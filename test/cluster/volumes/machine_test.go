package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func fill(dir string) error {
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // The write was expected to fail.
	for b := make([]byte, mebibyte); err == nil; {
		_, err = f.Write(b)
	}
	return err
}

func capacity(t *testing.T, path string) int64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Blocks) * s.Bsize
}

// loops returns the loop devices that are attached to image files below a directory.
func loops(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		// A device that was removed in the meantime is ignored.
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), dir) {
			found = append(found, f)
		}
	}
	return found
}

func until(t *testing.T, otherwise string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal(otherwise)
}
