//go:build !linux

// Command cluster supports only Linux.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "cluster: the embedded cluster needs Linux, and this is %s; use any cluster that has "+
		"Crossplane instead: KUBECONFIG=… make e2e\n", runtime.GOOS)
	os.Exit(1)
}
