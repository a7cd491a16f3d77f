package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// RemoveCgroups removes a cluster's cgroup from every hierarchy. It retries, because a cgroup is still busy for a
// moment after its last process has exited.
func RemoveCgroups(ctx context.Context, root, name string) error {
	dirs, err := filepath.Glob(filepath.Join(root, "*", name))
	if err != nil {
		return err
	}
	for _, dir := range append(dirs, filepath.Join(root, name)) {
		if err := removeTree(ctx, dir); err != nil {
			return fmt.Errorf("cannot remove the cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// removeTree removes directories from the bottom up. The files in them belong to the kernel and disappear together
// with them.
func removeTree(ctx context.Context, top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := removeDir(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

func removeDir(ctx context.Context, dir string) error {
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
