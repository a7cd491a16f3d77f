// Package restoretest decides when to start a server from a copy of a verified backup, and evaluates the result.
//
// A restore test is not part of a deletion. A deletion waits for its result only if the claim requires it. All other
// users of the backup volume have priority.
package restoretest

import (
	"fmt"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

const (
	// turnInterval is the interval at which a waiting test checks whether it may run.
	turnInterval = 5 * time.Second
	// pollInterval is the interval at which the controller reads a Job if there is no event.
	pollInterval = time.Minute
	// retryInterval is the delay before a restore test that a deletion waits for is retried.
	retryInterval = 5 * time.Minute
	// daily is the minimum time between the restore tests of two scheduled backups in a store, because each test reads a
	// whole backup. It is less than a day, so that the backup at the same hour of the next day is tested.
	daily = 20 * time.Hour
	// whileAway is the interval at which the controller checks a store that does not respond or a server that does
	// not accept clients.
	whileAway = 10 * time.Minute
	// serverTimeout is the time for which a running test may continue while the server does not accept clients, or
	// while a backup lacks resources.
	serverTimeout = time.Minute
)

// An Action is what the controller does in one Step of a restore test.
type Action string

// Actions of the controller for a restore test.
const (
	// NoOp waits for an event, and Wait waits for a fixed time.
	NoOp Action = "NoOp"
	Wait Action = "Wait"
	// Start stores the test in the BackupRecord and creates the Job, and Remove deletes the Job.
	Start  Action = "StartRestoreTest"
	Remove Action = "RemoveRestoreTest"
	// NameJob stores the UID of the Job in the BackupRecord, if the controller stopped directly after it created the
	// Job.
	NameJob Action = "NameRestoreTest"
	// EndTurn removes the test of a deleted Job from the BackupRecord, so that another test can run.
	EndTurn Action = "EndRestoreTest"
	// Conclude writes the result of the test to the BackupRecord.
	Conclude Action = "Conclude"
)

// A State contains everything that Next needs for its decision.
type State struct {
	*Attempt

	// Now is the time of the read.
	Now time.Time
	// Record is the backup to test, usually the newest verified backup, or nil.
	Record *v1.BackupRecord
	// Others are the running restore tests of other instances according to their BackupRecords.
	Others Turns
	// AtOnce is the maximum number of concurrent tests that no deletion waits for.
	AtOnce int
	// Siblings are the other BackupRecords of the instance.
	Siblings []v1.BackupRecord
	// Entry is the catalog entry of a backup in a store that is about to be tested. It is nil if there is none or if
	// it cannot be read. In the second case, StoreFailure is the error.
	Entry        *v1.StoreEntry
	StoreFailure string
	// NewTurn is a unique ID for a test that starts now.
	NewTurn types.UID
	// AgentImage is the image of the Job. JobResources are the resources of its containers, or nil for the default.
	AgentImage   string
	JobResources *corev1.ResourceRequirements
}

// A Step is the next action of the controller for a restore test.
type Step struct {
	Action Action
	After  time.Duration
	// Verdict is the result that Conclude writes.
	Verdict metav1.Condition
	// Record is the BackupRecord from which the test is removed, or in which the UID of its Job is stored.
	Record *v1.BackupRecord
	// Changes lists the writes of the step.
	Changes []change.Change
}

// XR returns the UID of the instance that was backed up, or "" if there is no BackupRecord.
func (s *State) XR() types.UID {
	if s.Record == nil {
		return ""
	}
	return s.Record.Spec.Instance.XR
}

// Next returns the next step with its changes.
func Next(s *State) Step { return withChanges(s, decide(s)) }

func decide(s *State) Step {
	switch r := s.recordOver(); {
	case s.recordUnnamed() != nil:
		return Step{Action: NameJob, Record: s.recordUnnamed()}
	case s.isOwnJob() && s.Job.DeletionTimestamp != nil:
		return Step{Action: Wait, After: turnInterval}
	case s.isOwnJob() && (!s.isOpen() || !s.isOwn()):
		return Step{Action: Remove, After: turnInterval}
	case r != nil:
		return Step{Action: EndTurn, Record: r}
	case !s.isOpen():
		return s.tryLater()
	case s.Home == nil:
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested,
			"an instance with this name exists and needs the volume")
	case s.mustYield():
		return yield(s)
	case s.isOwnJob():
		return judgeJob(s)
	case s.Job != nil:
		return foreignJob(s.Job)
	}
	return beginTest(s)
}

// restoreTest returns the restore test that the BackupRecord contains, or nil.
func (s *State) restoreTest() *v1.RestoreTest {
	if s.Record == nil {
		return nil
	}
	return s.Record.Status.RestoreTest
}

// recordUnnamed returns the BackupRecord whose test the Job was created for, if the BackupRecord does not contain the
// UID of the Job yet. Otherwise it returns nil.
func (s *State) recordUnnamed() *v1.BackupRecord {
	if s.Job == nil {
		return nil
	}
	waits := func(r *v1.BackupRecord) bool {
		t := r.Status.RestoreTest
		return t != nil && t.Job == "" && t.ID != "" && s.Job.Annotations[v1.AnnotationRestoreTest] == string(t.ID)
	}
	if s.Record != nil && waits(s.Record) {
		return s.Record
	}
	for i := range s.Siblings {
		if r := &s.Siblings[i]; waits(r) {
			return r
		}
	}
	return nil
}

// isOwnJob reports whether a BackupRecord contains the UID of the Job. If no BackupRecord is left, the component
// label of the Job is enough, because no other component uses its name.
func (s *State) isOwnJob() bool {
	switch {
	case s.Job == nil:
		return false
	case s.Record == nil && len(s.Siblings) == 0:
		return s.Job.Labels[v1.LabelComponent] == v1.ComponentRestoreTest
	}
	names := func(r v1.BackupRecord) bool {
		return r.Status.RestoreTest != nil && r.Status.RestoreTest.Job == s.Job.UID
	}
	return s.Record != nil && names(*s.Record) || slices.ContainsFunc(s.Siblings, names)
}

// recordOver returns a BackupRecord with a test that is over, or nil. The Job of the test was deleted or will never
// be created.
func (s *State) recordOver() *v1.BackupRecord {
	gone := func(t *v1.RestoreTest) bool { return s.Job == nil || s.Job.UID != t.Job }
	if t := s.restoreTest(); t != nil && gone(t) && (t.Job != "" || !s.isOpen()) {
		return s.Record
	}
	for i := range s.Siblings {
		if t := s.Siblings[i].Status.RestoreTest; t != nil && gone(t) {
			return &s.Siblings[i]
		}
	}
	return nil
}

// foreignJob reports that a Job with a different owner has the name of the test Job. The controller does not change
// that Job and runs no test.
func foreignJob(j *instance.Job) Step {
	return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested,
		fmt.Sprintf("a Job with the same name exists, but no BackupRecord refers to it: kubectl delete job --namespace "+
			"%s %s",
			j.Namespace, j.Name))
}

// isOpen reports whether the backup still needs a test result.
func (s *State) isOpen() bool {
	if !s.hasRecord() {
		return false
	}
	c := meta.FindStatusCondition(s.Record.Status.Conditions, v1.ConditionRestorable)
	return c == nil || s.isAwaited(c) && s.untilAgain(c) == 0
}

// untilAgain returns how long to wait before the next test after a result. If the time of the result is in the
// future, a wrong clock wrote it, and there is no delay.
func (s *State) untilAgain(c *metav1.Condition) time.Duration {
	if ago := s.Now.Sub(c.LastTransitionTime.Time); ago >= 0 {
		return max(retryInterval-ago, 0)
	}
	return 0
}

// hasRecord reports whether there is a backup to test. A Job must not outlive its BackupRecord, so a BackupRecord
// that is being deleted is excluded. The exception is the final backup of an instance that is being deleted.
func (s *State) hasRecord() bool {
	return s.Record != nil && (s.Record.DeletionTimestamp == nil || s.isHeld())
}

// isHeld reports whether the instance of this backup is being deleted, and this is its final backup.
func (s *State) isHeld() bool {
	return s.Attempt != nil && s.Home != nil && endsWith(s.Home, s.Record)
}

// mustYield reports whether an instance has priority over the test, so that the test must not use the resources of
// the namespace. Such an instance is being deleted without waiting for the result, does not accept clients, or is
// being backed up.
func (s *State) mustYield() bool {
	switch h := s.Home; {
	case s.isHeld():
		return !h.DeletionIntent().RequiresRestorable()
	case isNameFree(h) || s.hasEnded():
		return false
	case h.IsDeleting():
		return true
	case s.isOwnJob():
		return s.awayFor() >= serverTimeout || s.mustBeRemoved()
	default:
		return h.XR == nil || !h.XR.IsServing() || h.IsBackedUpInstance()
	}
}

// hasEnded reports whether the Job of the test is finished. A finished Job uses no resources, and its result is
// valid.
func (s *State) hasEnded() bool {
	if !s.isOwnJob() {
		return false
	}
	finished, _ := s.Job.Finished()
	return finished != nil
}

// awayFor returns how long the server of the existing instance has not accepted clients.
func (s *State) awayFor() time.Duration {
	xr := s.Home.XR
	if xr == nil || xr.IsServing() {
		return 0
	}
	since := xr.NotServingSince()
	if since.IsZero() { // The function has not written the condition yet.
		since = xr.GetCreationTimestamp().Time
	}
	return s.Now.Sub(since)
}

// mustBeRemoved reports whether the Job of a running server's backup cannot start, probably because of missing
// resources.
func (s *State) mustBeRemoved() bool {
	b := s.Home.Attempt()
	if !b.IsAnswer() || s.Now.Sub(b.BegunAt) < serverTimeout {
		return false
	}
	return s.Home.BackupJob == nil ||
		!slices.ContainsFunc(s.Home.BackupJob.Pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
}

// yield stops the test in favor of the existing instance. A test that was already running is not repeated with the
// same backup, because each test reads the whole backup.
func yield(s *State) Step {
	switch {
	case s.isHeld():
		return Step{Action: NoOp} // The backup is being released.
	case s.isOwnJob():
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested,
			"the instance with this name had priority: it was deleted, its server did not accept clients, or its backup "+
				"needed the space")
	case s.restoreTest() != nil:
		return Step{Action: EndTurn, Record: s.Record}
	}
	return Step{Action: Wait, After: whileAway}
}

// untilDue returns how long a scheduled backup in a store must wait because another backup of the instance was tested
// recently.
func untilDue(r *v1.BackupRecord, others []v1.BackupRecord, now time.Time) time.Duration {
	if r.Spec.Origin != v1.OriginSchedule || !r.InStore() {
		return 0
	}
	out := time.Duration(0)
	for i := range others {
		c := meta.FindStatusCondition(others[i].Status.Conditions, v1.ConditionRestorable)
		if c == nil || others[i].Name == r.Name {
			continue
		}
		if ago := now.Sub(c.LastTransitionTime.Time); ago >= 0 {
			out = max(out, daily-ago)
		}
	}
	return out
}

// isAwaited reports whether a deletion still requires a successful test after the given result.
func (s *State) isAwaited(c *metav1.Condition) bool {
	return c.Status != metav1.ConditionTrue && s.isHeld() && s.Home.DeletionIntent().RequiresRestorable()
}

// tryLater returns a step that waits until the next attempt.
func (s *State) tryLater() Step {
	if !s.hasRecord() {
		return Step{Action: NoOp}
	}
	if c := meta.FindStatusCondition(s.Record.Status.Conditions, v1.ConditionRestorable); s.isAwaited(c) {
		return Step{Action: Wait, After: max(s.untilAgain(c), time.Second)}
	}
	return Step{Action: NoOp}
}

// isOwn reports whether the Job was created for this BackupRecord and its result has not been written yet.
func (s *State) isOwn() bool {
	t := s.restoreTest()
	return t != nil && t.Job == s.Job.UID && !t.Concluded
}

// waitForTurn reports whether the test of a backup must wait, and for how long. A duration of zero means that it
// waits for an event.
func waitForTurn(r *v1.BackupRecord, siblings []v1.BackupRecord, others Turns, atOnce int, awaited bool,
	now time.Time) (after time.Duration, waits bool) {
	due := untilDue(r, siblings, now)
	switch {
	case due > 0:
		return due, true
	case !awaited && atOnce == 0:
		return 0, true // The platform team has disabled restore tests.
	case others.mayRun(r.Spec.Instance.Namespace, awaited, atOnce):
		return 0, false
	case isOfInstance(r):
		return pollInterval, true // All instances of a cluster may wait at the same time.
	}
	return turnInterval, true
}

// waitsForTurn reports whether the test has not been started yet and must wait.
func (s *State) waitsForTurn() (after time.Duration, waits bool) {
	if s.restoreTest() != nil {
		return 0, false
	}
	return waitForTurn(s.Record, s.Siblings, s.Others, s.AtOnce, s.isHeld(), s.Now)
}

// isOfInstance reports whether a backup is not the final backup of its instance.
func isOfInstance(r *v1.BackupRecord) bool { return r.Name != r.Spec.Instance.Instance().RecordName() }

// beginTest starts the test if it is possible and need not wait.
func beginTest(s *State) Step {
	switch after, waits := s.waitsForTurn(); {
	case waits && after == 0:
		return Step{Action: NoOp}
	case waits:
		return Step{Action: Wait, After: after}
	}
	if s.StoreFailure != "" && !s.isHeld() { // No deletion waits for the result. The test runs once the store responds.
		if s.restoreTest() != nil {
			return Step{Action: EndTurn, Record: s.Record}
		}
		return Step{Action: Wait, After: whileAway}
	}
	if reason := whyImpossible(s); reason != "" {
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, reason)
	}
	return Step{Action: Start, After: turnInterval}
}

// GiveBack returns the step that removes a test from the BackupRecord if its Job could not be created, so that
// another instance can be tested.
func GiveBack(s *State) Step {
	if s.Job != nil || s.restoreTest() == nil || s.restoreTest().Job != "" {
		return Step{Action: NoOp}
	}
	return withChanges(s, Step{Action: EndTurn, Record: s.Record})
}

// Refused returns the next step if the API server refused the Job. The step stores the reason and ends the test, so
// that another instance can be tested.
func Refused(s *State, cause error) Step {
	if s.Record == nil {
		return Step{Action: Wait, After: turnInterval}
	}
	return withChanges(s, concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested,
		"the API server refused its Job: "+v1.PrintableText(cause.Error(), v1.MaxForeignText)))
}

// whyImpossible returns why a backup cannot be tested, or "".
func whyImpossible(s *State) string {
	h, c, a := s.Home, s.Home.BackupPVC, s.Record.Spec.Archive
	i := s.Record.Spec.Instance
	switch {
	case !isTryable(s.Record):
		return "the version or the image of the backup's server is unknown"
	case h.Namespace == nil || h.Namespace.DeletionTimestamp != nil || h.Namespace.UID != i.NamespaceUID:
		return fmt.Sprintf("namespace %q is deleted or being deleted", i.Namespace)
	case s.Record.InStore():
		return whyNotInStore(s)
	case c == nil || c.DeletionTimestamp != nil || c.Status.Phase != corev1.ClaimBound || s.Volume == nil:
		return "the backup volume does not exist or is not bound"
	case a == nil || a.PVCName != c.Name || a.Path != path.Join(s.Record.Name, path.Base(a.Path)):
		return "the archive is not in the directory where the controller stores archives"
	}
	return ""
}

// whyNotInStore returns why a backup in a store cannot be tested, or "".
func whyNotInStore(s *State) string {
	switch a := s.Record.Spec.Archive; {
	case s.StoreFailure != "":
		return s.StoreFailure
	case s.Entry == nil:
		return fmt.Sprintf("BackupStore %s has no catalog entry for it", a.Store)
	case s.Entry.Spec.Archive.Path != a.Path || s.Entry.Spec.Archive.SHA256 != a.SHA256:
		return fmt.Sprintf("BackupStore %s has a catalog entry for a different archive", a.Store)
	}
	return ""
}

// isTryable reports whether a server can be started for this BackupRecord: it contains an image and a known version.
func isTryable(r *v1.BackupRecord) bool {
	_, err := version.Parse(r.Spec.Version)
	return err == nil && r.Spec.Image != ""
}

// judgeJob evaluates the reports of the Job.
func judgeJob(s *State) Step {
	finished, _ := s.Job.Finished()
	check, tried := s.Reports[containerBootCheck]
	unpack := s.Reports[containerUnpack]
	switch {
	case finished == nil:
		return Step{Action: Wait, After: pollInterval} // A finished Job causes an event if it has its labels.
	case s.Job.HasMoved(mountedBy(s), ""):
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested,
			"the PersistentVolumeClaim of the backups was replaced during the test")
	case tried && check.OK:
		return concludeWith(metav1.ConditionTrue, v1.ReasonServerStarted,
			fmt.Sprintf("a server of version %s started from a copy of it, and all of its %d tables are intact", check.Version,
				check.Tables))
	case tried && check.ExitCode == agent.ExitBroken:
		return concludeWith(metav1.ConditionFalse, v1.ReasonBroken, check.Error)
	case tried:
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, check.Error)
	case unpack.ExitCode == agent.ExitDamaged || unpack.ExitCode == agent.ExitMissing:
		return concludeWith(metav1.ConditionFalse, v1.ReasonBroken, unpack.Error)
	case unpack.Error != "":
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, unpack.Error)
	}
	return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, whySilent(s.Job))
}

// whySilent returns a message about a Job that wrote no report.
func whySilent(j *instance.Job) string {
	reason := j.PodFailure
	for _, c := range j.Status.Conditions {
		if reason == "" && c.Status == corev1.ConditionTrue {
			reason = c.Message
		}
	}
	return fmt.Sprintf("Job %s finished without a report: %s", j.Name, reason)
}

func concludeWith(status metav1.ConditionStatus, reason, message string) Step {
	return Step{Action: Conclude, Verdict: metav1.Condition{Type: v1.ConditionRestorable, Status: status, Reason: reason,
		Message: message}}
}

// backupToTry returns the backup to test, or nil. This is the newest verified backup, unless an earlier backup of a
// running instance in a store is still being tested. Otherwise a test that takes longer than the interval between two
// backups would never finish.
func backupToTry(records []v1.BackupRecord) *v1.BackupRecord {
	newest := newestVerified(records)
	if newest == nil || !isOfInstance(newest) {
		return newest
	}
	for i := range records {
		if r := &records[i]; r.IsVerified() && r.InStore() && r.DeletionTimestamp == nil && r.IsBeingTried() &&
			r.Status.RestoreTest.Job != "" {
			return r
		}
	}
	return newest
}

// newestVerified returns the newest verified backup, or nil.
func newestVerified(records []v1.BackupRecord) *v1.BackupRecord {
	return v1.LatestBackup(records, func(r *v1.BackupRecord) bool { return r.IsVerified() && !r.IsInDoubt() })
}
