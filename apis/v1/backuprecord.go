package v1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A BackupRecord is the catalog entry of one backup. It is cluster-scoped, so that it is not deleted with a namespace.
// Only the controller writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=msbr,path=backuprecords,singular=backuprecord,categories=crossplane-mysql
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,JSONPath=`.spec.instance.namespace`
// +kubebuilder:printcolumn:name="INSTANCE",type=string,JSONPath=`.spec.instance.name`
// +kubebuilder:printcolumn:name="ORIGIN",type=string,JSONPath=`.spec.origin`
// +kubebuilder:printcolumn:name="METHOD",type=string,JSONPath=`.spec.method`
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="RESTORABLE",type=string,JSONPath=`.status.conditions[?(@.type=='Restorable')].status`
// +kubebuilder:printcolumn:name="VERSION",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="SIZE",type=string,JSONPath=`.spec.archive.size`
// +kubebuilder:printcolumn:name="STORE",type=string,JSONPath=`.spec.archive.store`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type BackupRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec identifies what was backed up, and where the archive is stored.
	Spec BackupRecordSpec `json:"spec"`
	// Status reports the progress of the backup.
	Status BackupRecordStatus `json:"status,omitempty"`

	// Unreadable lists the fields of the stored object that could not be decoded. They keep their zero values.
	Unreadable UnreadableFields `json:"-"`
}

// A BackupRecordList is a list of BackupRecords.
//
// +kubebuilder:object:root=true
type BackupRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BackupRecord `json:"items"`
}

// A BackupRecordSpec identifies what was backed up, and where the archive is stored.
type BackupRecordSpec struct {
	// Instance that was backed up.
	Instance BackedUpInstance `json:"instance"`
	// Image of the server that wrote the data.
	Image string `json:"image"`
	// Version that the server reported before it stopped, such as 8.4.6. Empty if the server never reported a version.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// CleanShutdown is true if the server shut down cleanly.
	//
	// +optional
	CleanShutdown bool `json:"cleanShutdown,omitempty"`
	// StorageSize is the size of the data volume that the instance requested, such as 1Gi.
	//
	// +optional
	StorageSize string `json:"storageSize,omitempty"`
	// StorageClass of the instance's data volume. The restore test of a backup in a store uses a volume of this class.
	// Empty if the data was in a hostPath directory.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClass string `json:"storageClass,omitempty"`
	// Number orders the backups of one claim name, independently of clocks. It is one more than the number of the
	// newest backup that existed when the instance was created, or than the instance's own previous backup. It is also
	// greater than the number of a backup that was added to this name later, such as an imported backup.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number,omitempty"`
	// Since is the number that the instance started with. It is the number of its first backup, or the number that this
	// backup would have without backups that were added to this name later. Unset if it equals number.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Since int64 `json:"since,omitempty"`
	// Origin is the reason for the backup. Deletion is the final backup of an instance. ImageChange is the backup
	// before a version upgrade. Request is an on-demand backup, and Schedule is a scheduled backup. Empty means
	// Deletion.
	//
	// +optional
	// +kubebuilder:validation:Enum=Deletion;ImageChange;Request;Schedule
	Origin BackupOrigin `json:"origin,omitempty"`
	// Method of the backup: Online (of a running server) or Cold (of a stopped server). Empty means Cold.
	//
	// +optional
	// +kubebuilder:validation:Enum=Online;Cold
	Method BackupMethod `json:"method,omitempty"`
	// Request is the name of the Backup that requested this backup, or the minute of a scheduled backup.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Request string `json:"request,omitempty"`
	// Nodes that Jobs which read this backup prefer, and the taints that these Jobs tolerate. Both are copied from the
	// instance.
	//
	// +optional
	Nodes *NodePlacement `json:"nodes,omitempty"`
	// ImagePullSecrets of the instance. Jobs that read the backup in the instance's namespace use them.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []ImagePullSecret `json:"imagePullSecrets,omitempty"`
	// Choice is the restore source that the instance was created with. It is the name of a backup, Never, from/ with
	// the name of another claim, or import/ with the imported source. Empty means the newest backup. The next instance
	// of this name does not apply the same restore source again.
	//
	// +optional
	Choice string `json:"choice,omitempty"`
	// Archive that contains the data. Unset until the archive has been written.
	//
	// +optional
	Archive *Archive `json:"archive,omitempty"`
	// AnnouncedAt is the time at which the first BackupRecord of the backup was created, before the backup began. It is set
	// only in a BackupRecord that was recreated from backup metadata, so that the order of the backups is preserved.
	// Otherwise, it is the creation time of the BackupRecord.
	//
	// +optional
	AnnouncedAt *metav1.Time `json:"announcedAt,omitempty"`
	// CompletedAt is the time at which the archive in a BackupStore was completed, by the clock of the Job's node. The data
	// is from an earlier time. Unset until the archive has been written, and for an archive on a volume.
	//
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// A BackedUpInstance identifies the instance that was backed up.
type BackedUpInstance struct {
	// Kind of the claim.
	Kind string `json:"kind"`
	// Namespace of the claim.
	Namespace string `json:"namespace"`
	// NamespaceUID is the UID of the namespace. It distinguishes the namespace from a later namespace of the same name.
	NamespaceUID types.UID `json:"namespaceUID"`
	// Name of the claim.
	Name string `json:"name"`
	// XR is the UID of the composite resource.
	XR types.UID `json:"xr"`
}

// Instance returns the identity of the instance that was backed up.
func (i *BackedUpInstance) Instance() Instance {
	return Instance{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, XR: i.XR}
}

// An Archive is a .tar.zst file of a data directory, stored next to its manifest.json. It is stored on a volume or in a
// BackupStore. In a BackupStore it can be encrypted with age.
type Archive struct {
	// PVCName is the name of the PersistentVolumeClaim whose volume contains the archive. It is in the instance's
	// namespace. Unset if the archive is in a BackupStore.
	//
	// +optional
	PVCName string `json:"pvcName,omitempty"`
	// Store is the name of the BackupStore that contains the archive. Unset if the archive is on a volume.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Store string `json:"store,omitempty"`
	// Path of the file, relative to the root of the volume or to the prefix of the BackupStore.
	Path string `json:"path"`
	// SHA256 sum of the file, in hexadecimal. For an encrypted file it is the sum of the decrypted content.
	SHA256 string `json:"sha256"`
	// Size of the file as a quantity. For an encrypted file it is the size of the decrypted content.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// DataBytes is the size of the unpacked data, in bytes.
	//
	// +optional
	DataBytes int64 `json:"dataBytes,omitempty"`
}

// A BackupOrigin is the reason for a backup.
type BackupOrigin string

// Origins of backups.
const (
	OriginDeletion    BackupOrigin = "Deletion"
	OriginImageChange BackupOrigin = "ImageChange"
	OriginRequest     BackupOrigin = "Request"
	OriginSchedule    BackupOrigin = "Schedule"
)

// A BackupPhase is the progress of a backup.
type BackupPhase string

// Phases of a backup. The data may be released only in the phase BackupVerified, in which the archive was read back and
// its checksums and file list match.
const (
	BackupPending  BackupPhase = "Pending"
	BackupRunning  BackupPhase = "Running"
	BackupVerified BackupPhase = "Verified"
	BackupFailed   BackupPhase = "Failed"
)

// A BackupRecordStatus reports the progress of a backup.
type BackupRecordStatus struct {
	// Phase of the backup: Pending, Running, `Verified` (the archive was verified) or Failed.
	//
	// +optional
	// +kubebuilder:validation:Enum=Pending;Running;Verified;Failed
	Phase BackupPhase `json:"phase,omitempty"`
	// Message describes what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// StartTime is the time at which the copy started.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is the time at which the archive was verified.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// RestoreTest in progress: a server is started from a copy of the backup. The controller identifies its Job by UID
	// only, because users can write all other fields of a Job.
	//
	// +optional
	RestoreTest *RestoreTest `json:"restoreTest,omitempty"`
	// Conditions of the backup. Restorable reports the result of the last restore test. It is missing until the first
	// restore test has ended.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A RestoreTest is a restore test of a backup. It exists from before its Job is created until the Job has been deleted.
type RestoreTest struct {
	// ID of the restore test. The Job has it as an annotation from its creation on.
	ID types.UID `json:"id"`
	// Job is the UID of the Job. Empty until the Job is created.
	//
	// +optional
	Job types.UID `json:"job,omitempty"`
	// StartTime is the time at which the restore test started.
	StartTime metav1.Time `json:"startTime"`
	// Awaited is true if a deletion waits for the restore test.
	//
	// +optional
	Awaited bool `json:"awaited,omitempty"`
	// Concluded is true once the condition Restorable contains the result of this restore test. The controller
	// therefore need not compare the times of the Job and the condition.
	//
	// +optional
	Concluded bool `json:"concluded,omitempty"`
}

// IsInDoubt reports whether an essential field could not be decoded, such as the identity of the instance, the
// archive, the phase or the restore test. The controller must not delete or write anything that depends on the
// BackupRecord.
func (b *BackupRecord) IsInDoubt() bool {
	return b.Unreadable.HasAny("spec", "status.phase", "status.restoreTest")
}

// WhyUnreadable returns a message that names the fields that could not be decoded and says how to repair them. It is
// empty if all fields were decoded.
func (b *BackupRecord) WhyUnreadable() string {
	if len(b.Unreadable) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s: %s. To repair it: %s", KindBackupRecord, b.Name, b.Unreadable,
		b.Unreadable.Edit("backuprecord "+b.Name))
}

// IsVerified reports whether the archive was read back and matches the data on the disk.
func (b *BackupRecord) IsVerified() bool { return b.Status.Phase == BackupVerified }

// Announced returns the time at which the BackupRecord was first created. The API server sets that time, so it does
// not depend on the controller's clock.
func (b *BackupRecord) Announced() metav1.Time {
	if announced := b.Spec.AnnouncedAt; announced != nil {
		return *announced
	}
	return b.CreationTimestamp
}

// After reports whether a backup is newer than another one. Backups with the same number are ordered by time, and by
// name if the times are equal. This order only makes sorting stable, and does not decide which backup to restore.
func (b *BackupRecord) After(other *BackupRecord) bool {
	if b.Spec.Number != other.Spec.Number {
		return b.Spec.Number > other.Spec.Number
	}
	mine, its := b.Announced(), other.Announced()
	if mine.Equal(&its) {
		return b.Name > other.Name
	}
	return its.Before(&mine)
}

// IsRivalOf reports whether two backups come from different instances of a claim name that existed at the same time.
// It compares the ranges of their backup numbers. Neither backup contains the changes in the other, and the newer one
// is not necessarily the one that a user wants.
func (b *BackupRecord) IsRivalOf(other *BackupRecord) bool {
	return b.Spec.Number > 0 && other.Spec.Number > 0 && b.Spec.Instance.XR != other.Spec.Instance.XR &&
		b.since() <= other.Spec.Number && other.since() <= b.Spec.Number
}

// NewestFirst compares two backups for slices.SortFunc, so that the newest backup comes first.
func NewestFirst(a, b *BackupRecord) int {
	switch {
	case a.After(b):
		return -1
	case b.After(a):
		return 1
	}
	return 0
}

// LatestBackup returns the newest of the backups for which match returns true, or nil.
func LatestBackup(backups []BackupRecord, match func(*BackupRecord) bool) *BackupRecord {
	var out *BackupRecord
	for i := range backups {
		if b := &backups[i]; match(b) && (out == nil || b.After(out)) {
			out = b
		}
	}
	return out
}

// InStore reports whether the archive is stored in a BackupStore.
func (b *BackupRecord) InStore() bool { return b.Spec.Archive != nil && b.Spec.Archive.Store != "" }

// IsBeingTried reports whether a restore test of the backup is in progress.
func (b *BackupRecord) IsBeingTried() bool {
	return b.Status.RestoreTest != nil && !b.Status.RestoreTest.Concluded
}

// MayDeleteArchive reports whether a user has allowed the deletion of the archive together with the BackupRecord. The
// value of AnnotationDeleteArchive must be the UID of the BackupRecord.
func (b *BackupRecord) MayDeleteArchive() bool {
	return b.UID != "" && b.Annotations[AnnotationDeleteArchive] == string(b.UID)
}

// A BackupEntry is the backup metadata that is stored on the volume of a verified backup. The controller can recreate
// the BackupRecord from it.
type BackupEntry struct {
	// Record is the UID of the BackupRecord.
	Record types.UID `json:"record"`
	// AnnouncedAt is the time at which the backup was announced.
	AnnouncedAt metav1.Time `json:"announcedAt"`
	// Spec of the BackupRecord.
	Spec BackupRecordSpec `json:"spec"`
}

// PublishedArchive returns the UID of the BackupRecord and the SHA-256 sum of the archive, in the form of
// AnnotationPublished.
func (n *BackupEntry) PublishedArchive() string {
	if n.Spec.Archive == nil {
		return ""
	}
	return string(n.Record) + " " + n.Spec.Archive.SHA256
}

// A StoreEntry is the metadata of a verified backup in a store. The controller can recreate the BackupRecord from it, on
// this cluster or on another one.
type StoreEntry struct {
	BackupEntry

	// Name of the BackupRecord.
	Name string `json:"name"`
	// From is the instance whose prefix in the store contains the archive. It is set if a namespace of another cluster
	// has imported the backup. If unset, the archive is stored next to this metadata.
	From *BackedUpInstance `json:"from,omitempty"`
	// Manifest of the archive, as reported by the Job that wrote it.
	Manifest json.RawMessage `json:"manifest"`
}

// ArchivePrefix returns the prefix of the archive in the store. Earlier attempts at the backup may have left objects
// there, too.
func (n *StoreEntry) ArchivePrefix() string {
	if n.From != nil {
		return StorePrefix(*n.From, n.Name)
	}
	return StorePrefix(n.Spec.Instance, n.Name)
}

// Entry returns the backup metadata from which the controller can recreate this BackupRecord.
func (b *BackupRecord) Entry() BackupEntry {
	return BackupEntry{Record: b.UID, AnnouncedAt: b.Announced(), Spec: *b.Spec.DeepCopy()}
}

// since returns the number of the first backup of the instance that was backed up.
func (b *BackupRecord) since() int64 {
	if b.Spec.Since > 0 {
		return b.Spec.Since
	}
	return b.Spec.Number
}
