package v1

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A MySQLStatus reports the state of an instance. The controller writes backups.recent, tls, deletion and parts of
// internal. The function writes all other fields.
type MySQLStatus struct {
	// InternalStatus is no part of the API. The function and the controller store their state in it. It can change
	// with each release.
	//
	// +optional
	InternalStatus `json:"internal,omitzero"`

	// Message describes the state of the instance, and what to do if something is wrong.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// Reason is the state of the instance in one word. It is Running, or the reason of the condition that needs
	// attention, or the phase of the deletion.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// ObservedGeneration is the metadata.generation that the other fields describe. It is set in the API without claims
	// only. A claim has it in each of its conditions instead.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Endpoint is the address at which clients connect to the server.
	//
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	// Binding names the Secret with which clients log in, as defined for a Provisioned Service (servicebinding.io).
	//
	// +optional
	Binding *Binding `json:"binding,omitempty"`

	// Image of the server.
	//
	// +optional
	Image string `json:"image,omitempty"`

	// Volume is the name of the PersistentVolume that contains the data. It never changes once it is set: another
	// volume for this claim is refused.
	//
	// +optional
	Volume string `json:"volume,omitempty"`

	// Restore reports the backup or import that this instance was created from.
	//
	// +optional
	Restore *RestoreStatus `json:"restore,omitempty"`

	// Backups reports the backups of this instance and of previous instances of this name.
	//
	// +optional
	Backups *BackupsStatus `json:"backups,omitempty"`

	// TLS reports the state of the server's certificate. Unset until the controller has created a certificate. The
	// first start of the server waits for it, unless the platform policy allows plain text for the image.
	//
	// +optional
	TLS *TLSStatus `json:"tls,omitempty"`

	// Deletion reports the progress of the final backup.
	//
	// +optional
	Deletion *DeletionStatus `json:"deletion,omitempty"`
}

// An InternalStatus is no part of the API. The function and the controller store their state in it. It can change with
// each release. The controller writes previousBackup, heldBackup, restoreSource, recoverySource, archiving,
// storageGrowth, backupNumber, firstBackupNumber, backupNeeds, backupWarning, outsideData, backupNodes and restoredBy. It
// also writes blockedBy, crossplaneWarning, settingsVerdict, imageChange, requestedBackup, scheduledBackup, backupSchedule, credentials,
// authorities and pvcDeleted. The function writes all other fields.
type InternalStatus struct {
	// UID of the composite resource that the other fields describe. If it differs from the UID of this composite
	// resource, the fields are ignored. They are then from an earlier composite resource of the same name.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// ServedImage is the image of the server that last accepted clients, and that last wrote the data. Empty until a
	// server has accepted clients, and for an instance without a volume.
	//
	// +optional
	ServedImage string `json:"servedImage,omitempty"`

	// PendingImage is the image of the spec if it has another release series than servedImage. A backup is taken before
	// it starts with the data. Empty once its server has accepted clients.
	//
	// +optional
	PendingImage string `json:"pendingImage,omitempty"`

	// ImageChange reports the progress of the backup before a version upgrade.
	//
	// +optional
	ImageChange *ImageChangeStatus `json:"imageChange,omitempty"`

	// RequestedBackup reports the progress of the last on-demand backup.
	//
	// +optional
	RequestedBackup *LastBackupStatus `json:"requestedBackup,omitempty"`

	// ScheduledBackup reports the progress of the last scheduled backup.
	//
	// +optional
	ScheduledBackup *LastBackupStatus `json:"scheduledBackup,omitempty"`

	// BackupSchedule reports when scheduled backups are due.
	//
	// +optional
	BackupSchedule *BackupScheduleStatus `json:"backupSchedule,omitempty"`

	// RefusedService is set if the API server refused the Service of spec.service. Clients then use the previous
	// Service, or one of type ClusterIP. Unset while the Service matches the spec.
	//
	// +optional
	RefusedService *RefusedService `json:"refusedService,omitempty"`

	// CrossplaneWarning describes an error that Crossplane reports for the claim or its composite resource while the
	// server runs.
	//
	// +optional
	CrossplaneWarning string `json:"crossplaneWarning,omitempty"`

	// BackupStore is the name of the BackupStore that the next backup is written to. Unset if it is written to a
	// volume.
	//
	// +optional
	BackupStore string `json:"backupStore,omitempty"`

	// Started is true once the function has allowed the server to start for the first time. Nothing is restored into
	// this instance after that.
	//
	// +optional
	Started bool `json:"started,omitempty"`

	// Initialized is true once the controller has logged in to the server for the first time, or the data was restored.
	// No database is initialized for this instance after that, because a volume without a database is the wrong volume.
	//
	// +optional
	Initialized bool `json:"initialized,omitempty"`

	// GTIDs is true if the server has GTIDs (gtid_mode) by default. That is the case for every MySQL instance that
	// started for the first time with a release that has this field. The server of an older instance has GTIDs only if
	// its image or spec.config enables them.
	//
	// +optional
	GTIDs bool `json:"gtids,omitempty"`

	// Revision is the digest of the pod template of the server when it last matched the spec. While the Deployment has
	// this template, a newer release of the function does not change it.
	//
	// +optional
	Revision string `json:"revision,omitempty"`

	// FixedSettings are settings that the data directory was initialized with and that cannot be changed afterwards,
	// such as lower_case_table_names. Unset if the spec had none of them.
	//
	// +optional
	FixedSettings map[string]string `json:"fixedSettings,omitempty"`

	// Settings reports the progress of new settings that are not applied yet. Unset if there are none.
	//
	// +optional
	Settings *SettingsStatus `json:"settings,omitempty"`

	// SettingsVerdict is the reason why the controller refused or rolled back new settings.
	//
	// +optional
	SettingsVerdict *SettingsVerdict `json:"settingsVerdict,omitempty"`

	// PreviousBackup is the result of the search for backups of previous instances. It is None, the name of the newest
	// verified BackupRecord, or Held if the newest backup has no BackupRecord. Empty until the controller has searched.
	// No server starts before that.
	//
	// +optional
	PreviousBackup string `json:"previousBackup,omitempty"`

	// HeldBackup is the name of the backup without a BackupRecord if previousBackup is Held.
	//
	// +optional
	HeldBackup string `json:"heldBackup,omitempty"`

	// RestoreSource is the result of the search for backups of the claim that spec.restore.from names. Nothing is
	// restored from that claim before the controller has searched.
	//
	// +optional
	RestoreSource *RestoreSourceStatus `json:"restoreSource,omitempty"`

	// RecoverySource is the result of the search for a backup and a binary log for spec.restore.at. Nothing is restored
	// before the controller has searched.
	//
	// +optional
	RecoverySource *RecoverySource `json:"recoverySource,omitempty"`

	// Archiving reports the archive of the binary log. Unset if it is not archived.
	//
	// +optional
	Archiving *ArchivingStatus `json:"archiving,omitempty"`

	// StorageGrowth reports the growth of the data volume. It is kept if spec.storageAutogrow is removed.
	//
	// +optional
	StorageGrowth *StorageGrowthStatus `json:"storageGrowth,omitempty"`

	// BackupNumber is the number that the next backup of this instance will have.
	//
	// +optional
	BackupNumber int64 `json:"backupNumber,omitempty"`

	// FirstBackupNumber is the value of backupNumber when this instance was created. Empty if it has not changed. This
	// instance does not contain data that another instance has backed up under this number or a greater one.
	//
	// +optional
	FirstBackupNumber int64 `json:"firstBackupNumber,omitempty"`

	// BackupNeeds is the space that the existing backups and one more of the newest one's size need, as a quantity.
	// Empty if there is no backup.
	//
	// +optional
	BackupNeeds string `json:"backupNeeds,omitempty"`

	// BackupWarning describes why the next backup may not fit on its volume, and what to do. Empty if it fits.
	//
	// +optional
	BackupWarning string `json:"backupWarning,omitempty"`

	// OutsideData names data that the server stores outside of its data directory, and describes how to move it. No
	// backup contains that data, and it is lost when the server's pod ends. Empty if there is none.
	//
	// +optional
	OutsideData string `json:"outsideData,omitempty"`

	// BackupNodes are the nodes that can mount the backup volume, if not all nodes can. The server must run on one of
	// them, so that a Job can mount both volumes.
	//
	// +optional
	BackupNodes *corev1.NodeSelector `json:"backupNodes,omitempty"`

	// PasswordVersion is the resourceVersion of the Secret with the password, if Crossplane watches that Secret. The
	// controller reads the Secret again when it changes.
	//
	// +optional
	PasswordVersion string `json:"passwordVersion,omitempty"`

	// Nodes that Jobs which read the data prefer, and the taints that these Jobs tolerate. Both are copied from the
	// last pod of the server.
	//
	// +optional
	Nodes *NodePlacement `json:"nodes,omitempty"`

	// Choice is the restore source that this instance was created with. It is the name of a backup, Never, from/ with
	// the name of another claim, or import/ with the imported source. Empty means the newest backup.
	//
	// +optional
	Choice string `json:"choice,omitempty"`

	// RestoredBy is the UID of the restore Job whose container has restored all data. It is set until the Job itself is
	// complete. A Job never completes if another container that an admission webhook added to its pod keeps running.
	//
	// +optional
	RestoredBy types.UID `json:"restoredBy,omitempty"`

	// BlockedBy describes what prevents the server's pod, or the pod of its restore, from running, as far as only the
	// controller sees it. The function sets the condition Blocked from it. The controller cannot set the condition,
	// because Crossplane changes conditions to Unknown that a failing function does not return.
	//
	// +optional
	BlockedBy *Blocker `json:"blockedBy,omitempty"`

	// Credentials reports the state of the password in the running server.
	//
	// +optional
	Credentials *CredentialsStatus `json:"credentials,omitempty"`

	// Certified is true if the server's pod mounts the certificate. A pod of an earlier release does not mount it until
	// the pod is replaced. Until then, the controller does not log in to the server.
	//
	// +optional
	Certified bool `json:"certified,omitempty"`

	// PVCDeleted is true if a user has deleted the PersistentVolumeClaim of the data, until it is bound to its volume
	// again. The server is stopped in the meantime.
	//
	// +optional
	PVCDeleted bool `json:"pvcDeleted,omitempty"`

	// Authorities are the certificate authorities of the server's certificates, as PEM, the oldest first. They are the
	// ca.crt of the connection Secret. A new authority signs no certificate until it has been in this list for some time,
	// so that clients trust it by then.
	//
	// +optional
	Authorities string `json:"authorities,omitempty"`
}

// StatusInternal is the field of a status that contains the InternalStatus.
const StatusInternal = "internal"

// A BackupsStatus reports the existing backups and the time of the next one.
type BackupsStatus struct {
	// Store is the name of the BackupStore that the next backup is written to. Unset if it is written to a volume.
	//
	// +optional
	Store string `json:"store,omitempty"`

	// Last is the newest verified backup. Unset if there is none.
	//
	// +optional
	Last *LastBackup `json:"last,omitempty"`

	// NextTime is the time of the next scheduled backup. Unset if there is no schedule.
	//
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`

	// MissedTime is the time of the oldest scheduled backup that was not taken since the last verified backup. Unset if
	// no backup is overdue.
	//
	// +optional
	MissedTime *metav1.Time `json:"missedTime,omitempty"`

	// RecoverableFromTime is the earliest time to which spec.restore.at can recover this instance. It is unset
	// until the binary log is archived, and a backup was verified after that.
	//
	// +optional
	RecoverableFromTime *metav1.Time `json:"recoverableFromTime,omitempty"`

	// RecoverableUntilTime is the time up to which all transactions are archived. It is updated every few minutes, and later
	// transactions are archived within seconds, too.
	//
	// +optional
	RecoverableUntilTime *metav1.Time `json:"recoverableUntilTime,omitempty"`

	// RecoveryPlan describes the recovery that spec.restore.at requests, until the server of this instance starts. With
	// suspend, nothing is restored or created, so that you can read the plan first. If the recovery is not possible, there
	// is no plan, and the condition Accepted describes why, and which times are possible.
	//
	// +optional
	RecoveryPlan *RecoveryPlan `json:"recoveryPlan,omitempty"`

	// Message describes what is wrong with the backups and what to do. For example, a backup is overdue, the next
	// backup would fail, or data is not contained in any backup. Empty if nothing is wrong.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// Recent lists the newest backups, at most ten, the newest first. These are the backups that spec.restore.backup
	// can name. The list is updated when the server of this instance starts and when a backup is verified.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	Recent []ListedBackup `json:"recent,omitempty"`
}

// A LastBackup is the newest verified backup of all instances that have had the same name in the same namespace.
type LastBackup struct {
	// Name of the Backup.
	Name string `json:"name"`

	// CompletionTime is the time at which the backup was verified.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// Size of the data in the backup, as a quantity in Mi or Gi.
	//
	// +optional
	Size string `json:"size,omitempty"`
}

// A Blocker prevents an instance from running.
type Blocker struct {
	// Reason of the condition Blocked, as one word such as PodFailure.
	Reason string `json:"reason"`

	// Message of the component that reported the problem first, as a single printable line.
	Message string `json:"message"`
}

// A SettingsPhase is the progress of new settings.
type SettingsPhase string

// Phases of new settings. In all phases except OnTrial, the server runs with its old settings.
const (
	// SettingsValidating means that a Job starts a server without data with the new settings.
	SettingsValidating SettingsPhase = "Validating"
	// SettingsRefused means that the server in the validating Job did not start or did not accept clients.
	SettingsRefused SettingsPhase = "Refused"
	// SettingsOnTrial means that the server has the new settings, and has not accepted clients with them yet.
	SettingsOnTrial SettingsPhase = "OnTrial"
	// SettingsTakenBack means that the server kept exiting with the new settings. It runs with the last settings that
	// worked.
	SettingsTakenBack SettingsPhase = "TakenBack"
)

// A SettingsStatus reports the progress of new settings.
type SettingsStatus struct {
	// ID of the new settings, including the image and the resources that they are applied with.
	ID string `json:"id"`
	// Phase of the new settings: Validating, Refused, OnTrial or TakenBack.
	//
	// +kubebuilder:validation:Enum=Validating;Refused;OnTrial;TakenBack
	Phase SettingsPhase `json:"phase"`
	// ConfigHash of the my.cnf with these settings, as in the annotation of the server's pod.
	//
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
}

// A SettingsVerdict is the reason why new settings were refused or rolled back.
type SettingsVerdict struct {
	// ID of the settings, as in status.internal.settings.
	ID string `json:"id"`
	// TakenBack is true if the server kept exiting with the settings, and they were rolled back. If false, they were
	// refused before they were applied to the server.
	//
	// +optional
	TakenBack bool `json:"takenBack,omitempty"`
	// Message of mysqld, as a single printable line.
	Message string `json:"message"`
}

// IsOf reports whether the verdict is about the settings with this ID, and not about earlier ones.
func (v *SettingsVerdict) IsOf(id string) bool { return v != nil && v.ID == id && id != "" }

// MaxListedBackups is the maximum number of backups in a status.
const MaxListedBackups = 10

// A ListedBackup is a backup in the status of its instance.
type ListedBackup struct {
	// Name of the Backup.
	Name string `json:"name"`
	// Record is the name of the BackupRecord, if it differs from the name of the Backup.
	//
	// +optional
	Record string `json:"record,omitempty"`
	// Phase of the backup: Pending, Running, `Verified` (the archive was verified) or Failed.
	//
	// +optional
	Phase BackupPhase `json:"phase,omitempty"`
	// CompletionTime is the time at which the backup was verified.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Size of the data in the backup, as a quantity in Mi or Gi.
	//
	// +optional
	Size string `json:"size,omitempty"`
}

// ListBackups returns the newest backups for status.backups.recent. It lists each name only once, because the API
// server refuses duplicates.
func ListBackups(newestFirst []BackupRecord) []ListedBackup {
	out := make([]ListedBackup, 0, min(len(newestFirst), MaxListedBackups))
	for i := range newestFirst {
		b := &newestFirst[i]
		listed := ListedBackup{Name: b.BackupName(), Phase: b.Status.Phase, CompletionTime: b.Status.CompletionTime}
		if slices.ContainsFunc(out, func(l ListedBackup) bool { return l.Name == listed.Name }) {
			continue
		}
		if listed.Name != b.Name {
			listed.Record = b.Name
		}
		if b.Spec.Archive != nil && b.Spec.Archive.DataBytes > 0 {
			listed.Size = SizeText(b.Spec.Archive.DataBytes)
		}
		if out = append(out, listed); len(out) == MaxListedBackups {
			break
		}
	}
	return out
}

// ListedBackups returns the recent backups of a status, the newest first.
func (s *MySQLStatus) ListedBackups() []ListedBackup {
	if s.Backups == nil {
		return nil
	}
	return s.Backups.Recent
}

// NewestListed returns the newest verified backup among the recent ones, or nil.
func (s *MySQLStatus) NewestListed() *LastBackup {
	for _, b := range s.ListedBackups() {
		if b.Phase == BackupVerified {
			return &LastBackup{Name: b.Name, CompletionTime: b.CompletionTime, Size: b.Size}
		}
	}
	return nil
}

// PreviousNone is the value of status.internal.previousBackup if the claim has no verified backup. It cannot be the
// name of a BackupRecord, because names of objects contain no capital letters.
const PreviousNone = "None"

// PreviousHeld is the value of status.internal.previousBackup if a volume or a store contains a newer backup than any
// BackupRecord. No server starts until a user has decided what to do with that backup.
const PreviousHeld = "Held"

// A RestoreSourceStatus is the result of the search for backups of another claim in the namespace. The controller
// searches in BackupRecords, on backup volumes and in stores.
type RestoreSourceStatus struct {
	// From is the name of the claim. If spec.restore.fromKind is set, the kind and a slash come before the name.
	From string `json:"from"`
	// NewestBackup is the name of the newest verified BackupRecord of the claim, or None if there is none. It is Held
	// if a volume or a store has a newer backup whose BackupRecord is missing.
	NewestBackup string `json:"newestBackup"`
	// HeldBackup is the name of the backup whose BackupRecord is missing, if newestBackup is Held.
	//
	// +optional
	HeldBackup string `json:"heldBackup,omitempty"`
}

// A Binding names the Secret for clients of the server.
type Binding struct {
	// Name of a Secret in the instance's namespace.
	Name string `json:"name"`
}

// A RefusedService is a Service that the API server refused.
type RefusedService struct {
	// Digest of the refused spec.service. The function retries it every ten minutes, and a changed spec.service at
	// once.
	Digest string `json:"digest"`

	// Message of the API server.
	Message string `json:"message"`
}

// An Endpoint is the address at which clients connect to the server.
type Endpoint struct {
	// Host name or address, valid in every namespace of the cluster. For a load balancer it is the external address.
	Host string `json:"host"`
	// Port of the server at that host.
	Port int32 `json:"port"`
	// NodePort is the port of the server on every node of the cluster. Unset if the Service has no node port.
	//
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}

// A RestorePhase is the progress of a restore.
type RestorePhase string

// Phases of a restore. The server starts only after RestoreSucceeded.
const (
	RestoreRunning   RestorePhase = "Running"
	RestoreSucceeded RestorePhase = "Succeeded"
	RestoreFailed    RestorePhase = "Failed"
)

// A RestoreStatus reports the backup or import that an instance was created from. It is chosen once. Later changes of
// the BackupRecord do not change it.
type RestoreStatus struct {
	// Backup is the name of the BackupRecord.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Import specifies the imported database, if the instance was created from an import.
	//
	// +optional
	Import *Import `json:"import,omitempty"`
	// Phase of the restore: Running, Succeeded or Failed.
	Phase RestorePhase `json:"phase"`
	// Version of the server that wrote the backup.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// CleanShutdown is true if that server shut down cleanly. MySQL upgrades a data directory only after a clean
	// shutdown.
	//
	// +optional
	CleanShutdown bool `json:"cleanShutdown,omitzero"`
	// Archive is the location of the backup.
	//
	// +optional
	Archive Archive `json:"archive,omitzero"`
	// Recovery specifies the archived binary log that is applied to the backup, if spec.restore.at is set.
	//
	// +optional
	Recovery *Recovery `json:"recovery,omitempty"`
}

// A Recovery specifies the part of an archived binary log that is applied to a restored backup.
type Recovery struct {
	// At is the time or the GTID up to which transactions are applied, as in spec.restore.at.
	At string `json:"at"`
	// Timeline is the prefix of the archived binary log in the BackupStore.
	Timeline string `json:"timeline"`
	// Segment is the number of the last segment of the archived binary log.
	Segment int64 `json:"segment"`
	// Digest is the SHA-256 checksum of the manifest of that segment.
	Digest string `json:"digest"`
	// Until is the time up to which the archived binary log contains all transactions.
	Until string `json:"until"`
}

// An ArchivingStatus reports the archive of the binary log.
type ArchivingStatus struct {
	// OK is true while transactions are archived.
	OK bool `json:"ok"`
	// Message describes why transactions are not archived, and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Unsupported is true if the server cannot archive its binary log, for example because it has no GTIDs.
	//
	// +optional
	Unsupported bool `json:"unsupported,omitempty"`
	// Suspended is true if commits do not wait for the BackupStore, although the durability of the instance is Store. The
	// controller sets it before it lets the server continue.
	//
	// +optional
	Suspended bool `json:"suspended,omitempty"`
	// Since is the time from which on the binary log is archived without a gap.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Until is the time up to which all transactions are archived. It is updated every few minutes.
	//
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// From is the earliest time to which the instance can be recovered. Unset until a backup was verified after since.
	//
	// +optional
	From *metav1.Time `json:"from,omitempty"`
}

// A StorageGrowthStatus reports the growth of the data volume.
type StorageGrowthStatus struct {
	// Size is the size to which the controller has grown the data volume, as a quantity. It never becomes smaller. Empty
	// if the volume has not grown.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// FileSystem is the size of the file system before the last growth, as a quantity. The volume does not grow again
	// before its file system is larger.
	//
	// +optional
	FileSystem string `json:"fileSystem,omitempty"`
	// GrownTime is the time of the last growth.
	//
	// +optional
	GrownTime *metav1.Time `json:"grownTime,omitempty"`
	// Reason is the reason of the condition StorageAutogrow.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is the message of the condition StorageAutogrow.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// A RecoverySource is the result of the search for a backup and a binary log for spec.restore.at.
type RecoverySource struct {
	// Choice is the restore source for which the controller has searched: @ with the value of spec.restore.at, after from/
	// with the name of another instance.
	Choice string `json:"choice"`
	// Backup is the name of the BackupRecord with which the recovery begins. Empty if the recovery is not possible.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Recovery identifies the part of the archived binary log that the recovery applies. Unset if the recovery is not
	// possible.
	//
	// +optional
	Recovery *Recovery `json:"recovery,omitempty"`
	// Message describes why the recovery is not possible, and to which times a recovery is possible.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Plan describes the recovery. Unset if the recovery is not possible.
	//
	// +optional
	Plan *RecoveryPlan `json:"plan,omitempty"`
}

// IsRunning reports whether the restore is in progress. A nil restore is not.
func (r *RestoreStatus) IsRunning() bool { return r != nil && r.Phase == RestoreRunning }

// What returns a description of the restore for use in a message.
func (r *RestoreStatus) What() string {
	if r.Import != nil {
		return "the import of " + r.Import.String()
	}
	return fmt.Sprintf("the restore of backup %q", r.Backup)
}

// States of the credentials.
const (
	CredentialsInSync   = "InSync"
	CredentialsChanging = "Changing"
	CredentialsFailed   = "Failed"
)

// A CredentialsStatus is the state of the password in the running server.
type CredentialsStatus struct {
	// State of the password: InSync, Changing or Failed.
	State string `json:"state"`
	// Message describes what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// ChangedAt is the time at which the server last accepted a new password.
	//
	// +optional
	ChangedAt *metav1.Time `json:"changedAt,omitempty"`
}

// A TLSStatus describes the server's certificate.
type TLSStatus struct {
	// Issuer that signed the newest certificate of the server. If unset, the instance's own certificate authority
	// signed it.
	//
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// IssuerMessage describes what is wrong with the issuer that the Platform names.
	//
	// +optional
	IssuerMessage string `json:"issuerMessage,omitempty"`

	// ExpirationTime is the time at which the newest certificate of the server expires.
	//
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// PresentedExpirationTime is the time at which the certificate expires that the server presents to clients. It
	// differs from expirationTime for some minutes, until the server has loaded a new certificate. MySQL before 8.0.16
	// loads a certificate only at a restart.
	//
	// +optional
	PresentedExpirationTime *metav1.Time `json:"presentedExpirationTime,omitempty"`

	// Message describes what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// End returns the expiration time of the certificate that the server presents. If that certificate is unknown, it
// returns the expiration time of the newest certificate, or nil if there is none.
func (s *TLSStatus) End() *metav1.Time {
	if s == nil {
		return nil
	}
	if s.PresentedExpirationTime != nil {
		return s.PresentedExpirationTime
	}
	return s.ExpirationTime
}

// Warning returns the messages about the certificate and its issuer, or "" if there are none.
func (s *TLSStatus) Warning() string {
	if s == nil {
		return ""
	}
	return strings.Join(slices.DeleteFunc([]string{s.IssuerMessage, s.Message},
		func(text string) bool { return text == "" }), ". ")
}

// A DeletionPhase is the progress of a deletion.
type DeletionPhase string

// Phases of a deletion, in their order.
const (
	DeletionAnnounced   DeletionPhase = "Announced"
	DeletionStopping    DeletionPhase = "Stopping"
	DeletionBackingUp   DeletionPhase = "BackingUp"
	DeletionRestoreTest DeletionPhase = "RestoreTest"
	DeletionReleasing   DeletionPhase = "Releasing"
	// DeletionFailed means that the backup failed. It is retried automatically.
	DeletionFailed DeletionPhase = "Failed"
	// DeletionBlocked means that the deletion waits for manual action.
	DeletionBlocked DeletionPhase = "Blocked"
)

// A DeletionStatus reports the progress of the final backup.
type DeletionStatus struct {
	// Phase of the deletion. In order, it is Announced, Stopping, BackingUp, RestoreTest and Releasing. Failed means
	// that a backup failed and is retried. Blocked means that the deletion waits for manual action.
	//
	// +optional
	Phase DeletionPhase `json:"phase,omitempty"`
	// Backup is the name of the BackupRecord.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Percent of the data that has been backed up, from 0 to 100.
	//
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Message describes what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// An ImageChangeStatus reports the progress of the backup before a version upgrade.
type ImageChangeStatus struct {
	// From is the image of the server that last wrote the data. It is empty while the server keeps running, because
	// the backup cannot be taken.
	From string `json:"from"`
	// Fence is true while the server must not run, because its data is being copied.
	//
	// +optional
	Fence bool `json:"fence,omitempty"`
	// Allowed is true once the backup is verified and the new image may start.
	//
	// +optional
	Allowed bool `json:"allowed,omitempty"`
	// Backup is the name of the BackupRecord.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Percent of the data that has been backed up, from 0 to 100.
	//
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Message describes the progress, or what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// MayStart reports whether an image of another release series may start with the data of the served image.
func (c *ImageChangeStatus) MayStart(served string) bool {
	return c != nil && c.Allowed && c.From == served
}

// A BackupScheduleStatus reports when scheduled backups are due.
type BackupScheduleStatus struct {
	// Schedule is the cron expression for which NextAt was computed.
	Schedule string `json:"schedule"`
	// TimeZone is the time zone for which NextAt was computed.
	//
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// NextAt is the time of the next scheduled backup. Unset if there is none.
	//
	// +optional
	NextAt *metav1.Time `json:"nextAt,omitempty"`
	// LastAt is the time at which the last scheduled backup was verified.
	//
	// +optional
	LastAt *metav1.Time `json:"lastAt,omitempty"`
	// MissedAt is the time of the oldest scheduled backup since lastAt that was not taken.
	//
	// +optional
	MissedAt *metav1.Time `json:"missedAt,omitempty"`
	// Message is the reason for the missed backup, or describes what is wrong with the schedule.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// IsOf reports whether the status describes the schedule of this spec.
func (s *BackupScheduleStatus) IsOf(b *BackupSpec) bool {
	if s == nil {
		return b.Schedule == nil
	}
	return s.Schedule == b.Cron() && s.TimeZone == b.TimeZone()
}

// BackupUnderWay returns the on-demand or scheduled backup that is in progress. It is nil if there is none.
func (s *MySQLStatus) BackupUnderWay() *LastBackupStatus {
	for _, b := range []*LastBackupStatus{s.RequestedBackup, s.ScheduledBackup} {
		if b.IsUnderWay() {
			return b
		}
	}
	return nil
}

// WhatIsTaken returns a description of a backup for use in a message.
func (s *MySQLStatus) WhatIsTaken(b *LastBackupStatus) string {
	if b == s.ScheduledBackup {
		return ScheduledBackupText(b.Request)
	}
	return BackupText(b.Request)
}

// BackupText returns a description of a Backup for use in a message.
func BackupText(name string) string { return fmt.Sprintf("backup %q", name) }

// ScheduledBackupText returns a description of the backup that was scheduled for a minute, for use in a message.
func ScheduledBackupText(minute string) string { return "the scheduled backup of " + minute }

// A LastBackupStatus reports the progress of the last on-demand backup, or of the last scheduled backup.
type LastBackupStatus struct {
	// Request is the name of the Backup that requested this backup. For a scheduled backup, it is the scheduled minute.
	Request string `json:"request"`
	// UID of the Backup that requested this backup.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Phase of the backup: Running, Failing (its objects are being deleted), Failed or `Verified` (the archive was
	// verified).
	//
	// +kubebuilder:validation:Enum=Running;Failing;Failed;Verified
	Phase LastBackupPhase `json:"phase"`
	// Method of the backup: Online or Cold. Empty means Cold.
	//
	// +optional
	// +kubebuilder:validation:Enum=Online;Cold
	Method BackupMethod `json:"method,omitempty"`
	// BegunAt is the time at which the backup started.
	BegunAt metav1.Time `json:"begunAt"`
	// Fence is true while the server must not run, because its data is being copied.
	//
	// +optional
	Fence bool `json:"fence,omitempty"`
	// Backup is the name of the BackupRecord.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Percent of the data that has been backed up, from 0 to 100.
	//
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Message describes the progress, or why the backup failed.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// A LastBackupPhase is the progress of an on-demand or scheduled backup.
type LastBackupPhase string

// Phases of an on-demand or scheduled backup.
const (
	LastBackupRunning  LastBackupPhase = "Running"
	LastBackupFailing  LastBackupPhase = "Failing"
	LastBackupFailed   LastBackupPhase = "Failed"
	LastBackupVerified LastBackupPhase = "Verified"
)

// IsOnline reports whether the server keeps running during the backup.
func (s *LastBackupStatus) IsOnline() bool { return s != nil && s.Method == MethodOnline }

// IsUnderWay reports whether the backup is in progress, or its objects are still being deleted.
func (s *LastBackupStatus) IsUnderWay() bool {
	return s != nil && (s.Phase == LastBackupRunning || s.Phase == LastBackupFailing)
}

// IsStale reports whether the status describes a composite resource with a different UID.
func (s *MySQLStatus) IsStale(xr types.UID) bool { return s.UID != "" && xr != "" && s.UID != xr }
