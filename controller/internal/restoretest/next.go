// Package restoretest decides when a server is started from a copy of a proven
// backup, and what is to be thought of the backup then.
//
// It is no part of a deletion: that waits for the verdict only where the claim
// says so. Whatever else wants the backup volume goes first.
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
	// soon is how long to wait for a turn.
	soon = 5 * time.Second
	// look is how often a Job is looked at without an event.
	look = time.Minute
	// again is how long to wait before a restore test that a deletion waits for is
	// tried once more.
	again = 5 * time.Minute
	// daily is how long a planned backup in a store is not tried after another one was: each is read whole. It is less than a
	// day, so that the one of the same hour is due.
	daily = 20 * time.Hour
	// whileAway is how long to wait for a store, or for a server that does not serve, if no event says that it does.
	whileAway = 10 * time.Minute
	// patience with a server that does not serve, and with a backup that finds no room, while a test runs beside them.
	patience = time.Minute
)

// An Action is what can be done.
type Action string

// Actions.
const (
	// NoOp does nothing until something changes, and Wait for a while.
	NoOp Action = "NoOp"
	Wait Action = "Wait"
	// Start takes a turn and makes the Job, and Remove deletes it.
	Start  Action = "StartRestoreTest"
	Remove Action = "RemoveRestoreTest"
	// NameJob writes into the record which Job is its own, if the controller ended
	// before it could.
	NameJob Action = "NameRestoreTest"
	// EndTurn of a Job that is gone.
	EndTurn Action = "EndRestoreTest"
	// Conclude writes the verdict.
	Conclude Action = "Conclude"
)

// A State is all that a decision depends on.
type State struct {
	*Attempt

	// Now is when it was read.
	Now time.Time
	// Record of the backup to test, mostly the newest proven one; nil where there is none.
	Record *v1.MySQLBackup
	// Others are the restore tests that are under way, as records of other instances
	// tell.
	Others Turns
	// AtOnce is how many there may be that no deletion waits for.
	AtOnce int
	// Siblings are the other records of the instance.
	Siblings []v1.MySQLBackup
	// Note of a backup that lies in a store, where it is about to be tried; nil where there is none, or StoreFailure says
	// why it cannot be read.
	Note         *v1.StoreNote
	StoreFailure string
	// NewTurn is the ID that a turn gets which is taken now. Nobody else has it.
	NewTurn types.UID
	// AgentImage is the image of the Job, and JobResources what its containers ask for; nil
	// is the usual.
	AgentImage   string
	JobResources *corev1.ResourceRequirements
}

// A Step is the one thing to do now.
type Step struct {
	Action Action
	After  time.Duration
	// Verdict of a Conclude.
	Verdict metav1.Condition
	// Record whose turn ends, or that names its Job.
	Record *v1.MySQLBackup
	// Changes are all that is written.
	Changes []change.Change
}

// XR of the life that was backed up; empty without a record.
func (s *State) XR() types.UID {
	if s.Record == nil {
		return ""
	}
	return s.Record.Spec.Instance.XR
}

// Next is the one thing to do now.
func Next(s *State) Step { return withChanges(s, decide(s)) }

func decide(s *State) Step {
	switch r := s.recordOver(); {
	case s.recordUnnamed() != nil:
		return Step{Action: NameJob, Record: s.recordUnnamed()}
	case s.isOwnJob() && s.Job.DeletionTimestamp != nil:
		return Step{Action: Wait, After: soon}
	case s.isOwnJob() && (!s.isOpen() || !s.isOwn()):
		return Step{Action: Remove, After: soon}
	case r != nil:
		return Step{Action: EndTurn, Record: r}
	case !s.isOpen():
		return s.tryLater()
	case s.Home == nil:
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, "an instance of this name is there, and needs the volume")
	case s.mustYield():
		return yield(s)
	case s.isOwnJob():
		return judgeJob(s)
	case s.Job != nil:
		return foreignJob(s.Job)
	}
	return beginTest(s)
}

// restoreTest of the record that has its turn, or nil.
func (s *State) restoreTest() *v1.RestoreTest {
	if s.Record == nil {
		return nil
	}
	return s.Record.Status.RestoreTest
}

// recordUnnamed is the record for whose turn the Job was made, and that does not name it
// yet; nil where there is none.
func (s *State) recordUnnamed() *v1.MySQLBackup {
	if s.Job == nil {
		return nil
	}
	waits := func(r *v1.MySQLBackup) bool {
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

// isOwnJob is true if a record names the Job as its own. Where no record is left that
// could, the Job's labels do: nobody else has an interest in that name.
func (s *State) isOwnJob() bool {
	switch {
	case s.Job == nil:
		return false
	case s.Record == nil && len(s.Siblings) == 0:
		return s.Job.Labels[v1.LabelComponent] == v1.ComponentRestoreTest
	}
	names := func(r v1.MySQLBackup) bool {
		return r.Status.RestoreTest != nil && r.Status.RestoreTest.Job == s.Job.UID
	}
	return s.Record != nil && names(*s.Record) || slices.ContainsFunc(s.Siblings, names)
}

// recordOver is a record whose turn has ended, as its Job is gone or will never be
// made; nil where there is none.
func (s *State) recordOver() *v1.MySQLBackup {
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

// foreignJob has the name of ours. It is left alone, and nothing is tried beside it.
func foreignJob(j *instance.Job) Step {
	return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested,
		fmt.Sprintf("a Job that no record names has the name that its own would have: kubectl delete job --namespace %s %s", j.Namespace, j.Name))
}

// isOpen is true while there is a verdict to find.
func (s *State) isOpen() bool {
	if !s.hasRecord() {
		return false
	}
	c := meta.FindStatusCondition(s.Record.Status.Conditions, v1.ConditionRestorable)
	return c == nil || s.isAwaited(c) && s.untilAgain(c) == 0
}

// untilAgain is how long after a verdict it is tried again. One that is of later than now was
// written by another clock, of which nothing is known: there is no wait from there.
func (s *State) untilAgain(c *metav1.Condition) time.Duration {
	if ago := s.Now.Sub(c.LastTransitionTime.Time); ago >= 0 {
		return max(again-ago, 0)
	}
	return 0
}

// hasRecord is true if there is a backup to test. One that is being deleted, and that no life
// holds any more, is none: no Job is to outlive the record that names it.
func (s *State) hasRecord() bool {
	return s.Record != nil && (s.Record.DeletionTimestamp == nil || s.isHeld())
}

// isHeld is true while the life at whose end the backup was taken is being deleted.
func (s *State) isHeld() bool {
	return s.Attempt != nil && s.Home != nil && endsWith(s.Home, s.Record)
}

// mustYield is true while a life is there that goes first: one that is being deleted and does not wait for the
// verdict, one whose server does not serve, and one that is being backed up. What a namespace may use is to be left to them.
func (s *State) mustYield() bool {
	switch h := s.Home; {
	case s.isHeld():
		return !h.Word().RequiresRestorable()
	case isNameFree(h) || s.hasEnded():
		return false
	case h.IsDeleting():
		return true
	case s.isOwnJob():
		return s.awayFor() >= patience || s.isInTheWay()
	default:
		return h.XR == nil || !h.XR.IsServing() || h.IsBackedUpInLife()
	}
}

// hasEnded is true of a test whose Job has had its end: it takes nobody's room, and its word counts.
func (s *State) hasEnded() bool {
	if !s.isOwnJob() {
		return false
	}
	at, _ := s.Job.Finished()
	return at != nil
}

// awayFor is how long the server of the life that is there does not serve.
func (s *State) awayFor() time.Duration {
	xr := s.Home.XR
	if xr == nil || xr.IsServing() {
		return 0
	}
	since := xr.NotServingSince()
	if since.IsZero() { // The function has not said anything yet.
		since = xr.GetCreationTimestamp().Time
	}
	return s.Now.Sub(since)
}

// isInTheWay is true where a backup of a server that runs is under way, and finds no room for its Job.
func (s *State) isInTheWay() bool {
	b := s.Home.Attempt()
	if !b.IsAnswer() || s.Now.Sub(b.BegunAt) < patience {
		return false
	}
	return s.Home.Backup == nil || !slices.ContainsFunc(s.Home.Backup.Pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
}

// yield to the life that is there. A test that runs is not begun again with the same backup: it would be read whole each time.
func yield(s *State) Step {
	switch {
	case s.isHeld():
		return Step{Action: NoOp} // It is being released.
	case s.isOwnJob():
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, "the instance of this name went first: it was deleted, its server did not serve, or a backup of it found no room")
	case s.restoreTest() != nil:
		return Step{Action: EndTurn, Record: s.Record}
	}
	return Step{Action: Wait, After: whileAway}
}

// untilDue is how long a planned backup in a store waits, as another of the instance was tried of late.
func untilDue(r *v1.MySQLBackup, others []v1.MySQLBackup, now time.Time) time.Duration {
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

// isAwaited is true if a deletion waits for a better verdict.
func (s *State) isAwaited(c *metav1.Condition) bool {
	return c.Status != metav1.ConditionTrue && s.isHeld() && s.Home.Word().RequiresRestorable()
}

// tryLater is when it is tried again.
func (s *State) tryLater() Step {
	if !s.hasRecord() {
		return Step{Action: NoOp}
	}
	if c := meta.FindStatusCondition(s.Record.Status.Conditions, v1.ConditionRestorable); s.isAwaited(c) {
		return Step{Action: Wait, After: max(s.untilAgain(c), time.Second)}
	}
	return Step{Action: NoOp}
}

// isOwn is true if the Job was made for the record, and not for an earlier life's, and
// has not had its say.
func (s *State) isOwn() bool {
	t := s.restoreTest()
	return t != nil && t.Job == s.Job.UID && !t.Concluded
}

// waitForTurn is true for a backup that may not take its turn yet, and how long it waits, zero for until something changes.
func waitForTurn(r *v1.MySQLBackup, siblings []v1.MySQLBackup, others Turns, atOnce int, awaited bool, now time.Time) (after time.Duration, waits bool) {
	due := untilDue(r, siblings, now)
	switch {
	case due > 0:
		return due, true
	case !awaited && atOnce == 0:
		return 0, true // The platform does not want it.
	case others.mayRun(r.Spec.Instance.Namespace, awaited, atOnce):
		return 0, false
	case isOfLife(r):
		return look, true // All instances of a cluster may wait like that.
	}
	return soon, true
}

// waitsForTurn is true for who has none, and may not take one.
func (s *State) waitsForTurn() (after time.Duration, waits bool) {
	if s.restoreTest() != nil {
		return 0, false
	}
	return waitForTurn(s.Record, s.Siblings, s.Others, s.AtOnce, s.isHeld(), s.Now)
}

// isOfLife is true of a backup that was taken while its life went on.
func isOfLife(r *v1.MySQLBackup) bool { return r.Name != r.Spec.Instance.Life().RecordName() }

// beginTest, if it can be tried and it is its turn.
func beginTest(s *State) Step {
	switch after, waits := s.waitsForTurn(); {
	case waits && after == 0:
		return Step{Action: NoOp}
	case waits:
		return Step{Action: Wait, After: after}
	}
	if s.StoreFailure != "" && !s.isHeld() { // Nobody waits for the verdict, and there is one once the store answers.
		if s.restoreTest() != nil {
			return Step{Action: EndTurn, Record: s.Record}
		}
		return Step{Action: Wait, After: whileAway}
	}
	if why := whyImpossible(s); why != "" {
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, why)
	}
	return Step{Action: Start, After: soon}
}

// GiveBack is the step after a turn was taken whose Job could not be made for now: others wait for it.
func GiveBack(s *State) Step {
	if s.Job != nil || s.restoreTest() == nil || s.restoreTest().Job != "" {
		return Step{Action: NoOp}
	}
	return withChanges(s, Step{Action: EndTurn, Record: s.Record})
}

// Refused is what there is to do once the API server has refused the Job: others wait for
// the turn.
func Refused(s *State, by error) Step {
	if s.Record == nil {
		return Step{Action: Wait, After: soon}
	}
	return withChanges(s, concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, "its Job is refused: "+v1.PrintableText(by.Error(), v1.MaxForeignText)))
}

// whyImpossible says why it cannot be tried; empty where it can.
func whyImpossible(s *State) string {
	h, c, a := s.Home, s.Home.BackupPVC, s.Record.Spec.Archive
	i := s.Record.Spec.Instance
	switch {
	case !isTryable(s.Record):
		return "the backup is none of a MySQL server whose version is known"
	case h.Namespace == nil || h.Namespace.DeletionTimestamp != nil || h.Namespace.UID != i.NamespaceUID:
		return fmt.Sprintf("namespace %q is gone, or going", i.Namespace)
	case s.Record.InStore():
		return whyNotInStore(s)
	case c == nil || c.DeletionTimestamp != nil || c.Status.Phase != corev1.ClaimBound || s.Volume == nil:
		return "the backup volume is not there, or not bound"
	case a == nil || a.PVCName != c.Name || a.Path != path.Join(s.Record.Name, path.Base(a.Path)):
		return "the archive is not where the controller puts it"
	}
	return ""
}

// whyNotInStore says why a backup there cannot be tried.
func whyNotInStore(s *State) string {
	switch a := s.Record.Spec.Archive; {
	case s.StoreFailure != "":
		return s.StoreFailure
	case s.Note == nil:
		return fmt.Sprintf("BackupStore %s has no note of it", a.Store)
	case s.Note.Spec.Archive.Path != a.Path || s.Note.Spec.Archive.SHA256 != a.SHA256:
		return fmt.Sprintf("BackupStore %s has a note of another archive", a.Store)
	}
	return ""
}

// isTryable is true for a backup whose record has what it takes to start a server: an
// image, and a version that is known.
func isTryable(r *v1.MySQLBackup) bool {
	_, err := version.Parse(r.Spec.Version)
	return err == nil && r.Spec.Image != ""
}

// judgeJob by what its containers have reported, once it has ended.
func judgeJob(s *State) Step {
	at, _ := s.Job.Finished()
	check, tried := s.Reports[containerBootCheck]
	unpack := s.Reports[containerUnpack]
	switch {
	case at == nil:
		return Step{Action: Wait, After: look} // Its end is an event, unless somebody took its labels away.
	case s.Job.HasMoved(mountedBy(s), ""):
		return concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, "the PersistentVolumeClaim of the backups is another than the one that was tried")
	case tried && check.OK:
		return concludeWith(metav1.ConditionTrue, v1.ReasonServerStarted, fmt.Sprintf("a server of version %s has run on a copy of it, and found its %d tables whole", check.Version, check.Tables))
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

// whySilent is what there is to say of a Job without a report.
func whySilent(j *instance.Job) string {
	why := j.PodFailure
	for _, c := range j.Status.Conditions {
		if why == "" && c.Status == corev1.ConditionTrue {
			why = c.Message
		}
	}
	return fmt.Sprintf("Job %s has ended without a report: %s", j.Name, why)
}

func concludeWith(status metav1.ConditionStatus, reason, message string) Step {
	return Step{Action: Conclude, Verdict: metav1.Condition{Type: v1.ConditionRestorable, Status: status, Reason: reason, Message: message}}
}

// backupToTry is the newest proven one, or nil. Where that was taken while its life went on, one in a store whose Job
// is there keeps its turn: what takes longer than from one backup to the next would never come to its end.
func backupToTry(records []v1.MySQLBackup) *v1.MySQLBackup {
	newest := newestProven(records)
	if newest == nil || !isOfLife(newest) {
		return newest
	}
	for i := range records {
		if r := &records[i]; r.IsProven() && r.InStore() && r.DeletionTimestamp == nil && r.IsBeingTried() && r.Status.RestoreTest.Job != "" {
			return r
		}
	}
	return newest
}

// newestProven backup, or nil.
func newestProven(records []v1.MySQLBackup) *v1.MySQLBackup {
	return v1.LatestBackup(records, func(r *v1.MySQLBackup) bool { return r.IsProven() && !r.IsInDoubt() })
}
