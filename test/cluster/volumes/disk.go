package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// unfinished is the suffix of an image file that is being formatted. After a crash, such a file is not treated as a
// volume.
const unfinished = ".new"

// A disk stores the volumes of one node. Each volume is a file with a file system, or a directory, and is mounted
// below dir.
type disk struct {
	images, dir string
	log         *slog.Logger

	// kind is the file system of new volumes. If new volumes are plain directories, reason says why.
	kind, reason string

	// mu prevents volumes from being grown and deleted concurrently. Both operations are fast.
	mu sync.Mutex
}

func newDisk(images, dir string, log *slog.Logger) (*disk, error) {
	d := &disk{log: log}
	for path, target := range map[string]*string{images: &d.images, dir: &d.dir} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, fmt.Errorf("cannot make the folder of volumes: %w", err)
		}
		resolved, err := realPath(path) // The kernel's list of mounts contains paths without symbolic links.
		if err != nil {
			return nil, fmt.Errorf("cannot find the folder of volumes: %w", err)
		}
		*target = resolved
	}
	return d, nil
}

func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func (d *disk) target(name string) string { return filepath.Join(d.dir, name) }

func (d *disk) image(name, kind string) string { return filepath.Join(d.images, name+"."+kind) }

// find returns the kind of an existing volume: the name of its file system, or plain for a directory.
func (d *disk) find(name string) (kind string, ok bool) {
	for _, kind := range []string{ext4, xfs, plain} {
		if _, err := os.Lstat(d.image(name, kind)); err == nil {
			return kind, true
		}
	}
	return "", false
}

func (d *disk) has(name string) bool {
	_, ok := d.find(name)
	return ok
}

func (d *disk) provision(ctx context.Context, name string, size int64) (made, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind, ok := d.find(name)
	if !ok {
		kind = d.kind
		if err := d.create(ctx, name, size); err != nil {
			return made{}, err
		}
	}
	if err := d.mount(name, kind); err != nil {
		return made{}, err
	}
	m := made{path: d.target(name)}
	if kind == plain {
		m.plain = cmp.Or(d.reason, "it was made when there were no loop devices")
	}
	return m, d.lostAndFound(name, kind)
}

func (d *disk) create(ctx context.Context, name string, size int64) error {
	image := d.image(name, d.kind)
	f, ok := named(d.kind)
	if !ok {
		return os.Mkdir(image, 0o755)
	}
	if err := format(ctx, f, image+unfinished, size); err != nil {
		return errors.Join(err, unlessGone(os.Remove(image+unfinished)))
	}
	return os.Rename(image+unfinished, image)
}

func format(ctx context.Context, f filesystem, image string, size int64) error {
	if err := unlessGone(os.Remove(image)); err != nil {
		return err
	}
	if err := truncate(image, size); err != nil {
		return err
	}
	return command(ctx, f.format(image, size))
}

// truncate creates a sparse file, or enlarges an existing one.
func truncate(file string, size int64) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// lostAndFound creates the directory lost+found, as in a new ext4. A program that cannot handle this directory then
// fails with every file system.
func (d *disk) lostAndFound(name, kind string) error {
	if kind == ext4 {
		return nil
	}
	err := os.Mkdir(filepath.Join(d.target(name), "lost+found"), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// mount mounts a volume if it is not mounted yet.
func (d *disk) mount(name, kind string) error {
	ms, err := readMounts()
	if err != nil {
		return err
	}
	target := d.target(name)
	if _, ok := at(ms, target); ok {
		return nil
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if kind == plain {
		return bind(d.image(name, kind), target)
	}
	dev, err := attach(d.image(name, kind))
	if err != nil {
		return err
	}
	defer dev.Close() //nolint:errcheck // The mount keeps the device in use.
	if err := unix.Mount(dev.Name(), target, kind, unix.MS_RELATIME, "discard"); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", dev.Name(), target, err)
	}
	return nil
}

func bind(dir, target string) error {
	if err := unix.Mount(dir, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", dir, target, err)
	}
	return nil
}

func (d *disk) grow(ctx context.Context, name string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind, ok := d.find(name)
	if !ok {
		return fmt.Errorf("cannot grow %s: its contents are gone", name)
	}
	f, ok := named(kind)
	if !ok {
		return nil // A directory has no size.
	}
	if err := d.mount(name, kind); err != nil {
		return err
	}
	if err := d.lengthen(name, kind, size); err != nil {
		return err
	}
	// The growth is completed even if the node is being shut down.
	return command(context.WithoutCancel(ctx), f.grow(d.device(name), d.target(name)))
}

// lengthen enlarges an image file. It never shrinks the file, because an earlier call may have enlarged it further.
func (d *disk) lengthen(name, kind string, size int64) error {
	image := d.image(name, kind)
	info, err := os.Stat(image)
	if err != nil {
		return err
	}
	if info.Size() < size {
		if err := truncate(image, size); err != nil {
			return err
		}
	}
	return refresh(d.device(name))
}

// device returns the loop device that is mounted as the volume, or "", which no program accepts as a device.
func (d *disk) device(name string) string {
	ms, err := readMounts()
	if err != nil {
		return ""
	}
	m, _ := at(ms, d.target(name))
	return m.source
}

func (d *disk) remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ms, err := readMounts()
	if err != nil {
		return err
	}
	if m, ok := at(ms, d.target(name)); ok {
		if pods := others(ms, m); len(pods) > 0 {
			return fmt.Errorf("it is still in use at %s", strings.Join(pods, ", "))
		}
		if err := unmount(m.target); err != nil {
			return err
		}
	}
	for _, kind := range []string{ext4, xfs, plain} {
		if err := os.RemoveAll(d.image(name, kind)); err != nil {
			return err
		}
	}
	return unlessGone(os.Remove(d.target(name)))
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
