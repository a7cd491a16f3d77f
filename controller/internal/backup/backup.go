package backup

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// DecideBackup of the data of a fenced instance, with a Job.
func DecideBackup(s *instance.State) steps.Step {
	j := s.Backup
	if s.Store() != "" {
		return decideBackupToStore(s)
	}
	if c := s.BackupPVC; c != nil && c.Status.Phase == corev1.ClaimBound && !s.IsBackupPVRetained() {
		return KeepBackupPV(s, steps.Step{Attempt: steps.AttemptRunning, Message: fmt.Sprintf("Volume %q is kept for the backups", c.Spec.VolumeName)})
	}
	if at, ok := backupSucceeded(j); ok && s.BackupPVC != nil && s.BackupPVC.DeletionTimestamp == nil {
		return judgeBackupJob(s, at, true) // Whatever has become of the data PVC since.
	}
	if step, held := freeUnmountablePVC(s); held {
		return step
	}
	switch {
	case s.BackupPVC == nil && s.BackupBusy:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning, Message: fmt.Sprintf("Waiting for volume %q of the backups, which is still mounted elsewhere", s.BackupPV.Name)}
	case s.BackupPVC == nil:
		return steps.Step{Action: steps.CreateBackupPVC, Attempt: steps.AttemptRunning, Message: fmt.Sprintf("Making PersistentVolumeClaim %s/%s for the backup", s.JobLocation().Namespace, s.JobLocation().Backup)}
	case j == nil && MustReplaceBackupPVC(s):
		return steps.Step{Action: steps.DeleteBackupPVC, Attempt: steps.AttemptRunning, Message: ResizeMessage(s)}
	case s.BackupPVC.DeletionTimestamp != nil && s.BackupPVC.Spec.VolumeName == "":
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning, Message: ResizeMessage(s)}
	case steps.IsGoing(s.BackupPVC) && j != nil && !steps.IsRunning(j):
		// Its pods hold the PersistentVolumeClaim, or wait for it in vain.
		step, _ := steps.DeleteAndWait([]client.Object{j.Job})
		step.Attempt, step.Message = steps.AttemptRunning, "Backing up the data: trying again"
		return step
	case steps.IsGoing(s.BackupPVC) && j == nil:
		return waitForPerson(s, fmt.Sprintf("PersistentVolumeClaim %s of the backups is being deleted: it is made again on its volume when it is gone", s.BackupPVC.Name))
	case j == nil:
		return steps.Step{Action: steps.CreateBackupJob, Attempt: steps.AttemptRunning, Message: "Backing up the data"}
	case j.DeletionTimestamp != nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning, Message: "Backing up the data: trying again"}
	}
	return followBackupJob(s)
}

// followBackupJob to its end.
func followBackupJob(s *instance.State) steps.Step {
	j := s.Backup
	if at, ok := j.Finished(); at != nil {
		return judgeBackupJob(s, at.Time, ok)
	}
	if s.Record().Status.Phase != v1.BackupRunning {
		return steps.Step{Action: steps.MarkRunning, Attempt: steps.AttemptRunning, Message: "Backing up the data"}
	}
	step := steps.Step{Action: steps.Wait, After: time.Second, Attempt: steps.AttemptRunning}
	step.Percent, step.Message = Progress(j)
	if isAccessEnding(s) {
		step.Action = steps.RenewAccess
	}
	return step
}

// backupSucceeded is true, with the time of its end, for a Job that has succeeded and that
// nobody removes.
func backupSucceeded(j *instance.Job) (at time.Time, ok bool) {
	if j == nil || j.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	end, ok := j.Finished()
	if end == nil || !ok {
		return time.Time{}, false
	}
	return end.Time, true
}

// freeUnmountablePVC is what to do about data that no Job can mount: what can be made
// reachable again is, and for the rest it takes a person.
func freeUnmountablePVC(s *instance.State) (steps.Step, bool) {
	if a := s.Attempt(); a.IsOnline() {
		return steps.Step{}, false // None has to.
	}
	if step, open := MakeDataReachable(s); open {
		return step, true
	}
	volume, name := volumeName(s), s.JobLocation().Namespace+"/"+s.JobLocation().Data
	switch c := s.DataPVC; {
	case s.PVCNameConflict:
		return waitForPerson(s, fmt.Sprintf("PersistentVolumeClaim %s is somebody else's, and the data on volume %q needs one of that name: rename or delete it", name, volume)), true
	case c == nil:
		return waitForPerson(s, fmt.Sprintf("PersistentVolumeClaim %s is gone, and so is volume %q, which holds the data: bring it back", name, volume)), true
	case c.DeletionTimestamp != nil:
		return waitForPerson(s, fmt.Sprintf("PersistentVolumeClaim %s was deleted, and its volume %q, which holds the data, cannot be found: bring it back", name, volume)), true
	case c.Status.Phase == corev1.ClaimLost:
		return waitForPerson(s, fmt.Sprintf("PersistentVolumeClaim %s has lost its volume %q: bring it back", name, volume)), true
	}
	return steps.Step{}, false
}

// waitForPerson who has to act.
func waitForPerson(s *instance.State, message string) steps.Step {
	return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Attempt: steps.AttemptHeld, Message: message, Hint: skipHint(s)}
}

// skipHint is the command that gives the data up.
func skipHint(s *instance.State) string {
	if s.Orphan != nil {
		return fmt.Sprintf("To lose the data for good instead: kubectl annotate pv %s %s=%s", volumeName(s), v1.AnnotationSkipBackup, s.Life.XR)
	}
	return fmt.Sprintf("To lose the data for good instead: kubectl annotate x%s %s %s=%s", strings.ToLower(s.Life.Kind), s.XR.GetName(), v1.AnnotationSkipBackup, s.Life.XR)
}

// WithoutOutsideHint is the command that gives up what is stored outside of the data directory, and no more.
func WithoutOutsideHint(s *instance.State) string {
	hint := "To back up all the rest, and lose what is stored outside: kubectl annotate "
	if len(s.Pods) == 0 {
		hint = "What was stored outside ended with the server's pod. To back up all the rest without it: kubectl annotate "
	}
	if s.Orphan != nil {
		return fmt.Sprintf("%spv %s %s=%s", hint, volumeName(s), v1.AnnotationWithoutOutside, s.Life.XR)
	}
	return fmt.Sprintf("%sx%s %s %s=%s", hint, strings.ToLower(s.Life.Kind), s.XR.GetName(), v1.AnnotationWithoutOutside, s.Life.XR)
}

var sumPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// judgeBackupJob that has ended.
func judgeBackupJob(s *instance.State, at time.Time, succeeded bool) steps.Step {
	r := s.Backup.Report
	size, grows := grownSize(s)
	switch {
	case !succeeded && grows:
		return steps.Step{Action: steps.GrowBackupPVC, Attempt: steps.AttemptRunning, Message: fmt.Sprintf("Backing up the data: PersistentVolumeClaim %s of the backups grows to %s (%s)", s.BackupPVC.Name, size.String(), steps.FailureOf(s.Backup))}
	case !succeeded:
		return retryBackup(s, at, whyNoRoom(s))
	case HasMoved(s, s.Backup):
		return steps.Step{Action: steps.DeleteObjects, Attempt: steps.AttemptRunning, Message: "Backing up the data: its volumes have changed, so it is proved once more", Targets: []client.Object{s.Backup.Job}}
	case r == nil:
		// Its pod is gone, and its word with it. A rerun finds the archive.
		return steps.Step{Action: steps.DeleteObjects, Attempt: steps.AttemptRunning, Message: "Backing up the data: proving it once more", Targets: []client.Object{s.Backup.Job}}
	case r.OK && r.Empty && knownData(s):
		return retryBackup(s, at, "the volume is empty, but the server had data: is it the right volume, on the right node?")
	case r.OK && r.Empty:
		return steps.Step{Action: steps.MarkNoData, Attempt: steps.AttemptEmpty, Message: "There is no database on the volume: nothing to back up"}
	case !r.OK || r.Command != "backup" || !namesArchive(s, r) || !sumPattern.MatchString(r.SHA256):
		return retryBackup(s, at, "the agent's report is not one of a proven archive")
	case isMissing(s):
		return retryBackup(s, at, s.Refusal.Message)
	case wasMissing(s):
		return retryBackup(s, at, s.Record().Status.Message)
	case s.Store() == "" && (!s.IsBackupPVRetained() || s.BackupPV == nil):
		return KeepBackupPV(s, steps.Step{Attempt: steps.AttemptRunning, Percent: 100, Message: fmt.Sprintf("Volume %q is kept for the backups", s.BackupPVC.Spec.VolumeName)})
	}
	if step, full := makeRoomInIndex(s); full {
		return step
	}
	step := steps.Step{Action: steps.NoteBackup, Attempt: steps.AttemptRunning, Percent: 100, Message: "The backup is proven"}
	if steps.RefusalOf(s, steps.NoteBackup) != nil { // Which is said after it.
		step.Message = "The backup is read back, and counts as soon as that is noted beside it"
	}
	return step
}

// isMissing is true where the archive that the Job has reported is not in the store: of another BackupStore than the one that it was sent to, or gone.
func isMissing(s *instance.State) bool {
	f := steps.RefusalOf(s, steps.NoteBackup)
	return f != nil && f.Missing
}

// wasMissing is true where the record says so of the archive that this Job has reported.
func wasMissing(s *instance.State) bool {
	is := &s.Record().Status
	return s.Store() != "" && is.Phase == v1.BackupFailed && strings.Contains(is.Message, path.Join(StoreFolder(s), s.Backup.Report.Archive))
}

// knownData is true if the server answered once or was restored. Then an empty
// volume is not this instance's. A backup of one that goes on is taken because there is data.
func knownData(s *instance.State) bool {
	a := s.Attempt()
	return !a.IsOfDeletion() || serverVersion(s) != "" || s.XR != nil && hasServed(s.XR)
}

func hasServed(xr *instance.Composite) bool {
	r := xr.Status.Restore
	return r != nil && r.Phase == v1.RestoreSucceeded || xr.Status.Initialized || xr.IsServing()
}

// retryBackup after a failure, not at once.
func retryBackup(s *instance.State, at time.Time, why string) steps.Step {
	message := fmt.Sprintf("The backup has failed, and is tried again: %s. Nothing is lost: the data stays on its volume", why)
	pause := min(max(at.Sub(begunAt(s))/4, steps.Soonest), steps.Latest)
	left := at.Add(pause).Sub(s.Now)
	step := steps.Step{Attempt: steps.AttemptFailed, Message: message, Hint: skipHint(s)}
	if r := s.Backup.Report; r != nil && r.ExitCode == agent.ExitOutside {
		step.Hint = WithoutOutsideHint(s)
	}
	switch r := s.Record(); {
	case r.Status.Phase != v1.BackupFailed || r.Status.Message != why:
		step.Action, step.Message = steps.MarkFailed, why
	case left > 0:
		step.Action, step.After = steps.Wait, left
	default:
		step.Action, step.Targets = steps.DeleteObjects, []client.Object{s.Backup.Job}
	}
	return step
}

// begunAt is when the deletion began or, of a life that goes on, its backup.
func begunAt(s *instance.State) time.Time {
	if at := s.Identity().DeletedAt; at != nil {
		return at.Time
	}
	return s.Record().CreationTimestamp.Time
}

// phasesOfBackup in their order, each of which reads all of the data once, and what people are told of them.
var phasesOfBackup = []struct{ phase, says string }{{agent.PhaseClone, ": cloning it"}, {agent.PhaseCopy, ""}, {agent.PhaseProve, ": reading it back"}}

// Progress of a Job. One that clones has three phases, every other has the last two.
func Progress(j *instance.Job) (percent int32, message string) {
	phases := phasesOfBackup
	if !slices.ContainsFunc(j.Spec.Template.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == agent.CloneContainerName }) {
		phases = phases[1:]
	}
	switch p := j.Progress; {
	case j.Report != nil && j.Report.OK:
		return 100, "Backing up the data: done" // The Job is a moment behind its pod.
	case p != nil:
		n := max(0, slices.IndexFunc(phases, func(of struct{ phase, says string }) bool { return of.phase == p.Phase }))
		percent = int32((100*n + min(p.Percent, 100)) / len(phases)) //nolint:gosec // It is at most 100.
		return percent, fmt.Sprintf("Backing up the data, %d%%%s", percent, phases[n].says)
	case j.PodFailure != "":
		return 0, fmt.Sprintf("Backing up the data: it does not run (%s)", j.PodFailure)
	}
	return 0, "Backing up the data"
}

// Builders are those of actions that take a backup.
var Builders = map[steps.Action]steps.Builder{
	steps.CreateBackupPVC:      createBackupPVC,
	steps.RetainBackupPV:       retainBackupPV,
	steps.ExpandBackupPVC:      expandBackupPVC,
	steps.DeleteBackupPVC:      DeleteBackupPVC,
	steps.BeginBackup:          beginBackup,
	steps.SkipNumber:           skipNumber,
	steps.GiveUpBackup:         giveUpBackup,
	steps.EndBackup:            endBackup,
	steps.ResumeServer:         resumeServer,
	steps.PlanBackups:          planBackups,
	steps.ReportLateBackup:     reportLateBackup,
	steps.WithdrawClone:        withdrawClone,
	steps.CreateBackup:         createBackup,
	steps.CreateBackupJob:      createBackupJob,
	steps.GrowBackupPVC:        growBackupPVC,
	steps.MarkRunning:          markRunning,
	steps.MarkFailed:           markFailed,
	steps.NoteBackup:           noteBackup,
	steps.MarkProven:           markProven,
	steps.RecreateBackup:       recreateBackup,
	steps.DeleteUnprovenBackup: deleteUnprovenBackup,
	steps.RenewAccess:          renewAccess,
}

// HasProvenBackup is true if the backup of this life is proven.
func HasProvenBackup(s *instance.State) bool {
	r := s.Record()
	return r != nil && r.IsProven()
}
