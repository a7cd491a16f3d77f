package v1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A MySQLBackup is the record of one backup. It is cluster-scoped, so that
// deleting a namespace cannot delete it, and only the controller writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=msb,path=mysqlbackups,singular=mysqlbackup,categories=crossplane-mysql
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
type MySQLBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MySQLBackupSpec   `json:"spec"`
	Status MySQLBackupStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object, which keep their zero values.
	Unreadable UnreadableFields `json:"-"`
}

// A MySQLBackupList is a list of MySQLBackups.
//
// +kubebuilder:object:root=true
type MySQLBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MySQLBackup `json:"items"`
}

// A MySQLBackupSpec says what was backed up, and where it lies.
type MySQLBackupSpec struct {
	// Instance that was backed up.
	Instance BackedUpInstance `json:"instance"`
	// Image of the server.
	Image string `json:"image"`
	// Version that the server gave as its own before it stopped, such as 8.4.6.
	// Empty where it never answered.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// CleanShutdown is true if the server stopped cleanly.
	//
	// +optional
	CleanShutdown bool `json:"cleanShutdown,omitempty"`
	// StorageSize that the instance had asked for, a quantity such as 1Gi.
	//
	// +optional
	StorageSize string `json:"storageSize,omitempty"`
	// StorageClass of the instance's data volume: a copy of what lies in a store is tried on another of it. Empty
	// for a folder of a node.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClass string `json:"storageClass,omitempty"`
	// Number of the backup among those of its claim: one more than that of the newest
	// one there was when the instance began, or than its own last one; or than one that came to the name meanwhile,
	// such as by an adoption. It is their order, whatever clocks say.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number,omitempty"`
	// Since is the number that the instance began with: that of its first backup, or that this one would have had if
	// none had come to the name meanwhile. Empty where it is that of this one.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Since int64 `json:"since,omitempty"`
	// Origin is why the backup was taken: Deletion of the instance; ImageChange, before
	// an image of another series started on its data; Request of its claim; or Schedule.
	// Empty means Deletion.
	//
	// +optional
	// +kubebuilder:validation:Enum=Deletion;ImageChange;Request;Schedule
	Origin BackupOrigin `json:"origin,omitempty"`
	// Method by which it was taken: Online, of a server that ran, or Cold, of one that was
	// stopped. Empty means Cold.
	//
	// +optional
	// +kubebuilder:validation:Enum=Online;Cold
	Method BackupMethod `json:"method,omitempty"`
	// Request of the claim that asked for it, or the minute that it was planned for.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Request string `json:"request,omitempty"`
	// Nodes that Jobs which read the backup prefer, and what they tolerate: those of the instance.
	//
	// +optional
	Nodes *NodePlacement `json:"nodes,omitempty"`
	// Choice of what to start from that the instance began with: the name of a backup,
	// Never, from/ and the name of another claim, import/ and what was imported, or nothing. The next one does not begin with the same again.
	//
	// +optional
	Choice string `json:"choice,omitempty"`
	// Archive that holds the data. Unset until it is written.
	//
	// +optional
	Archive *Archive `json:"archive,omitempty"`
	// AnnouncedAt is when the backup was announced, in a record that was made again
	// from the note on its volume. It keeps its place among the others.
	//
	// +optional
	AnnouncedAt *metav1.Time `json:"announcedAt,omitempty"`
}

// A BackedUpInstance identifies what was backed up.
type BackedUpInstance struct {
	// Kind of the claim.
	Kind string `json:"kind"`
	// Namespace of the claim.
	Namespace string `json:"namespace"`
	// NamespaceUID tells a namespace from a later one of the same name.
	NamespaceUID types.UID `json:"namespaceUID"`
	// Name of the claim.
	Name string `json:"name"`
	// XR is the UID of the composite resource.
	XR types.UID `json:"xr"`
}

// Life that was backed up.
func (i *BackedUpInstance) Life() Instance {
	return Instance{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, XR: i.XR}
}

// An Archive is a .tar.zst file of a data directory, beside its manifest.json: on a volume,
// or in a store, where it may be encrypted with age.
type Archive struct {
	// PVCName is the PersistentVolumeClaim, in the instance's namespace, of the
	// volume that it lies on. Unset for one in a store.
	//
	// +optional
	PVCName string `json:"pvcName,omitempty"`
	// Store is the name of the BackupStore that it lies in. Unset for one on a volume.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Store string `json:"store,omitempty"`
	// Path of the file on that volume, relative to its root, or in that store, below its
	// prefix.
	Path string `json:"path"`
	// SHA256 of the file, in hexadecimal; of one that is encrypted, as it is without that.
	SHA256 string `json:"sha256"`
	// Size of the same, a quantity.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// DataBytes is the size of the unpacked data.
	//
	// +optional
	DataBytes int64 `json:"dataBytes,omitempty"`
}

// A BackupOrigin is why a backup was taken.
type BackupOrigin string

// Origins of backups.
const (
	OriginDeletion    BackupOrigin = "Deletion"
	OriginImageChange BackupOrigin = "ImageChange"
	OriginRequest     BackupOrigin = "Request"
	OriginSchedule    BackupOrigin = "Schedule"
)

// A BackupPhase is how far a backup is.
type BackupPhase string

// Phases of a backup. Only Proven means that the data may be released: the
// archive was read back, and its checksums and listing hold.
const (
	BackupPending BackupPhase = "Pending"
	BackupRunning BackupPhase = "Running"
	BackupProven  BackupPhase = "Proven"
	BackupFailed  BackupPhase = "Failed"
)

// A MySQLBackupStatus says how far a backup is.
type MySQLBackupStatus struct {
	// Phase is Pending, Running, Proven or Failed.
	//
	// +optional
	// +kubebuilder:validation:Enum=Pending;Running;Proven;Failed
	Phase BackupPhase `json:"phase,omitempty"`
	// Message says what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// StartedAt is when the copy began.
	//
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// ProvenAt is when the archive's proof held.
	//
	// +optional
	ProvenAt *metav1.Time `json:"provenAt,omitempty"`
	// RestoreTest that is under way: a server is started from a copy of the backup.
	// Its Job is known by its UID, and by nothing that others can write.
	//
	// +optional
	RestoreTest *RestoreTest `json:"restoreTest,omitempty"`
	// Conditions of the backup: Restorable, once it is known.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A RestoreTest has its turn from before its Job is made until after that is gone.
type RestoreTest struct {
	// ID of the turn, which the Job carries as an annotation from its creation on.
	ID types.UID `json:"id"`
	// Job is the UID of the Job. Empty until it is made.
	//
	// +optional
	Job types.UID `json:"job,omitempty"`
	// StartedAt is when it had its turn.
	StartedAt metav1.Time `json:"startedAt"`
	// Awaited is true if a deletion waits for it.
	//
	// +optional
	Awaited bool `json:"awaited,omitempty"`
	// Concluded is true once the condition Restorable says what came of it. The Job has
	// had its say, and no clock is asked which of them is older.
	//
	// +optional
	Concluded bool `json:"concluded,omitempty"`
}

// IsInDoubt is true of a record of which something cannot be read that says what was backed up, where the archive is, or how far the
// backup is. Nothing is removed or written on the word of such a record.
func (b *MySQLBackup) IsInDoubt() bool {
	return b.Unreadable.HasAny("spec", "status.phase", "status.restoreTest")
}

// WhyUnreadable says which fields cannot be read, and how to repair them. It is empty if all were read.
func (b *MySQLBackup) WhyUnreadable() string {
	if len(b.Unreadable) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s: %s. To repair it: %s", KindMySQLBackup, b.Name, b.Unreadable, b.Unreadable.Edit("mysqlbackup "+b.Name))
}

// IsProven is true once the archive was read back, and is what was on the disk.
func (b *MySQLBackup) IsProven() bool { return b.Status.Phase == BackupProven }

// Announced is when a backup was announced. The API server says so, and not a clock
// of ours.
func (b *MySQLBackup) Announced() metav1.Time {
	if at := b.Spec.AnnouncedAt; at != nil {
		return *at
	}
	return b.CreationTimestamp
}

// After is true if a backup is newer than another. Of rivals time decides, and names
// within the same second: that is an order, and no reason to restore either.
func (b *MySQLBackup) After(other *MySQLBackup) bool {
	if b.Spec.Number != other.Spec.Number {
		return b.Spec.Number > other.Spec.Number
	}
	mine, its := b.Announced(), other.Announced()
	if mine.Equal(&its) {
		return b.Name > other.Name
	}
	return its.Before(&mine)
}

// IsRivalOf is true of backups of two instances that lived beside each other, as their
// numbers tell: neither has the other's rows, and no clock says which of them are wanted.
func (b *MySQLBackup) IsRivalOf(other *MySQLBackup) bool {
	return b.Spec.Number > 0 && other.Spec.Number > 0 && b.Spec.Instance.XR != other.Spec.Instance.XR &&
		b.since() <= other.Spec.Number && other.since() <= b.Spec.Number
}

// NewestFirst is the order of backups, for slices.SortFunc.
func NewestFirst(a, b *MySQLBackup) int {
	switch {
	case a.After(b):
		return -1
	case b.After(a):
		return 1
	}
	return 0
}

// LatestBackup of those that match, or nil.
func LatestBackup(backups []MySQLBackup, match func(*MySQLBackup) bool) *MySQLBackup {
	var out *MySQLBackup
	for i := range backups {
		if b := &backups[i]; match(b) && (out == nil || b.After(out)) {
			out = b
		}
	}
	return out
}

// InStore is true of a backup whose archive lies in a BackupStore.
func (b *MySQLBackup) InStore() bool { return b.Spec.Archive != nil && b.Spec.Archive.Store != "" }

// IsBeingTried is true while a restore test has not had its say.
func (b *MySQLBackup) IsBeingTried() bool {
	return b.Status.RestoreTest != nil && !b.Status.RestoreTest.Concluded
}

// MayDeleteArchive is true if somebody said of this very record that its archive
// goes with it.
func (b *MySQLBackup) MayDeleteArchive() bool {
	return b.UID != "" && b.Annotations[AnnotationDeleteArchive] == string(b.UID)
}

// A BackupNote is what the volume of a proven backup says of it, so that its record
// can be made again.
type BackupNote struct {
	// Record is the UID of the record.
	Record types.UID `json:"record"`
	// AnnouncedAt is when the backup was announced.
	AnnouncedAt metav1.Time `json:"announcedAt"`
	// Spec of the record.
	Spec MySQLBackupSpec `json:"spec"`
}

// PublishedArchive identifies the record and the archive of a note, as AnnotationPublished has them.
func (n *BackupNote) PublishedArchive() string {
	if n.Spec.Archive == nil {
		return ""
	}
	return string(n.Record) + " " + n.Spec.Archive.SHA256
}

// A StoreNote is what a store says of a proven backup in it, so that its record can be made
// again, on this cluster or another.
type StoreNote struct {
	BackupNote

	// Name of the record.
	Name string `json:"name"`
	// From is the instance as the backup was taken of it, where a namespace of another cluster has adopted that: the archive lies in
	// its folder. Unset where it lies beside the note.
	From *BackedUpInstance `json:"from,omitempty"`
	// Manifest of the archive, as the Job that wrote it has reported.
	Manifest json.RawMessage `json:"manifest"`
}

// ArchiveFolder has the archive, and what other attempts at it have left.
func (n *StoreNote) ArchiveFolder() string {
	if n.From != nil {
		return StoreFolder(*n.From, n.Name)
	}
	return StoreFolder(n.Spec.Instance, n.Name)
}

// Note of a record.
func (b *MySQLBackup) Note() BackupNote {
	return BackupNote{Record: b.UID, AnnouncedAt: b.Announced(), Spec: *b.Spec.DeepCopy()}
}

// since is the number of the first backup of its instance.
func (b *MySQLBackup) since() int64 {
	if b.Spec.Since > 0 {
		return b.Spec.Since
	}
	return b.Spec.Number
}
