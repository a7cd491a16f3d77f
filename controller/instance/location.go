package instance

import v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"

// A JobLocation is where the Jobs of a life run, and what they and the PVCs that
// they mount are called there.
type JobLocation struct {
	Namespace string
	// Data and Backup are PVCs.
	Data, Backup string
	// BackupJob, WipeJob and PruneJob are Jobs.
	BackupJob, WipeJob, PruneJob string
	// Access is the Secret by which the backup Job gets at a store.
	Access string
}

// JobLocation of a life: its own namespace, as long as something can run there. A life
// that lost its XR leaves the usual names to the next one.
func (s *State) JobLocation() JobLocation {
	i := s.Life
	if !s.IsDeleting() || s.Orphan == nil && s.InOwnNamespace() {
		p := JobLocation{
			Namespace: i.Namespace, Data: i.DataPVCName(), Backup: i.BackupPVCName(),
			BackupJob: i.Jobs().Backup(), WipeJob: i.Jobs().Wipe(), PruneJob: i.Jobs().Prune(),
			Access: i.Accesses().Backup(),
		}
		if !s.IsDeleting() {
			p.BackupJob = i.Jobs().ImageChange()
			if s.UnderWay() != nil {
				p.BackupJob = i.Jobs().Request()
			}
		}
		return p
	}
	p := JobLocation{
		Namespace: i.Namespace, Data: i.RescueName("data"), Backup: i.BackupPVCName(),
		BackupJob: i.RescueName(v1.ComponentBackup), WipeJob: i.RescueName(v1.ComponentWipe), PruneJob: i.RescueName(v1.ComponentPrune),
		Access: i.Accesses().Rescue(),
	}
	if !s.InOwnNamespace() {
		p.Namespace, p.Backup = v1.RescueNamespace, i.RescueName("backups")
	}
	return p
}

// Relocated is true if the Jobs run elsewhere, or under other names.
func (s *State) Relocated() bool { return s.JobLocation().Data != s.Life.DataPVCName() }

// InOwnNamespace is true if something can run in the life's own namespace. A later one of
// its name may be another owner's.
func (s *State) InOwnNamespace() bool {
	return s.Namespace != nil && s.Namespace.DeletionTimestamp == nil && s.Namespace.UID == s.NamespaceUID()
}
