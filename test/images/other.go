//go:build !linux

// Command images supports only Linux.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "images: images are made by Debian's programs on Linux, and this is %s\n", runtime.GOOS)
	os.Exit(1)
}
