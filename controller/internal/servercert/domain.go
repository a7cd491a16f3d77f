package servercert

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DomainIn returns the domain of the cluster from the /etc/resolv.conf of a pod in a namespace. The kubelet writes
// NAMESPACE.svc.DOMAIN as the first search domain (pkg/kubelet/network/dns). It returns "" if the file has no such
// domain, for example in a pod with host network.
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
