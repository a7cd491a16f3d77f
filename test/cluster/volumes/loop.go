package volumes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A container's /dev often contains device files only for the first loop devices, so missing device files are
// created.
const (
	loopControl = "/dev/loop-control"
	loopMajor   = 7
	loopRaces   = 100
)

func loopPath(number int) string { return fmt.Sprintf("/dev/loop%d", number) }

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR, 0)
}

func fd(f *os.File) int { return int(f.Fd()) }

// attach returns a loop device for the image file. The kernel detaches the device when it is no longer open or
// mounted, for example because its mount namespace was removed.
func attach(image string) (*os.File, error) {
	f, err := open(image)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // The device keeps the file open.
	// A namespace that was just removed may still be writing to the image. Two devices would mean two file systems on
	// one image, but all mounts of one device share a single file system.
	if dev, ok := attached(f); ok {
		return dev, nil
	}
	return attachNew(f)
}

func attachNew(f *os.File) (*os.File, error) {
	for range loopRaces {
		dev, err := freeLoop()
		if err != nil {
			return nil, err
		}
		err = configure(dev, f)
		if err == nil {
			return dev, nil
		}
		_ = dev.Close() // Another process uses it.
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("cannot set up %s: %w", dev.Name(), err)
		}
		// Another process has taken the device in the meantime. Try the next one.
	}
	return nil, errors.New("cannot get a loop device: others are always quicker")
}

// attached returns the loop device to which the image file is already attached.
func attached(image *os.File) (dev *os.File, ok bool) {
	var s unix.Stat_t
	if err := unix.Fstat(fd(image), &s); err != nil {
		return nil, false
	}
	used, _ := filepath.Glob("/sys/block/loop*/loop") // The pattern is well-formed.
	for _, u := range used {
		dev, err := open(filepath.Join("/dev", filepath.Base(filepath.Dir(u))))
		if err != nil {
			continue // This machine has no device file for it, or the device was removed.
		}
		info, err := unix.IoctlLoopGetStatus64(fd(dev))
		if err == nil && info.Device == s.Dev && info.Inode == s.Ino {
			return dev, true
		}
		_ = dev.Close() // It belongs to another image.
	}
	return nil, false
}

func configure(dev, image *os.File) error {
	c := unix.LoopConfig{Fd: uint32(fd(image)), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	copy(c.Info.File_name[:len(c.Info.File_name)-1], image.Name())
	return unix.IoctlLoopConfigure(fd(dev), &c)
}

func freeLoop() (*os.File, error) {
	control, err := open(loopControl)
	if err != nil {
		return nil, err
	}
	defer control.Close() //nolint:errcheck // Nothing is written to it.
	number, err := unix.IoctlRetInt(fd(control), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, fmt.Errorf("cannot get a loop device: %w", err)
	}
	path := loopPath(number)
	err = unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(number))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("cannot make %s: %w", path, err)
	}
	return open(path)
}

// refresh sets the size of a loop device to the size of its image.
func refresh(device string) error {
	f, err := open(device)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing is written to it.
	if err := unix.IoctlSetInt(fd(f), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("cannot grow %s: %w", device, err)
	}
	return nil
}
