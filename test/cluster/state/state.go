// Package state knows where a cluster keeps what it knows: one folder, whose names are all derived from the cluster's.
package state

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
)

// Where everything lies, seen from the root of the repository. `make clean` removes it.
const (
	cacheDir  = ".cache"
	stateDir  = "cluster"
	imagesDir = "images"
)

// nameRule keeps names short enough for a bridge, a cgroup and a host name.
var nameRule = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

// A Cluster is where one cluster's files are. It may run or not.
type Cluster struct {
	Name string
	// Root of the repository.
	Root string
}

// New checks the name and makes the cluster's folder.
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

// Dir holds all that the cluster writes. Only root may read it: it has the keys of the cluster.
func (c Cluster) Dir() string { return filepath.Join(c.Root, cacheDir, stateDir, c.Name) }

// Images is the OCI layout that all clusters start from.
func (c Cluster) Images() string { return filepath.Join(c.Root, cacheDir, imagesDir) }

// File of the cluster's folder.
func (c Cluster) File(name string) string { return filepath.Join(c.Dir(), name) }

// Kubeconfig works from outside of the cluster's namespaces.
func (c Cluster) Kubeconfig() string { return c.File("kubeconfig") }

// Cgroup is the folder, in each hierarchy, under which all pods of the cluster are.
func (c Cluster) Cgroup() string { return fmt.Sprintf("test-cluster-%s-%08x", c.Name, c.hash()) }

// firstPort is above the registered ports that people use, below the kernel's ephemeral ones.
const (
	firstPort = 20000
	portPairs = 5000
)

// Ports are the default ports on the loopback address: the API server's, and next to it the registry's.
func (c Cluster) Ports() (api, registry int) {
	api = firstPort + 2*int(c.hash()%portPairs)
	return api, api + 1
}

// hash tells clusters apart that have one name in two clones of the repository.
func (c Cluster) hash() uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\x00%s", c.Root, c.Name) // It never fails.
	return h.Sum32()
}

// FindRoot looks for the repository in and above a directory.
func FindRoot(from string) (string, error) {
	start, err := filepath.Abs(from)
	if err != nil {
		return "", fmt.Errorf("cannot tell the current directory: %w", err)
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
