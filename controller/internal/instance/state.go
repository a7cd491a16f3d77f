package instance

import (
	"cmp"
	"regexp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
)

// Settings of the controller that what it makes depends on.
type Settings struct {
	// AgentImage of the Jobs, and JobResources that their containers ask for; nil is the
	// usual.
	AgentImage   string
	JobResources *corev1.ResourceRequirements
	// BackupClass of backup volumes; nil means that of the data.
	BackupClass *string
	// Namespace is the controller's own, where the authorities of servers are; empty where none are.
	Namespace string
}

// A State is all that there is of one life of an instance, read from the API
// server and never from a cache. What belongs to somebody else is not in it.
type State struct {
	// Settings of the controller.
	Settings Settings

	// Life of the instance; its XR is empty where there is no XR.
	Life v1.Instance

	// Now is when it was read, and Skew by how much the controller's clock and the API server's differ. What has expired is removed only if they
	// agree.
	Now  time.Time
	Skew clock.Skew
	// ReadAt is when it was read by the monotonic clock of this process. Only the time between two of these means anything.
	ReadAt time.Time

	// Namespace of the claim; nil where it is gone.
	Namespace *corev1.Namespace
	// Claim, if it is there and has bound this life's XR.
	Claim *Composite
	// XR; nil where there is none, or where it is gone.
	XR *Composite
	// Undefined is true if the XRD of the kind is being deleted or no longer exists. It is read only while a deletion waits for Crossplane.
	Undefined bool
	// CrossplaneAwaited is for how long this process has seen the deletion wait for Crossplane. Its clock may be wrong, but does not jump.
	CrossplaneAwaited time.Duration
	// Orphan is who a life is whose XR is gone, and whose data is not; nil for every other.
	Orphan *Identity
	// PredecessorTerminating is true if another life of the instance has not ended.
	PredecessorTerminating bool
	// PredecessorCopy is what keeps an orphan of the instance from ending; see Identity.Copy.
	PredecessorCopy client.Object
	// OrphanedFromClaim is true if the claim has bound another XR, or is gone and its
	// namespace goes, and nobody has deleted this one.
	OrphanedFromClaim bool

	// DataPVC and DataPV hold the database. OriginalPVC is the PVC before DataPVC,
	// where that is another one at the life's JobLocation: the server's, or one that a
	// Job had beside it.
	DataPVC     *corev1.PersistentVolumeClaim
	DataPV      *corev1.PersistentVolume
	OriginalPVC *corev1.PersistentVolumeClaim
	// PVCNameConflict is true if somebody else's PVC has the name of DataPVC.
	PVCNameConflict bool
	// Node whose folder the data is in, as the label that pods select it by; only
	// where it is a hostPath volume that does not say so itself.
	Node string
	// BackupPVC mounts the backups' volume. BackupPV is the one that it is bound to, read
	// only when Records are, and while that volume is to be kept or pinned; where there is
	// no PVC, the one that an earlier PVC was bound to.
	BackupPVC *corev1.PersistentVolumeClaim
	BackupPV  *corev1.PersistentVolume
	// BackupPVCAwaited is true while the backup PVC of an instance that has not started has no
	// volume, and its class makes one without waiting for a pod.
	BackupPVCAwaited bool
	// EarlierBackupPV is the backup volume of an earlier namespace of the same name,
	// with the backup on it that the function chose. It is nil once that volume is this
	// namespace's.
	EarlierBackupPV *corev1.PersistentVolume
	// BackupBusy is true while the PVC that EarlierBackupPV or, where there is none,
	// BackupPV had before is still there.
	BackupBusy bool

	// Records of all lives, newest first. Read only before the first start and
	// during a deletion.
	Records []v1.MySQLBackup
	// Restoring are the composite resources of the namespace that are being restored, by the names of the backups. Read in a deletion, once older
	// backups may go.
	Restoring map[string]string
	// Notes that the volumes of backups have of them, newest first, and BackupPVs, those
	// volumes. Read when Records are.
	Notes     []Note
	BackupPVs []corev1.PersistentVolume

	// Source is the claim that spec.restore.from names; nil if the field is unset, or the choice was made.
	Source *Source

	// StoreFailure is why a store that had to be asked for Notes did not say; empty where all
	// did. There may be more of them than are here.
	StoreFailure string

	// RestoreFrom is what the store says of the backup there that a restore waits for access to; nil where there is
	// none, or the restore has it.
	RestoreFrom *v1.StoreNote
	// RestoreTo is the Job that waits for it: its access goes with it.
	RestoreTo *Job

	// AccessUntil is when the access of the running backup Job to a store ends; zero if that is not known.
	AccessUntil time.Time
	// CloneAccess is the Secret with the account that may clone the server; nil where there is none.
	CloneAccess client.Object

	// StoreForbidden is true where only the data PVC says which store its backups go to, and the platform offers that to nobody.
	StoreForbidden bool
	// Refusal is what Kubernetes, or the server, said to the last step, or nil.
	Refusal *Refusal
	// SettingsVerdict is what became of new settings that are not in force; nil if nothing is known, or all are.
	SettingsVerdict *v1.SettingsVerdict
	// PodFailure that keeps a pod of a living instance from running, and one that uses the
	// data of an instance that is deleted from ending; empty where there is none. Read only
	// while the server does not take clients.
	PodFailure string

	// Uncomposed is what the last event of the XR says of a resource that Crossplane could not apply; empty while it is synced.
	Uncomposed string
	// Rules of the namespace in which Jobs run; nil where they are not read.
	Rules *nsrules.Rules

	// The rest is read only during a deletion, Deployment, Jobs and pods also
	// during a change of the image, pods also while the data PVC is being deleted, and Restore also
	// then, while the backup PVC is, and while there is an EarlierBackupPV.

	// Deployment of the server.
	Deployment *appsv1.Deployment
	// Pods that mount the data PVC, other than those of our Jobs.
	Pods []corev1.Pod
	// Jobs of this life.
	Restore, Backup, Wipe, Prune *Job
	// MisplacedJobs are Jobs of this life at another place than the one where Jobs are to
	// run now.
	MisplacedJobs []client.Object
	// Leftovers is what else was made for this life.
	Leftovers []client.Object
}

// A Refusal of a step is by a quota or a policy: somebody has to change that, or what is asked
// for. Or it is by a server, or a store.
type Refusal struct {
	// Of which action.
	Of string
	// Message of the API server, which names the object, in one line that prints.
	Message string
	// Missing is true where a store has not got the archive that a Job has reported.
	Missing bool
	// Passing is true where nobody has to change anything: a server did not answer, and may the next time.
	Passing bool
}

// numbered words are what differs in two texts about one thing, such as the port that was tried from, or the ID of a request.
var numbered = regexp.MustCompile(`[\w-]*[0-9][\w-]*`)

// SaysSame reports whether two texts differ in words with a digit at most.
func SaysSame(a, b string) bool {
	return numbered.ReplaceAllString(a, "0") == numbered.ReplaceAllString(b, "0")
}

// A Job and what its newest pod says.
type Job struct {
	*batchv1.Job

	// Pods of it, in any phase.
	Pods []corev1.Pod
	// Report of the agent; nil where there is none.
	Report *agent.Report
	// Progress that its log showed last.
	Progress *agent.Progress
	// PodFailure that keeps the pod from running, in the words of the kubelet or
	// scheduler.
	PodFailure string
	// Cloned is true once its clone of a server has ended.
	Cloned bool
	// Outlived is how the product's own container ended, where the pod goes on without it:
	// nobody ends a container that somebody has added to it. Nil where that is not so.
	Outlived *corev1.ContainerStateTerminated
	// Going is that pod.
	Going *corev1.Pod
	// Succeeded is how the product's own container ended, where it did so well and the Job does not say so yet: the kubelet
	// and the Job's controller take a second or two for that. Nil where that is not so.
	Succeeded *corev1.ContainerStateTerminated
}

// Finished is the time of the Job's end, with true if it succeeded; nil while it
// goes on. What somebody has added to its pod does not count.
func (j *Job) Finished() (at *metav1.Time, succeeded bool) {
	if at, succeeded = j.saysFinished(); at != nil {
		return at, succeeded
	}
	if end := cmp.Or(j.Outlived, j.Succeeded); end != nil {
		return &end.FinishedAt, end.ExitCode == 0
	}
	return nil, false
}

// IsComplete is true of a Job that says itself that it has succeeded.
func (j *Job) IsComplete() bool {
	_, succeeded := j.saysFinished()
	return succeeded
}

// saysFinished is the end that the Job itself tells.
func (j *Job) saysFinished() (at *metav1.Time, succeeded bool) {
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed {
			return &c.LastTransitionTime, c.Type == batchv1.JobComplete
		}
	}
	return nil, false
}

// Record of the backup that is under way or, where none is, of the next one; nil where it is not there yet.
func (s *State) Record() *v1.MySQLBackup {
	name := s.Attempt().Record
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.Name == name {
			return r
		}
	}
	return nil
}

// UnreadableRecord is the one that has the name of this life's backup and does not say whose backup it is; nil where there is none.
func (s *State) UnreadableRecord() *v1.MySQLBackup {
	name := s.Attempt().Record
	for i := range s.Records {
		if r := &s.Records[i]; r.Name == name && r.Unreadable.Has("spec.instance") {
			return r
		}
	}
	return nil
}

// WhyUnreadable says what of claim and XR cannot be read, and how to repair it. It is empty where all can be read. Crossplane brings
// the claim's spec to the XR, so the claim is the one to repair as long as it is not being deleted.
func (s *State) WhyUnreadable() string {
	if why := s.Claim.WhyUnreadable(); why != "" {
		return why
	}
	return s.XR.WhyUnreadable()
}

// IsOwn is true of each record of this life.
func (s *State) IsOwn(r *v1.MySQLBackup) bool {
	return s.Life.XR != "" && r.Spec.Instance.XR == s.Life.XR
}

// Latest proven backup of any life, as status.previousBackup has it.
func (s *State) Latest() string { return newestOf(s.Notes, s.Records) }

// A Word is what people have said of the end of a life.
type Word struct{ of *State }

// Word of people. While the claim is there it is the claim's that counts: Crossplane stops bringing it to the XR once the claim is
// being deleted.
func (s *State) Word() Word { return Word{s} }

// Policy of deletion.
func (w Word) Policy() v1.DeletionPolicy {
	if w.of.Claim != nil {
		return w.of.Claim.Spec.DeletionPolicy
	}
	return w.of.Identity().DeletionPolicy
}

// Skips is true if somebody said of this very life that it may go without a
// backup.
func (w Word) Skips() bool {
	uid, c := string(w.of.Life.XR), w.of.Claim
	return w.of.Identity().Annotations[v1.AnnotationSkipBackup] == uid || c != nil && c.GetAnnotations()[v1.AnnotationSkipBackup] == uid
}

// LeavesOutside is true if somebody said of this very life that its backup may go without what
// is stored outside of the data directory.
func (w Word) LeavesOutside() bool {
	uid, c := string(w.of.Life.XR), w.of.Claim
	return w.of.Identity().Annotations[v1.AnnotationWithoutOutside] == uid || c != nil && c.GetAnnotations()[v1.AnnotationWithoutOutside] == uid
}

// RequiresRestorable is true if a server must have started from the backup
// before the data goes.
func (w Word) RequiresRestorable() bool {
	c := w.of.Claim
	if c == nil {
		c = w.of.XR
	}
	return c != nil && c.Spec.Backup.RequireRestorable != nil && *c.Spec.Backup.RequireRestorable
}

// Ephemeral instances have nothing that outlives their pod: a Database without
// storageSize. One that has a volume, or had one, is none.
func (s *State) Ephemeral() bool {
	if s.Life.Kind != v1.KindDatabase || s.DataPVC != nil || s.DataPV != nil || s.Orphan != nil {
		return false
	}
	for _, c := range []*Composite{s.XR, s.Claim} {
		if c == nil {
			continue
		}
		if size, _ := c.Spec.Size(); size != "" || c.Status.Volume != "" || c.Unreadable.HasAny("spec.storageSize", "status.volume") {
			return false
		}
	}
	return true
}

// HostPath is true if the data lies in a folder of a node.
func (s *State) HostPath() bool { return s.DataPV != nil && s.DataPV.Spec.HostPath != nil }

// NamespaceUID is that of the namespace in which the data was written, which a
// later one of the same name has not. The data volume knows it first, and the
// record longest.
func (s *State) NamespaceUID() types.UID {
	if v := s.DataPV; v != nil && v.Annotations[v1.AnnotationNamespaceUID] != "" {
		return types.UID(v.Annotations[v1.AnnotationNamespaceUID])
	}
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.Spec.Instance.NamespaceUID != "" {
			return r.Spec.Instance.NamespaceUID
		}
	}
	if s.Namespace == nil {
		return ""
	}
	return s.Namespace.UID
}

// IsDataPVReservedElsewhere is true if the data volume names a PVC that is gone, or one at
// another place, so that the PVC that is wanted cannot bind it.
func (s *State) IsDataPVReservedElsewhere() bool {
	if s.DataPV == nil || s.DataPV.Spec.ClaimRef == nil {
		return false
	}
	ref, p := s.DataPV.Spec.ClaimRef, s.JobLocation()
	if ref.Namespace != p.Namespace || ref.Name != p.Data {
		return true
	}
	return ref.UID != "" && (s.DataPVC == nil || s.DataPVC.UID != ref.UID)
}

// IsDataPVRetained is true if the data volume stays whatever becomes of its PVC.
func (s *State) IsDataPVRetained() bool {
	v := s.DataPV
	return v != nil && HasFinalizer(v) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// HasFinalizer is true if our finalizer is on an object.
func HasFinalizer(o client.Object) bool { return controllerutil.ContainsFinalizer(o, v1.Finalizer) }
