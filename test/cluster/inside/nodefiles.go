package inside

import (
	"os"
	"path/filepath"
	"text/template"
)

// configure writes the configuration files of containerd, the network plugins and the kubelet.
func (n *node) configure() error {
	data := map[string]string{
		"Dir":        n.dir,
		"Containerd": containerd,
		"Registry":   RegistryAddress,
		"Subnet":     podSubnet(n.Node),
		"DNS":        dnsIP,
		"CA":         n.pkiFile("ca.crt"),
		"Cgroup":     "/" + n.Cgroup + "/" + n.name(),
	}
	t, err := template.ParseFS(manifests, "manifests/node/*")
	if err != nil {
		return err
	}
	for name, file := range map[string]string{
		"containerd.toml": "containerd.toml",
		"pods.conflist":   "cni/10-pods.conflist",
		"hosts.toml":      "certs/_default/hosts.toml",
		"kubelet.yaml":    "kubelet.yaml",
	} {
		if err := render(t, name, filepath.Join(n.dir, file), data); err != nil {
			return err
		}
	}
	return nil
}

func render(t *template.Template, name, file string, data map[string]string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := t.ExecuteTemplate(f, name, data); err != nil {
		_ = f.Close() // The file is incomplete.
		return err
	}
	return f.Close()
}
