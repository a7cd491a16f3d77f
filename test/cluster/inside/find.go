package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FindNode returns the process ID of a node in the caller's PID namespace. The cgroup distinguishes clusters that
// have the same name in two clones of the repository.
func FindNode(cgroup string, number int) (pid int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // The process has exited.
		}
		args := strings.Split(string(b), "\x00")
		if len(args) < 3 || args[1] != CommandNode {
			continue
		}
		if c, err := ParseConfig(args[2]); err == nil && c.Cgroup == cgroup && c.Node == number {
			return strconv.Atoi(filepath.Base(filepath.Dir(f)))
		}
	}
	return 0, fmt.Errorf("there is no node %d in the cluster", number)
}
