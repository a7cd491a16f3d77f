//go:build !linux

package process

import "syscall"

// dieWithParent does nothing. Servers run in Linux containers only, but the plugin for macOS contains this package.
func dieWithParent(*syscall.SysProcAttr) {}
