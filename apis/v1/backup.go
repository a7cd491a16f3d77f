package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Backup is a backup of an instance in the same namespace. Create a Backup to take a backup now. The controller also
// creates a Backup for each scheduled backup, for the backup before a version upgrade, and for the final backup of a
// deletion. A Backup mirrors a BackupRecord. The controller relies on the BackupRecord only, because users of the
// namespace cannot write it. If a user deletes a Backup, the archive is kept and the controller creates the Backup
// again. To delete the archive as well, set the annotation crossplane-mysql.io/delete-archive to the UID of the Backup
// first.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=msb,path=backups,singular=backup,categories=crossplane-mysql
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters"
// +kubebuilder:printcolumn:name="INSTANCE",type=string,JSONPath=`.spec.instance.name`
// +kubebuilder:printcolumn:name="ORIGIN",type=string,JSONPath=`.status.origin`
// +kubebuilder:printcolumn:name="COMPLETE",type=string,JSONPath=`.status.conditions[?(@.type=='Complete')].reason`
// +kubebuilder:printcolumn:name="RESTORE-TESTED",type=string,JSONPath=`.status.conditions[?(@.type=='RestoreTested')].status`
// +kubebuilder:printcolumn:name="SIZE",type=string,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="COMPLETED",type=date,JSONPath=`.status.completionTime`
// +kubebuilder:printcolumn:name="METHOD",type=string,JSONPath=`.status.method`,priority=1
// +kubebuilder:printcolumn:name="LOCATION",type=string,JSONPath=`.status.location.name`,priority=1
// +kubebuilder:printcolumn:name="VERSION",type=string,JSONPath=`.status.serverVersion`,priority=1
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.message`,priority=1
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies what to back up. It cannot be changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a Backup cannot change; create another Backup"
	Spec BackupObjectSpec `json:"spec"`
	// Status reports the progress of the backup and the location of its archive. Only the controller writes it.
	//
	// +optional
	Status BackupObjectStatus `json:"status,omitempty"`
}

// A BackupList is a list of Backups.
//
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Backup `json:"items"`
}

// A BackupObjectSpec specifies what to back up.
type BackupObjectSpec struct {
	// Instance to back up. It is in the namespace of the Backup.
	Instance InstanceReference `json:"instance"`
	// Method of the backup. Online clones the data while the server runs. It requires MySQL 8.0.17 or newer, and InnoDB
	// tables only. Cold stops the server while the data is copied. If unset, the method of the
	// instance's schedule is used, or Online if it has no schedule.
	//
	// +optional
	// +kubebuilder:validation:Enum=Online;Cold
	Method BackupMethod `json:"method,omitempty"`
}

// An InstanceReference names an instance in the same namespace.
type InstanceReference struct {
	// Kind of the instance. MySQL and Database are claims. MySQL.crossplane-mysql.io is a MySQL without a claim. The
	// default is MySQL.
	//
	// +optional
	// +kubebuilder:default=MySQL
	// +kubebuilder:validation:Enum=MySQL;Database;MySQL.crossplane-mysql.io
	Kind string `json:"kind,omitempty"`
	// Name of the instance.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// A BackupObjectStatus reports the progress of a backup and the location of its archive.
type BackupObjectStatus struct {
	// Conditions of the backup. Complete is True once the archive has been written, read back and verified.
	// RestoreTested is True once a server has started from a copy of the archive and found its tables intact.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Message describes the progress of the backup, or what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Origin is the reason for the backup: Request, Schedule, ImageChange (before a version upgrade) or Deletion.
	//
	// +optional
	Origin BackupOrigin `json:"origin,omitempty"`
	// Method of the backup: Online or Cold.
	//
	// +optional
	Method BackupMethod `json:"method,omitempty"`
	// StartTime is the time at which the backup started.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is the time at which the archive was verified.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Location of the archive.
	//
	// +optional
	Location *BackupLocation `json:"location,omitempty"`
	// Size of the archive, such as 300Mi.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// ServerVersion is the MySQL version that wrote the data, such as 8.4.6.
	//
	// +optional
	ServerVersion string `json:"serverVersion,omitempty"`
	// Record is the name of the BackupRecord. The platform team can read it.
	//
	// +optional
	Record string `json:"record,omitempty"`
}

// A BackupLocation identifies where the archive of a backup is stored.
type BackupLocation struct {
	// Kind of the location: BackupStore, or PersistentVolumeClaim in the namespace of the Backup.
	//
	// +kubebuilder:validation:Enum=BackupStore;PersistentVolumeClaim
	Kind string `json:"kind"`
	// Name of the BackupStore or the PersistentVolumeClaim.
	Name string `json:"name"`
	// Path of the archive in that location.
	//
	// +optional
	Path string `json:"path,omitempty"`
}

// Conditions of a Backup.
const (
	// ConditionComplete is True once the archive has been verified.
	ConditionComplete = "Complete"
	// ConditionRestoreTested is True once a server has started from a copy of the archive.
	ConditionRestoreTested = "RestoreTested"
)

// Reasons of ConditionComplete.
const (
	// ReasonBackupWaiting means that the backup has not started yet.
	ReasonBackupWaiting = "Waiting"
	// ReasonBackupInProgress means that the backup is being taken.
	ReasonBackupInProgress = "InProgress"
	// ReasonBackupVerified means that the archive was verified.
	ReasonBackupVerified = "Verified"
	// ReasonBackupFailed means that the backup failed and is not retried.
	ReasonBackupFailed = "Failed"
)

// IsAnswered reports whether the backup that this Backup requests was verified or has failed. The controller then takes
// no other backup for this Backup.
func (b *Backup) IsAnswered() bool {
	for _, c := range b.Status.Conditions {
		if c.Type == ConditionComplete {
			return c.Reason == ReasonBackupVerified || c.Reason == ReasonBackupFailed
		}
	}
	return false
}

// KindOfInstance returns the kind of the instance to back up, as in Instance.Kind. The default is MySQL.
func (b *Backup) KindOfInstance() string {
	if b.Spec.Instance.Kind == "" {
		return KindMySQL
	}
	return b.Spec.Instance.Kind
}

// DefaultLabels returns the labels that a BackupRecord is created with.
func (b *BackupRecord) DefaultLabels() map[string]string {
	out := b.Spec.Instance.Instance().Labels()
	out[LabelBackup] = BackupKey(b.Spec.Instance.Namespace, b.BackupName())
	return out
}

// BackupName returns the name of the Backup for a BackupRecord: the name of the Backup that requested an on-demand
// backup, or else the name of the BackupRecord.
func (b *BackupRecord) BackupName() string {
	if b.Spec.Origin == OriginRequest && b.Spec.Request != "" {
		return b.Spec.Request
	}
	return b.Name
}
