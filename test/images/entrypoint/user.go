package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The account of the servers, which is the same in all official images.
const (
	serverID   = 999
	serverHome = "/var/lib/mysql"
)

// stepDown changes the owner of the server's directories and switches to the server's account. If the container was
// not started as root, the directories must already be writable.
func stepDown(s server) error {
	dirs := []string{s.dataDir, filepath.Dir(s.socket)}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return fmt.Errorf("cannot make a folder: %w", err)
		}
	}
	if os.Geteuid() != 0 {
		return nil
	}
	for _, d := range dirs {
		if err := handOver(d); err != nil {
			return fmt.Errorf("cannot hand %s over to the server's account: %w", d, err)
		}
	}
	logf("Note", "Switching to the account 'mysql'.")
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("cannot leave root's groups: %w", err)
	}
	if err := syscall.Setgid(serverID); err != nil {
		return fmt.Errorf("cannot leave root's group: %w", err)
	}
	if err := syscall.Setuid(serverID); err != nil {
		return fmt.Errorf("cannot leave root: %w", err)
	}
	return os.Setenv("HOME", serverHome)
}

// handOver changes the owner of the files that do not belong to the account yet. For a large database, changing the
// owner of all files takes long, and some file systems refuse a change even if it has no effect.
func handOver(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == serverID {
			return nil
		}
		return os.Lchown(path, serverID, serverID) //nolint:gosec // No other process is running in the container yet.
	})
}
