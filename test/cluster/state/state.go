// Package state determines where a cluster keeps its files, which are all in one directory. All names are derived
// from the cluster's name.
package state

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
)

// Directories below the root directory of the repository. `make clean` removes them.
const (
	cacheDir  = ".cache"
	stateDir  = "cluster"
	imagesDir = "images"
)

// nameRule matches valid cluster names. The name of a cluster is part of the names of a network bridge, a cgroup and
// a host.
var nameRule = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

// A Cluster identifies the files of a cluster, whether it is running or not.
type Cluster struct {
	Name string
	// Root is the root directory of the repository.
	Root string
}

// New validates the name and creates the cluster's directory.
func New(root, name string) (Cluster, error) {
	if !nameRule.MatchString(name) {
		return Cluster{}, fmt.Errorf("cannot name a cluster %q: use up to 20 lower-case letters, digits and dashes, "+
			"beginning with a letter", name)
	}
	c := Cluster{Name: name, Root: root}
	if err := os.MkdirAll(c.Dir(), 0o700); err != nil {
		return Cluster{}, fmt.Errorf("cannot make the cluster's folder: %w", err)
	}
	return c, nil
}

// Dir returns the directory that contains all files of the cluster. Only root can read it, because it contains the
// cluster's keys.
func (c Cluster) Dir() string { return filepath.Join(c.Root, cacheDir, stateDir, c.Name) }

// Images returns the OCI layout with the images of all clusters.
func (c Cluster) Images() string { return filepath.Join(c.Root, cacheDir, imagesDir) }

// File returns the path of a file in the cluster's directory.
func (c Cluster) File(name string) string { return filepath.Join(c.Dir(), name) }

// Kubeconfig returns the path of a kubeconfig that works outside of the cluster's namespaces.
func (c Cluster) Kubeconfig() string { return c.File("kubeconfig") }

// Cgroup returns the name of the cgroup that contains all pods of the cluster. It is the same in each hierarchy.
func (c Cluster) Cgroup() string { return fmt.Sprintf("test-cluster-%s-%08x", c.Name, c.hash()) }

// Range of the ports on the loopback address. It is above the registered ports that are in common use, and below the
// kernel's ephemeral ports.
const (
	firstPort = 20000
	portPairs = 5000
)

// Ports returns the default ports on the loopback address. The registry's port follows the API server's port.
func (c Cluster) Ports() (api, registry int) {
	api = firstPort + 2*int(c.hash()%portPairs)
	return api, api + 1
}

// hash distinguishes clusters that have the same name in two clones of the repository.
func (c Cluster) hash() uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\x00%s", c.Root, c.Name) // It never fails.
	return h.Sum32()
}

// FindRoot searches for the repository in a directory and its parents.
func FindRoot(from string) (string, error) {
	start, err := filepath.Abs(from)
	if err != nil {
		return "", fmt.Errorf("cannot determine the current directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "test", "cluster", "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return "", fmt.Errorf("cannot look for the repository: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("cannot find the repository in or above %s: run this inside it, or say --root", start)
		}
	}
}
