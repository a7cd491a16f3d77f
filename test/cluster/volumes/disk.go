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

// unfinished is the ending of an image that is still being formatted. A crash then leaves no volume behind that is
// none.
const unfinished = ".new"

// A disk keeps the volumes of one node: for each a file with a file system, or a folder, mounted below dir.
type disk struct {
	images, dir string
	log         *slog.Logger

	// kind of file system that new volumes get, and why if it is a plain folder.
	kind, reason string

	// mu keeps growing and deleting apart. All of it takes moments.
	mu sync.Mutex
}

func newDisk(images, dir string, log *slog.Logger) (*disk, error) {
	d := &disk{log: log}
	for path, target := range map[string]*string{images: &d.images, dir: &d.dir} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, fmt.Errorf("cannot make the folder of volumes: %w", err)
		}
		resolved, err := realPath(path) // As the kernel's list of mounts has it.
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

// find returns the kind of a volume that exists.
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

// truncate makes a file larger, or makes one, without taking room on the machine's disk.
func truncate(file string, size int64) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// lostAndFound is in the root of every fresh ext4, and what trips over it shall do so on all machines.
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

// mount changes nothing if the volume is mounted already.
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
	defer dev.Close() //nolint:errcheck // From here on the mount holds it.
	if err := unix.Mount(dev.Name(), target, kind, unix.MS_RELATIME, "discard"); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", dev.Name(), target, err)
	}
	return nil
}

func bind(folder, target string) error {
	if err := unix.Mount(folder, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", folder, target, err)
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
		return nil // A folder has no end.
	}
	if err := d.mount(name, kind); err != nil {
		return err
	}
	if err := d.lengthen(name, kind, size); err != nil {
		return err
	}
	// What is begun is ended, also when the node goes down.
	return command(context.WithoutCancel(ctx), f.grow(d.device(name), d.target(name)))
}

// lengthen never cuts: more than is asked for may have come of an earlier try.
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

// device that is mounted as the volume, or "", which no program takes for one.
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
