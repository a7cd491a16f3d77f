//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory returns the memory in bytes and the number of all processes of a cluster. Shared memory is counted once (Pss
// in proc_pid_smaps(5)).
func memory(first int) (bytes int64, processes int, err error) {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first))
	if err != nil {
		return 0, 0, fmt.Errorf("cannot find the cluster's processes: %w", err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		return 0, 0, err
	}
	for _, l := range links {
		if got, err := os.Readlink(l); err != nil || got != ns {
			continue
		}
		pss, err := proportional(filepath.Join(filepath.Dir(filepath.Dir(l)), "smaps_rollup"))
		if err != nil {
			continue // The process has exited.
		}
		bytes += pss
		processes++
	}
	return bytes, processes, nil
}

func proportional(file string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s does not say Pss", file)
}
