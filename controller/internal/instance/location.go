package instance

import v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"

// A JobLocation is where the Jobs of a life run, and what they and the PVCs that
// they mount are called there.
type JobLocation struct {
	Namespace string
	// Data and Backup are PVCs.
	Data, Backup string
	// WipeJob and PruneJob are Jobs.
	WipeJob, PruneJob string
}

// JobLocation of a life: its own namespace, as long as something can run there. A life
// that lost its XR leaves the usual names to the next one.
func (s *State) JobLocation() JobLocation {
	i := s.Life
	if !s.isRelocated() {
		return JobLocation{
			Namespace: i.Namespace, Data: i.DataPVCName(), Backup: i.BackupPVCName(),
			WipeJob: i.Jobs().Wipe(), PruneJob: i.Jobs().Prune(),
		}
	}
	p := JobLocation{
		Namespace: s.jobNamespace(), Data: i.RescueName("data"), Backup: i.BackupPVCName(),
		WipeJob: i.RescueName(v1.ComponentWipe), PruneJob: i.RescueName(v1.ComponentPrune),
	}
	if !s.InOwnNamespace() {
		p.Backup = i.RescueName("backups")
	}
	return p
}

// jobNamespace is where Jobs of the life run.
func (s *State) jobNamespace() string {
	if s.IsDeleting() && !s.InOwnNamespace() {
		return v1.RescueNamespace
	}
	return s.Life.Namespace
}

// isRelocated is true if the Jobs run elsewhere, or under other names.
func (s *State) isRelocated() bool {
	return s.IsDeleting() && (s.Orphan != nil || !s.InOwnNamespace())
}

// InOwnNamespace is true if something can run in the life's own namespace. A later one of
// its name may be another owner's.
func (s *State) InOwnNamespace() bool {
	return s.Namespace != nil && s.Namespace.DeletionTimestamp == nil && s.Namespace.UID == s.NamespaceUID()
}
