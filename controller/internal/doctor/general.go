package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A clusterCheck examines what concerns all instances, such as the controller, and objects that belong to no instance.
type clusterCheck struct {
	*index
}

// examineController reports that no controller is running, and which kinds the doctor could not check.
func (x *clusterCheck) examineController() []Finding {
	out := x.whoIsRunning()
	if len(x.Absent) > 0 {
		out = append(out, newFinding("'make install' and the packages install them; a platform does not need both "+
			"APIs",
			"these kinds are not installed, so they were not checked: %s", strings.Join(x.Absent, ", ")))
	}
	for _, kind := range slices.Sorted(maps.Keys(x.Unread)) {
		out = append(out, newFinding("to check them as well, ask for the right to list them",
			"kind %s was not checked: %s", kind, x.Unread[kind]))
	}
	return out
}

// whoIsRunning reports that no controller is running. A running controller renews its lease every few seconds.
func (x *clusterCheck) whoIsRunning() []Finding {
	if x.Unread[kindLease] != "" {
		return nil
	}
	advice := fmt.Sprintf("kubectl get pods --namespace %s; a controller that runs without --leader-election, for "+
		"example on a developer's machine, has no lease and is not found", x.SystemNamespace)
	const nothing = "no controller is running, so no backup is taken"
	l := x.Lease
	switch {
	case l == nil:
		return []Finding{wrongFinding(advice, "%s (there is no lease %s/%s)", nothing, x.SystemNamespace, Lease)}
	case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil:
		return []Finding{wrongFinding(advice, "%s (the lease %s/%s has no holder)", nothing, x.SystemNamespace, Lease)}
	case x.Now.Sub(l.Spec.RenewTime.Time) > shortDelay:
		return []Finding{wrongFinding(advice, "%s (the lease %s/%s was renewed %s ago)", nothing, x.SystemNamespace, Lease,
			x.textSince(l.Spec.RenewTime.Time))}
	}
	return nil
}
