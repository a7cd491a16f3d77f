package instance

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
)

// Settings are the settings of the controller that affect the objects it creates.
type Settings struct {
	// AgentImage is the image of Jobs. JobResources are the resources of their containers, or nil for the default.
	AgentImage   string
	JobResources *corev1.ResourceRequirements
	// BackupClass is the StorageClass of backup volumes. If it is nil, they have the class of the data volume.
	BackupClass *string
	// Namespace is the controller's own namespace, which contains the certificate authorities of servers. It is empty if
	// there are no certificate authorities.
	Namespace string
}

// A State contains all objects of one instance. It is read from the API server and never from a cache. Objects with
// other owners are excluded. Gatherer.readInstance reads the parts in the order of these fields.
type State struct {
	Basis
	BackupVolumes
	Noted
	StoreAnswers
	Work

	// Undefined is true if the XRD of the kind is being deleted or no longer exists. It is read only while a deletion
	// waits for Crossplane.
	Undefined bool
	// CrossplaneAwaited is the time for which this process has seen the deletion wait for Crossplane. It is measured
	// with a monotonic clock, so that a change of the system time does not affect it.
	CrossplaneAwaited time.Duration
	// Refusal describes why the API server, a server or a store refused the last step, or is nil.
	Refusal *Refusal

	// Uncomposed is the last event of the XR about an object that Crossplane could not apply. It is empty while the
	// XR is synced.
	Uncomposed string
	// SettingsVerdict is the verdict on new settings that are not in use yet. It is nil if there is no verdict or
	// there are no new settings.
	SettingsVerdict *v1.SettingsVerdict
	// Source is the claim that spec.restore.from names. It is nil if the field is unset or the backup has been chosen.
	Source *Source
	// Recovery is the backup and the binary log for spec.restore.at. It is nil if the field is unset or the backup has
	// been chosen.
	Recovery *v1.RecoverySource
	// Rules are the quotas and limits of the namespace in which Jobs run, or nil if they were not read.
	Rules *nsrules.Rules
}

// NewState returns a State for the given Subject. Its other parts have not been read yet.
func NewState(s Subject) *State { return &State{Basis: Basis{Subject: s}} }

// A Refusal describes why a step was refused. If a quota or a policy refused it, a user must change the quota, the
// policy or the request. A server or a store can also refuse a step.
type Refusal struct {
	// Of is the action that was refused, such as CreateBackupJob.
	Of string
	// Message is the message of the API server as one printable line. It names the object.
	Message string
	// Missing is true if a store does not contain the archive that a Job has reported.
	Missing bool
	// Passing is true if the refusal is temporary: a server or a store did not respond, and may respond at the next
	// attempt.
	Passing bool
}

// numbered matches words with a digit, such as a source port or a request ID. They can differ in two messages about the
// same problem.
var numbered = regexp.MustCompile(`[\w-]*[0-9][\w-]*`)

// IsSameMessage reports whether two messages differ only in words that contain a digit.
func IsSameMessage(a, b string) bool {
	return numbered.ReplaceAllString(a, "0") == numbered.ReplaceAllString(b, "0")
}

// Latest returns the newest verified backup of all instances with this name, in the format of
// status.internal.previousBackup.
func (s *State) Latest() string { return newestOf(s.Entries, s.Records) }
