package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A clusterCheck is of what concerns all instances, or none.
type clusterCheck struct {
	*index
}

// examineController: its findings are about all instances.
func (x *clusterCheck) examineController() []Finding {
	out := x.whoIsRunning()
	if len(x.Absent) > 0 {
		out = append(out, noteFinding("make install and the packages bring them; a platform need not offer both APIs",
			"not installed, so there can be none of them: %s", strings.Join(x.Absent, ", ")))
	}
	for _, kind := range slices.Sorted(maps.Keys(x.Unread)) {
		out = append(out, noteFinding("ask for the right to list them, to have them looked at", "kind %s was not looked at: %s", kind, x.Unread[kind]))
	}
	return out
}

// whoIsRunning: controllers renew their lease every few seconds.
func (x *clusterCheck) whoIsRunning() []Finding {
	if x.Unread[kindLease] != "" {
		return nil
	}
	advice := fmt.Sprintf("kubectl get pods --namespace %s; one that runs without --leader-election, such as on a developer's machine, has no lease and is not seen here", x.SystemNamespace)
	const nothing = "no controller is running: nothing is backed up until one is"
	l := x.Lease
	switch {
	case l == nil:
		return []Finding{wrongFinding(advice, "%s (there is no lease %s/%s)", nothing, x.SystemNamespace, Lease)}
	case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil:
		return []Finding{wrongFinding(advice, "%s (nobody holds the lease %s/%s)", nothing, x.SystemNamespace, Lease)}
	case x.Now.Sub(l.Spec.RenewTime.Time) > soon:
		return []Finding{wrongFinding(advice, "%s (the lease %s/%s was renewed %s ago)", nothing, x.SystemNamespace, Lease, x.textSince(l.Spec.RenewTime.Time))}
	}
	return nil
}
