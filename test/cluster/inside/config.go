// Package inside contains the processes that run in the namespaces of a cluster: the first process, the control plane
// and the nodes.
package inside

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// Commands with which the program starts itself again. They are not for users.
const (
	CommandFirst   = "inside-first"
	CommandControl = "inside-control"
	CommandNode    = "inside-node"
)

// File descriptors that the cluster's first process inherits from the launcher.
const (
	// lifelineFile is a pipe from the launcher. The launcher writes one byte to start the boot, and a second byte when
	// the boot is complete. If the launcher exits before the second byte, the cluster stops.
	lifelineFile = 3 + iota
	// reportFile is a pipe for Reports, with one JSON object per line.
	reportFile
	// apiFile and registryFile are sockets that listen on the machine's loopback address.
	apiFile
	registryFile
)

// A Config is the configuration of the processes in the cluster.
type Config struct {
	Name string `json:"name"`
	// Dir is the directory of the cluster. Images is an OCI layout. Kube is the binary with all Kubernetes programs.
	Dir    string `json:"dir"`
	Images string `json:"images"`
	Kube   string `json:"kube"`
	// Cgroup is the name of the cgroup that contains all pods.
	Cgroup string `json:"cgroup"`
	Nodes  int    `json:"nodes"`
	// API is the API server's port on the machine's loopback address, for the kubeconfig.
	API int `json:"api"`

	// Node is the number of the node, starting with 1, in a process that runs CommandNode.
	Node int `json:"node,omitempty"`
}

// A Report informs the launcher about the progress of the boot.
type Report struct {
	Step  string `json:"step,omitempty"`
	Error string `json:"error,omitempty"`
	Ready bool   `json:"ready,omitempty"`
}

// Addresses in the cluster. Several clusters can use the same addresses, because no packet leaves their namespaces.
const (
	bridge        = "node0"
	nodeNet       = "192.168.77.0/24"
	podNet        = "10.244.0.0/16"
	serviceNet    = "10.96.0.0/16"
	serviceIP     = "10.96.0.1"
	dnsIP         = "10.96.0.10"
	controlIP     = "192.168.77.1"
	apiPort       = "6443"
	registryPort  = "5000"
	firstNodeHost = 10
)

// RegistryAddress is the address at which pods and nodes reach the cluster's registry.
const RegistryAddress = controlIP + ":" + registryPort

// NodeName returns the name of a node. The first node has number 1.
func NodeName(i int) string { return fmt.Sprintf("node%d", i) }

func nodeIP(i int) string {
	a := netip.MustParsePrefix(nodeNet).Addr().As4()
	a[3] = byte(firstNodeHost + i)
	return netip.AddrFrom4(a).String()
}

func podSubnet(i int) string {
	a := netip.MustParsePrefix(podNet).Addr().As4()
	a[2] = byte(i)
	return netip.PrefixFrom(netip.AddrFrom4(a), 24).String()
}

// arguments returns the arguments that start a command of this package.
func (c Config) arguments(command string) ([]string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("cannot write the configuration: %w", err)
	}
	return []string{command, string(b)}, nil
}

// ParseConfig parses a configuration that a parent process has passed as an argument.
func ParseConfig(s string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		return Config{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return c, nil
}
