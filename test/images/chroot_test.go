//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// box is the environment variable with the root directory of a container. If it is set, the test binary becomes the
// first process of that container.
const box = "IMAGE_TEST_BOX"

// roots contains the directory with the unpacked image of each server. The keys are mysql and mariadb.
var roots = map[string]string{}

func TestMain(m *testing.M) {
	if dir := os.Getenv(box); dir != "" {
		fmt.Fprintln(os.Stderr, enter(dir))
		os.Exit(125)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "image-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // The process exits anyway.
	if err := unpack(dir); err != nil {
		fmt.Fprintln(os.Stderr, "cannot prepare the images, which needs root and the packages", image.Packages(), err)
		return 1
	}
	return m.Run()
}

// unpack builds and unpacks the servers' images. It uses the same cache as a cluster.
func unpack(dir string) error {
	root, err := state.FindRoot(".")
	if err != nil {
		return err
	}
	r := recipes{client.ImageBuilder(state.Cluster{Root: root}, os.Stderr)}
	ctx := context.Background()
	for kind, recipe := range map[string]func(context.Context) (image.Recipe, error){"mysql": r.mysql,
		"mariadb": r.mariadb} {
		names, err := r.Ensure(ctx, recipe)
		if err != nil {
			return err
		}
		roots[kind] = filepath.Join(dir, kind)
		if err := r.Unpack(ctx, names[0], roots[kind]); err != nil {
			return err
		}
	}
	return nil
}

// enter sets up a container with the given root directory around this process, and executes the image's entrypoint.
func enter(root string) error {
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(root, root, "", unix.MS_BIND, ""),
		unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""),
		unix.Mount("proc", root+"/proc", "proc", 0, ""),
		unix.Mount("/dev", root+"/dev", "", unix.MS_BIND|unix.MS_REC, ""),
	); err != nil {
		return err
	}
	uid, err := strconv.Atoi(os.Getenv(box + "_UID"))
	if err != nil {
		return err
	}
	for _, d := range []string{"/tmp", "/var/lib/mysql", "/var/lib/mysql-files", "/run/mysqld"} {
		if err := unix.Mount("tmpfs", root+d, "tmpfs", 0, fmt.Sprintf("mode=755,uid=%[1]d,gid=%[1]d", uid)); err != nil {
			return err
		}
	}
	if err := os.Chmod(root+"/tmp", 0o1777|os.ModeSticky); err != nil {
		return err
	}
	if data := os.Getenv(box + "_DATA"); data != "" {
		if err := unix.Mount(data, root+"/var/lib/mysql", "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	// The directory contains configuration files, scripts and secrets. Each program reads only the files with the suffix
	// that it expects.
	for _, d := range []string{"/etc/mysql/conf.d", "/docker-entrypoint-initdb.d"} {
		if err := unix.Mount(os.Getenv(box+"_FILES"), root+d, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := errors.Join(loopback(), unix.Chroot(root), unix.Chdir("/")); err != nil {
		return err
	}
	return become(uid)
}

// become drops all privileges that the product's Deployment does not grant to a server, and then executes the
// entrypoint.
func become(uid int) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	kept := []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETGID, unix.CAP_SETUID}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if !slices.Contains(kept, c) {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // Older kernels do not have the newest capabilities.
		}
	}
	if uid != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			return err
		}
	}
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, box) {
			env = append(env, e)
		}
	}
	const entrypoint = "/usr/local/bin/docker-entrypoint.sh"
	return syscall.Exec(entrypoint, append([]string{entrypoint}, os.Args[1:]...), env)
}

func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return errors.Join(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r), unix.Close(fd))
}
