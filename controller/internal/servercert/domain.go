package servercert

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DomainIn is the domain of the cluster as /etc/resolv.conf of a pod in a namespace has it: the kubelet writes NAMESPACE.svc.DOMAIN there as the first
// domain to search (pkg/kubelet/network/dns). It is empty if the file has none, such as in a pod of the host's network.
func DomainIn(resolvConf, namespace string) string {
	for line := range strings.Lines(resolvConf) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, searched := range fields[1:] {
			domain, found := strings.CutPrefix(strings.TrimSuffix(searched, "."), namespace+".svc.")
			if found && len(validation.IsDNS1123Subdomain(domain)) == 0 {
				return domain
			}
		}
	}
	return ""
}
