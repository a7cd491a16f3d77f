package volumes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// probe is the name of a temporary volume, with which the provisioner tests the file systems of this machine.
const probe = "probe"

// choose selects the first file system that can be created, mounted and grown on this machine. If there is none, it
// selects a file system that cannot grow, or else plain directories.
func (d *disk) choose(ctx context.Context) error {
	var whys []error
	var mounts string
	for _, f := range filesystems {
		mounted, err := d.try(ctx, f.name)
		if err == nil {
			d.kind, d.reason = f.name, ""
			d.log.Info("Volumes are disks of their own", "filesystem", f.name, "others", whys)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		whys = append(whys, fmt.Errorf("%s: %w", f.name, err))
		if mounted && mounts == "" {
			mounts = f.name
		}
	}
	cause := errors.Join(whys...)
	if mounts != "" {
		d.kind, d.reason = mounts, ""
		d.log.Warn("Volumes are disks of their own, but cannot grow", "filesystem", mounts, "error", cause)
		return nil
	}
	d.kind, d.reason = plain, oneLine(cause)
	d.log.Warn("Volumes are plain folders: they share the machine's disk, and have no end and no growth of their own",
		"error", cause)
	return nil
}

// try tests whether this machine supports a file system, by creating, mounting and growing a small volume. It returns
// whether the volume could be mounted, and the error of the step that failed.
func (d *disk) try(ctx context.Context, kind string) (mounted bool, err error) {
	t := &disk{images: d.images, dir: d.dir, log: d.log, kind: kind}
	if err := t.remove(probe); err != nil { // An earlier run may have left it.
		return false, err
	}
	defer func() { err = errors.Join(err, t.remove(probe)) }()
	if _, err := t.provision(ctx, probe, smallest); err != nil {
		return false, err
	}
	return true, t.grow(ctx, probe, 2*smallest)
}

// mountAll mounts all existing volumes, even if they have no PersistentVolume. On a real machine, disks stay attached
// in the same way.
func (d *disk) mountAll() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, err := os.ReadDir(d.images)
	if err != nil {
		return fmt.Errorf("cannot list volumes: %w", err)
	}
	var errs []error
	for _, e := range entries {
		kind := strings.TrimPrefix(filepath.Ext(e.Name()), ".")
		name := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		if "."+kind == unfinished {
			errs = append(errs, os.Remove(filepath.Join(d.images, e.Name())))
		}
		if name == probe || !slices.Contains([]string{ext4, xfs, plain}, kind) {
			continue
		}
		if err := d.mount(name, kind); err != nil {
			errs = append(errs, fmt.Errorf("cannot mount the volume %s: %w", name, err))
		}
	}
	return errors.Join(append(errs, d.sweep())...)
}

// sweep removes mount points that have no volume, because the kubelet would use them as empty volumes.
func (d *disk) sweep() error {
	ms, err := readMounts()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("cannot list where volumes are mounted: %w", err)
	}
	var errs []error
	for _, e := range entries {
		target := filepath.Join(d.dir, e.Name())
		if _, ok := at(ms, target); !ok {
			errs = append(errs, unlessGone(os.Remove(target)))
		}
	}
	return errors.Join(errs...)
}

func (d *disk) unmountAll() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ms, err := readMounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, target := range below(ms, d.dir) {
		if err := unmount(target); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, unlessGone(os.Remove(target)))
	}
	return errors.Join(errs...)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
