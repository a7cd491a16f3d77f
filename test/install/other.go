//go:build !linux

// Command install supports only Linux.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "install: it installs in the embedded cluster, which needs Linux, and this is %s; make "+
		"install is for any other\n", runtime.GOOS)
	os.Exit(1)
}
