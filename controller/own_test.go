package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOwn checks that every file on the volume gets the new owner, and that other users lose access. Files outside
// the volume must not change.
func TestOwn(t *testing.T) {
	outside, volume := t.TempDir(), t.TempDir()
	const mode = 0o755
	for _, path := range []string{filepath.Join(outside, "theirs"), filepath.Join(volume, "data", "mysql"),
		filepath.Join(volume, "data", "shop.ibd")} {
		if err := os.MkdirAll(filepath.Dir(path), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"file": filepath.Join(outside, "theirs"), "folder": outside,
		"nowhere": "/nowhere"} {
		if err := os.Symlink(target, filepath.Join(volume, "data", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(volume, mode); err != nil {
		t.Fatal(err)
	}
	mine := os.Getuid()
	if mine != 0 {
		t.Log("Only root may give files away: here they have their owner already")
	}
	wanted := mine
	if mine == 0 {
		wanted = 999
	}
	for range 2 {
		if err := ownDir(volume, wanted); err != nil {
			t.Fatal(err)
		}
		for path, owner := range map[string]int{
			volume: wanted, filepath.Join(volume, "data"): wanted, filepath.Join(volume, "data",
				"mysql"): wanted, filepath.Join(volume, "data", "shop.ibd"): wanted,
			filepath.Join(volume, "data", "file"): wanted, filepath.Join(volume, "data", "folder"): wanted,
			filepath.Join(volume, "data", "nowhere"): wanted,
			outside:                                  mine, filepath.Join(outside, "theirs"): mine,
		} {
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != owner {
				t.Errorf("%s is of %d, not of %d", path, stat.Uid, owner)
			}
		}
		if info, err := os.Stat(volume); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the volume has mode %v, %v", info.Mode(), err)
		}
	}
	if err := ownDir(filepath.Join(volume, "none"), wanted); err == nil {
		t.Error("want a volume that is not there to be an error")
	}
}
