package instance

import v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"

// A JobLocation is the namespace of an instance's Jobs, with the names of the Jobs and their PVCs there.
type JobLocation struct {
	Namespace string
	// Data is the name of the data PVC, and Backup the name of the backup PVC, in that namespace.
	Data, Backup string
	// WipeJob is the Job that empties a hostPath directory, and PruneJob the Job that deletes expired backups.
	WipeJob, PruneJob string
}

// JobLocation returns the namespace of the instance's Jobs, and the names of the Jobs and their PVCs. The Jobs run in
// the instance's own namespace if a pod can run there. If the instance lost its XR, its Jobs have other names, because
// a later instance may use the usual names.
func (b *Basis) JobLocation() JobLocation {
	i := b.Instance
	if !isRelocated(b) {
		return JobLocation{
			Namespace: i.Namespace, Data: i.DataPVCName(), Backup: i.BackupPVCName(),
			WipeJob: i.Jobs().Wipe(), PruneJob: i.Jobs().Prune(),
		}
	}
	p := JobLocation{
		Namespace: jobNamespace(b), Data: i.RecoveryName("data"), Backup: i.BackupPVCName(),
		WipeJob: i.RecoveryName(v1.ComponentErase), PruneJob: i.RecoveryName(v1.ComponentPrune),
	}
	if !inOwnNamespace(b) {
		p.Backup = i.RecoveryName("backups")
	}
	return p
}

// jobNamespace returns the namespace of the instance's Jobs.
func jobNamespace(b *Basis) string {
	if b.IsDeleting() && !inOwnNamespace(b) {
		return v1.RecoveryNamespace
	}
	return b.Instance.Namespace
}

// isRelocated reports whether the Jobs run in another namespace or under other names.
func isRelocated(b *Basis) bool {
	return b.IsDeleting() && (b.Orphan != nil || !inOwnNamespace(b))
}

// inOwnNamespace reports whether a pod can run in the instance's own namespace. A later namespace with the same name
// may have a different owner.
func inOwnNamespace(b *Basis) bool {
	return b.Namespace != nil && b.Namespace.DeletionTimestamp == nil && b.Namespace.UID == b.NamespaceUID()
}
