package v1

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A MySQLStatus reports on an instance. The function writes all of it but
// previousBackup, heldBackup, restoreSource, backups, backupNumber, firstBackupNumber, backupNeeds, backupWarning, outsideData, backupNodes,
// restoredBy, blockedBy, crossplaneWarning, settingsVerdict, imageChange, requestedBackup, scheduledBackup, backupSchedule, credentials, tls, pvcDeleted and deletion, which are the controller's.
type MySQLStatus struct {
	// Message says in a sentence how the instance is, and what to do where
	// something is wrong.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// UID of the composite resource that all of this is about. What an earlier one of the
	// same name had is not true of this one: it may have been restored, or written late.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Image of the server.
	//
	// +optional
	Image string `json:"image,omitempty"`

	// ServedImage is the one whose server last took clients: the data is as that server
	// left it. Empty before the first did, and where nothing is stored.
	//
	// +optional
	ServedImage string `json:"servedImage,omitempty"`

	// PendingImage is what the spec asks for where that is of another series than
	// servedImage: a backup is taken before it starts on the data. Empty once it has taken
	// clients.
	//
	// +optional
	PendingImage string `json:"pendingImage,omitempty"`

	// ImageChange is how far that is.
	//
	// +optional
	ImageChange *ImageChangeStatus `json:"imageChange,omitempty"`

	// RequestedBackup is how far the backup is that the claim asked for last.
	//
	// +optional
	RequestedBackup *LastBackupStatus `json:"requestedBackup,omitempty"`

	// ScheduledBackup is how far the backup is that was planned last.
	//
	// +optional
	ScheduledBackup *LastBackupStatus `json:"scheduledBackup,omitempty"`

	// BackupSchedule is when backups are planned.
	//
	// +optional
	BackupSchedule *BackupScheduleStatus `json:"backupSchedule,omitempty"`

	// Endpoint at which clients reach the server.
	//
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	// RefusedService says that the API server refused the Service that spec.service asks for. The server is reached by
	// the Service that it had before, or by one of type ClusterIP. Unset while the Service is as the spec asks for it.
	//
	// +optional
	RefusedService *RefusedService `json:"refusedService,omitempty"`

	// CrossplaneWarning says what Crossplane cannot do for the claim or its composite resource while the server runs.
	//
	// +optional
	CrossplaneWarning string `json:"crossplaneWarning,omitempty"`

	// Binding names the Secret with which clients log in, as that of a Provisioned Service
	// (servicebinding.io).
	//
	// +optional
	Binding *Binding `json:"binding,omitempty"`

	// Volume is the name of the PersistentVolume that holds the data. Once set it
	// never changes: another volume under this claim is refused.
	//
	// +optional
	Volume string `json:"volume,omitempty"`

	// BackupStore is the name of the BackupStore that the next backup goes to. Unset where it
	// goes to a volume.
	//
	// +optional
	BackupStore string `json:"backupStore,omitempty"`

	// Started is true once the server was told to start for the first time. From
	// then on nothing is ever restored into this instance.
	//
	// +optional
	Started bool `json:"started,omitempty"`

	// Initialized is true once somebody has logged in to the server for the first
	// time, or its data was restored. From then on no database is made for this
	// instance: a volume without one is the wrong volume.
	//
	// +optional
	Initialized bool `json:"initialized,omitempty"`

	// GTIDs is true if the server has GTIDs (gtid_mode) by default, as every MySQL server of an
	// instance that started for the first time with a release that has this field. Unset for an
	// older instance: its server has GTIDs if that is the default of its image, or if they were
	// requested.
	//
	// +optional
	GTIDs bool `json:"gtids,omitempty"`

	// Revision is the digest of the template of the server's pod as it was last seen
	// to be what was made for this spec. As long as the Deployment has that one, a
	// newer release of the function leaves it alone.
	//
	// +optional
	Revision string `json:"revision,omitempty"`

	// FixedSettings are the settings that the data directory was initialized with and that cannot
	// change afterwards, such as lower_case_table_names. Unset if the claim had none of them.
	//
	// +optional
	FixedSettings map[string]string `json:"fixedSettings,omitempty"`

	// Settings is how far new settings are that are not in force yet. Unset if there are none.
	//
	// +optional
	Settings *SettingsStatus `json:"settings,omitempty"`

	// SettingsVerdict is what the controller knows of new settings that were refused or taken back.
	//
	// +optional
	SettingsVerdict *SettingsVerdict `json:"settingsVerdict,omitempty"`

	// Restore is the backup that this instance was made from.
	//
	// +optional
	Restore *RestoreStatus `json:"restore,omitempty"`

	// PreviousBackup is what the controller found of earlier instances of this name:
	// None, the name of the newest proven MySQLBackup, or Held where that backup has
	// no record any more. Empty means that it has not looked yet; no server starts
	// before it has.
	//
	// +optional
	PreviousBackup string `json:"previousBackup,omitempty"`

	// HeldBackup is the name of that backup where previousBackup is Held.
	//
	// +optional
	HeldBackup string `json:"heldBackup,omitempty"`

	// RestoreSource is what the controller found of the claim that spec.restore.from names. Nothing is restored
	// from that claim before the controller has looked.
	//
	// +optional
	RestoreSource *RestoreSourceStatus `json:"restoreSource,omitempty"`

	// Backups of this and earlier instances of this name, the newest first, at most ten:
	// what spec.restore.backup may name, as it was when this one's server began, or its last
	// backup since was proven. Their records are in no namespace, and nobody needs a right on them to see this.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Backups []ListedBackup `json:"backups,omitempty"`

	// BackupNumber is the number that the backup of this instance will have.
	//
	// +optional
	BackupNumber int64 `json:"backupNumber,omitempty"`

	// FirstBackupNumber is what backupNumber was when this instance began; empty where it is
	// that still. What another instance has backed up under it, or a greater one, is not in this one.
	//
	// +optional
	FirstBackupNumber int64 `json:"firstBackupNumber,omitempty"`

	// BackupNeeds is the room that the backups there are and one more of the size of the
	// newest take, a quantity. Empty where there is none.
	//
	// +optional
	BackupNeeds string `json:"backupNeeds,omitempty"`

	// BackupWarning says that the next backup will hardly fit on its volume, and what
	// to do. Empty where it will.
	//
	// +optional
	BackupWarning string `json:"backupWarning,omitempty"`

	// OutsideData names data that the server stores outside of its data directory, and says how it is moved. No
	// backup holds that data, and it is lost when the server's pod ends. Empty if there is none.
	//
	// +optional
	OutsideData string `json:"outsideData,omitempty"`

	// BackupNodes are those that can use the volume of the backups, where not all can. The
	// server runs on one of them, or no Job could ever read its data and write there.
	//
	// +optional
	BackupNodes *corev1.NodeSelector `json:"backupNodes,omitempty"`

	// PasswordVersion is the resourceVersion of the Secret with the password, where Crossplane
	// watches that: the controller reads it when this changes.
	//
	// +optional
	PasswordVersion string `json:"passwordVersion,omitempty"`

	// Nodes that Jobs which read the data prefer, and what they tolerate: as the server last ran.
	//
	// +optional
	Nodes *NodePlacement `json:"nodes,omitempty"`

	// Choice of what to start from that the spec had when this instance began: the
	// name of a backup, Never, from/ and the name of another claim, import/ and what was imported, or nothing.
	//
	// +optional
	Choice string `json:"choice,omitempty"`

	// RestoredBy is the UID of the restore Job whose program has restored all, until that
	// Job says so itself, which it never does where somebody added a container to its pod.
	//
	// +optional
	RestoredBy types.UID `json:"restoredBy,omitempty"`

	// BlockedBy is what keeps the server's pod, or that of its restore, from running,
	// as far as only the controller sees it. The function makes the condition Blocked
	// of it: Crossplane turns conditions to Unknown that a failing function does not
	// return, so that nobody else can keep one.
	//
	// +optional
	BlockedBy *Blocker `json:"blockedBy,omitempty"`

	// Credentials is the state of the password in the running server.
	//
	// +optional
	Credentials *CredentialsStatus `json:"credentials,omitempty"`

	// TLS is what the server and its clients know each other by. Unset before the controller
	// has made a certificate; no server starts for the first time before it has, unless the
	// platform allows plain text for its image.
	//
	// +optional
	TLS *TLSStatus `json:"tls,omitempty"`

	// Certified is true if the server's pod has the certificate. One that an earlier release
	// made has none before its next restart, and nobody logs in to it for us until then.
	//
	// +optional
	Certified bool `json:"certified,omitempty"`

	// PVCDeleted is true from when somebody has deleted the PersistentVolumeClaim of the data until it is back on its volume. The
	// server does not run meanwhile.
	//
	// +optional
	PVCDeleted bool `json:"pvcDeleted,omitempty"`

	// Deletion is how far the final backup is.
	//
	// +optional
	Deletion *DeletionStatus `json:"deletion,omitempty"`
}

// A Blocker keeps an instance from running.
type Blocker struct {
	// Reason in one word, as that of the condition Blocked.
	Reason string `json:"reason"`

	// Message of who said it first, in one line that prints.
	Message string `json:"message"`
}

// A SettingsPhase is how far new settings are.
type SettingsPhase string

// Phases of new settings. A server runs with its old settings in all of them but OnTrial.
const (
	// SettingsValidating: a Job starts a server without data with the new settings.
	SettingsValidating SettingsPhase = "Validating"
	// SettingsRefused: that server did not start or serve.
	SettingsRefused SettingsPhase = "Refused"
	// SettingsOnTrial: the server has the new settings, and has not taken clients with them yet.
	SettingsOnTrial SettingsPhase = "OnTrial"
	// SettingsTakenBack: the server kept exiting with the new settings, and runs with those that served last.
	SettingsTakenBack SettingsPhase = "TakenBack"
)

// A SettingsStatus is how far new settings are.
type SettingsStatus struct {
	// ID of the new settings, with the image and the resources that go with them.
	ID string `json:"id"`
	// Phase is Validating, Refused, OnTrial or TakenBack.
	//
	// +kubebuilder:validation:Enum=Validating;Refused;OnTrial;TakenBack
	Phase SettingsPhase `json:"phase"`
	// ConfigHash of the my.cnf of these settings, as the annotation of the server's pod has it.
	//
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
}

// A SettingsVerdict is what became of new settings.
type SettingsVerdict struct {
	// ID of the settings, as status.settings has it.
	ID string `json:"id"`
	// TakenBack is true if the server kept exiting with the settings. Otherwise they were refused before
	// the server had them.
	//
	// +optional
	TakenBack bool `json:"takenBack,omitempty"`
	// Message of mysqld, in one line that prints.
	Message string `json:"message"`
}

// IsOf reports whether the verdict is about the settings of this ID.
func (v *SettingsVerdict) IsOf(id string) bool { return v != nil && v.ID == id && id != "" }

// MaxListedBackups is how many backups a status has.
const MaxListedBackups = 10

// A ListedBackup is a backup as the status of its instance has it.
type ListedBackup struct {
	// Name of its MySQLBackup.
	Name string `json:"name"`
	// Phase is Pending, Running, Proven or Failed.
	//
	// +optional
	Phase BackupPhase `json:"phase,omitempty"`
	// ProvenAt is when the archive's proof held.
	//
	// +optional
	ProvenAt *metav1.Time `json:"provenAt,omitempty"`
	// DataBytes is the size of the data in it.
	//
	// +optional
	DataBytes int64 `json:"dataBytes,omitempty"`
}

// ListBackups as a status has them, the newest first.
func ListBackups(newestFirst []MySQLBackup) []ListedBackup {
	out := make([]ListedBackup, 0, min(len(newestFirst), MaxListedBackups))
	for i := range newestFirst[:min(len(newestFirst), MaxListedBackups)] {
		b := &newestFirst[i]
		listed := ListedBackup{Name: b.Name, Phase: b.Status.Phase, ProvenAt: b.Status.ProvenAt}
		if b.Spec.Archive != nil {
			listed.DataBytes = b.Spec.Archive.DataBytes
		}
		out = append(out, listed)
	}
	return out
}

// PreviousNone is the value of status.previousBackup where the controller found no
// proven backup of the claim. It cannot be a MySQLBackup's name, which has no
// capital letter.
const PreviousNone = "None"

// PreviousHeld is its value where a volume knows a backup of the claim that is newer
// than all records. A person says what becomes of it; until then nothing is started.
const PreviousHeld = "Held"

// A RestoreSourceStatus is what the controller found of backups of another claim of the namespace: in MySQLBackups, on
// backup volumes and in stores.
type RestoreSourceStatus struct {
	// From is the name of the claim.
	From string `json:"from"`
	// NewestBackup is the name of the newest verified MySQLBackup of the claim, None if there is none, or Held if a
	// volume or a store has a newer backup whose MySQLBackup is missing.
	NewestBackup string `json:"newestBackup"`
	// HeldBackup is the name of the backup whose MySQLBackup is missing, if newestBackup is Held.
	//
	// +optional
	HeldBackup string `json:"heldBackup,omitempty"`
}

// A Binding to the server.
type Binding struct {
	// Name of a Secret in the instance's namespace.
	Name string `json:"name"`
}

// A RefusedService is a Service that the API server has refused.
type RefusedService struct {
	// Digest of the spec.service that was refused. Another spec.service is tried at once, this one every ten minutes.
	Digest string `json:"digest"`

	// Message of the API server.
	Message string `json:"message"`
}

// An Endpoint is where clients reach the server.
type Endpoint struct {
	// Host name or address, valid in every namespace of the cluster; for a load
	// balancer its outside address.
	Host string `json:"host"`
	// Port of the server at that host.
	Port int32 `json:"port"`
	// NodePort at which every node of the cluster answers, for Services that
	// have one.
	//
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}

// A RestorePhase is how far a restore is.
type RestorePhase string

// Phases of a restore. The server starts only after Succeeded.
const (
	RestoreRunning   RestorePhase = "Running"
	RestoreSucceeded RestorePhase = "Succeeded"
	RestoreFailed    RestorePhase = "Failed"
)

// A RestoreStatus is the backup that an instance was made from, or what was imported. The choice is
// made once; whatever becomes of the record later, it is read from here.
type RestoreStatus struct {
	// Backup is the name of the MySQLBackup.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Import is what was imported instead.
	//
	// +optional
	Import *Import `json:"import,omitempty"`
	// Phase of the restore: Running, Succeeded or Failed.
	Phase RestorePhase `json:"phase"`
	// Version of the server that wrote the backup.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// CleanShutdown is true if that server was shut down cleanly, without which
	// MySQL does not upgrade a data directory.
	//
	// +optional
	CleanShutdown bool `json:"cleanShutdown,omitzero"`
	// Archive is where the backup lies.
	//
	// +optional
	Archive Archive `json:"archive,omitzero"`
}

// IsRunning is true of a restore that goes on; there may be none.
func (r *RestoreStatus) IsRunning() bool { return r != nil && r.Phase == RestoreRunning }

// What it is, in a sentence.
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
	// State is InSync, Changing or Failed.
	State string `json:"state"`
	// Message says what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// ChangedAt is when the server last accepted a new password.
	//
	// +optional
	ChangedAt *metav1.Time `json:"changedAt,omitempty"`
}

// A TLSStatus says what the server and its clients know each other by.
type TLSStatus struct {
	// Authorities that sign the server's certificates, the older first, as PEM: the ca.crt
	// of the connection Secret. One is here for a whole life of a certificate before it signs.
	Authorities string `json:"authorities"`

	// Issuer that has signed the certificate that was made for the server last. Unset is an
	// authority of the instance alone.
	//
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// IssuerMessage says what is wrong with the issuer that the platform names.
	//
	// +optional
	IssuerMessage string `json:"issuerMessage,omitempty"`

	// NotAfter is when the certificate ends that was made for the server last.
	//
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// ServedNotAfter is when that ends which the server shows. It is the same but for the
	// minutes that it takes to bring a new one into the server, or until the next restart of
	// a server that reads none while it runs (before MySQL 8.0.16).
	//
	// +optional
	ServedNotAfter *metav1.Time `json:"servedNotAfter,omitempty"`

	// Message says what is wrong, and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// End of the certificate that the server shows, as far as it is known, or else of the one that was made for it; nil where
// there is none.
func (s *TLSStatus) End() *metav1.Time {
	if s == nil {
		return nil
	}
	if s.ServedNotAfter != nil {
		return s.ServedNotAfter
	}
	return s.NotAfter
}

// Warning says what is wrong; empty where nothing is.
func (s *TLSStatus) Warning() string {
	if s == nil {
		return ""
	}
	return strings.Join(slices.DeleteFunc([]string{s.IssuerMessage, s.Message}, func(text string) bool { return text == "" }), ". ")
}

// A DeletionPhase is how far a deletion is.
type DeletionPhase string

// Phases of a deletion, in the order in which it goes through them.
const (
	DeletionAnnounced   DeletionPhase = "Announced"
	DeletionStopping    DeletionPhase = "Stopping"
	DeletionBackingUp   DeletionPhase = "BackingUp"
	DeletionRestoreTest DeletionPhase = "RestoreTest"
	DeletionReleasing   DeletionPhase = "Releasing"
	// DeletionFailed is a backup's, which is tried again by itself.
	DeletionFailed DeletionPhase = "Failed"
	// DeletionHeld waits for a person.
	DeletionHeld DeletionPhase = "Held"
)

// A DeletionStatus is how far the final backup is.
type DeletionStatus struct {
	// Phase is Announced, Stopping, BackingUp, RestoreTest or Releasing; Failed while
	// a backup is tried again, and Held while a person has something to do.
	//
	// +optional
	Phase DeletionPhase `json:"phase,omitempty"`
	// Backup is the name of the MySQLBackup.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Percent of the data that has been backed up, 0 to 100.
	//
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Message says what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// An ImageChangeStatus is how far the backup is before an image of another series starts.
type ImageChangeStatus struct {
	// From is the image whose server last wrote the data.
	From string `json:"from"`
	// Fence is true while the server must not run.
	//
	// +optional
	Fence bool `json:"fence,omitempty"`
	// Allowed is true once the backup is proven: the image may start.
	//
	// +optional
	Allowed bool `json:"allowed,omitempty"`
	// Backup is the name of the MySQLBackup.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Percent of the data that has been backed up, 0 to 100.
	//
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Message says what is done, or what is wrong and what to do.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// MayStart is true if an image of another series may start on the data of the one that last took
// clients.
func (c *ImageChangeStatus) MayStart(served string) bool {
	return c != nil && c.Allowed && c.From == served
}

// A BackupScheduleStatus is when backups are planned.
type BackupScheduleStatus struct {
	// Schedule and TimeZone of the spec that this is about.
	Schedule string `json:"schedule"`
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// NextAt is the minute that the next one is planned for. Unset where there is none.
	//
	// +optional
	NextAt *metav1.Time `json:"nextAt,omitempty"`
	// LastAt is when the last one was proven.
	//
	// +optional
	LastAt *metav1.Time `json:"lastAt,omitempty"`
	// MissedAt is the first minute since then that one was planned for which is not there.
	//
	// +optional
	MissedAt *metav1.Time `json:"missedAt,omitempty"`
	// Message says why, or what is wrong with the schedule.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// IsOf a spec.
func (s *BackupScheduleStatus) IsOf(b *BackupSpec) bool {
	if s == nil {
		return b.Schedule == ""
	}
	return s.Schedule == b.Schedule && s.TimeZone == b.TimeZone
}

// BackupUnderWay is the one that is taken of an instance which goes on; nil where none is.
func (s *MySQLStatus) BackupUnderWay() *LastBackupStatus {
	for _, b := range []*LastBackupStatus{s.RequestedBackup, s.ScheduledBackup} {
		if b.IsUnderWay() {
			return b
		}
	}
	return nil
}

// WhoAsksFor a backup, in words.
func (s *MySQLStatus) WhoAsksFor(b *LastBackupStatus) string {
	if b == s.ScheduledBackup {
		return ScheduleText(b.Request)
	}
	return RequestText(b.Request)
}

// RequestText names a request for a backup in a sentence, and ScheduleText a planned minute.
func RequestText(request string) string { return fmt.Sprintf("backup.request %q", request) }

// ScheduleText names a minute of the schedule in a sentence.
func ScheduleText(minute string) string { return "backup.schedule at " + minute }

// A LastBackupStatus is how far the last backup of a running instance is that was taken for one reason: on request, or by the schedule.
type LastBackupStatus struct {
	// Request that it is for; of a planned one, the minute.
	Request string `json:"request"`
	// Phase is Running; Failing, until what was made for it is gone; Failed or Proven.
	//
	// +kubebuilder:validation:Enum=Running;Failing;Failed;Proven
	Phase LastBackupPhase `json:"phase"`
	// Method by which it is taken; empty is Cold.
	//
	// +optional
	// +kubebuilder:validation:Enum=Online;Cold
	Method BackupMethod `json:"method,omitempty"`
	// BegunAt is when it began.
	BegunAt metav1.Time `json:"begunAt"`
	// Fence is true while the server must not run.
	//
	// +optional
	Fence bool `json:"fence,omitempty"`
	// Backup is the name of the MySQLBackup.
	//
	// +optional
	Backup string `json:"backup,omitempty"`
	// Percent of the data that has been backed up, 0 to 100.
	//
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Message says what is done, or why it has failed.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// A LastBackupPhase is how far such a backup is.
type LastBackupPhase string

// Phases of such a backup.
const (
	LastBackupRunning LastBackupPhase = "Running"
	LastBackupFailing LastBackupPhase = "Failing"
	LastBackupFailed  LastBackupPhase = "Failed"
	LastBackupProven  LastBackupPhase = "Proven"
)

// IsOnline is true of one for which the server goes on.
func (s *LastBackupStatus) IsOnline() bool { return s != nil && s.Method == MethodOnline }

// IsUnderWay is true until nothing is left to do.
func (s *LastBackupStatus) IsUnderWay() bool {
	return s != nil && (s.Phase == LastBackupRunning || s.Phase == LastBackupFailing)
}

// IsStale is true of a status that is about another composite resource than the one of this UID.
func (s *MySQLStatus) IsStale(xr types.UID) bool { return s.UID != "" && xr != "" && s.UID != xr }
