package servercert

import "testing"

// TestClusterDomainIsFound checks that the domain is found in the resolv.conf of the controller's pod.
func TestClusterDomainIsFound(t *testing.T) {
	const namespace = "crossplane-mysql-system"
	for name, tc := range map[string]struct{ text, want string }{
		"Usual": {"search crossplane-mysql-system.svc.cluster.local svc.cluster.local cluster.local\nnameserver " +
			"10.96.0.10\noptions ndots:5\n", "cluster.local"},
		"Other": {"nameserver 10.96.0.10\nsearch crossplane-mysql-system.svc.k8s.corp.example svc.k8s.corp.example " +
			"k8s.corp.example corp.example\n", "k8s.corp.example"},
		"OneLabel": {"search crossplane-mysql-system.svc.prod svc.prod prod\n", "prod"},
		"Dot":      {"search crossplane-mysql-system.svc.corp.example.\n", "corp.example"},
		"Last":     {"search a\nsearch corp.example crossplane-mysql-system.svc.corp.example", "corp.example"},
		"Host":     {"search corp.example\nnameserver 10.0.0.1\n", ""},
		"None":     {"nameserver 10.96.0.10\n", ""},
		"Empty":    {"", ""},
		"OtherPod": {"search default.svc.cluster.local\n", ""},
		"NoName":   {"search crossplane-mysql-system.svc.UPPER_case\n", ""},
		"Comment":  {"# search crossplane-mysql-system.svc.cluster.local\n", ""},
	} {
		if got := DomainIn(tc.text, namespace); got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}
