// Package inside is what runs in a cluster's own namespaces: the first process, the control plane, and the nodes.
package inside

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// Commands that the program starts itself with. They are of no use by hand.
const (
	CommandFirst   = "inside-first"
	CommandControl = "inside-control"
	CommandNode    = "inside-node"
)

// What the first process finds open when it starts.
const (
	// lifelineFile is a pipe: the launcher writes a byte when it wants the work to begin, and one when it lets go of
	// the cluster. If it dies before that, the cluster ends too.
	lifelineFile = 3 + iota
	// reportFile is a pipe that takes Reports, one JSON object a line.
	reportFile
	// apiFile and registryFile are sockets that listen on the machine's loopback address.
	apiFile
	registryFile
)

// A Config is all that the processes inside need to know.
type Config struct {
	Name string `json:"name"`
	// Dir is the cluster's folder, Images an OCI layout, and Kube the binary with all programs of Kubernetes.
	Dir    string `json:"dir"`
	Images string `json:"images"`
	Kube   string `json:"kube"`
	// Cgroup is the name of the folder of all pods' cgroups.
	Cgroup string `json:"cgroup"`
	Nodes  int    `json:"nodes"`
	// API is the port on the machine's loopback address, for the kubeconfig.
	API int `json:"api"`

	// Node is the number of the node, from 1, that a CommandNode is.
	Node int `json:"node,omitempty"`
}

// A Report tells the launcher how far the boot is.
type Report struct {
	Step  string `json:"step,omitempty"`
	Error string `json:"error,omitempty"`
	Ready bool   `json:"ready,omitempty"`
}

// Addresses inside. No packet leaves the namespaces, so that clusters beside each other may have the same.
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

// RegistryAddress is where pods and nodes reach the cluster's registry.
const RegistryAddress = controlIP + ":" + registryPort

// NodeName of the node with a number, from 1.
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

// Arguments of a command of this package.
func (c Config) arguments(command string) ([]string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("cannot write the configuration: %w", err)
	}
	return []string{command, string(b)}, nil
}

// ParseConfig reads what arguments wrote.
func ParseConfig(s string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		return Config{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return c, nil
}
