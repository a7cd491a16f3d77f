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

// DecideBackup returns the next step that backs up the data of an instance with a Job.
func DecideBackup(s *instance.State) steps.Step {
	j := s.BackupJob
	if s.Store() != "" {
		return decideBackupToStore(s)
	}
	if c := s.BackupPVC; c != nil && c.Status.Phase == corev1.ClaimBound && !s.IsBackupPVRetained() {
		return KeepBackupPV(s, steps.Step{Attempt: steps.AttemptRunning,
			Message: fmt.Sprintf("Volume %q is retained for the backups", c.Spec.VolumeName)})
	}
	if finished, ok := backupSucceeded(j); ok && s.BackupPVC != nil && s.BackupPVC.DeletionTimestamp == nil {
		return judgeBackupJob(s, finished, true) // The copy is complete, so it does not matter if the data PVC has changed.
	}
	if step, held := freeUnmountablePVC(s); held {
		return step
	}
	switch {
	case s.BackupPVC == nil && s.BackupBusy:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning,
			Message: fmt.Sprintf("Waiting for volume %q of the backups, because its previous PersistentVolumeClaim "+
				"still exists", s.BackupPV.Name)}
	case s.BackupPVC == nil:
		return steps.Step{Action: steps.CreateBackupPVC, Attempt: steps.AttemptRunning,
			Message: fmt.Sprintf("Creating PersistentVolumeClaim %s/%s for the backup", s.JobLocation().Namespace,
				s.JobLocation().Backup)}
	case j == nil && MustReplaceBackupPVC(s):
		return steps.Step{Action: steps.DeleteBackupPVC, Attempt: steps.AttemptRunning, Message: ResizeMessage(s)}
	case s.BackupPVC.DeletionTimestamp != nil && s.BackupPVC.Spec.VolumeName == "":
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning,
			Message: ResizeMessage(s)}
	case steps.IsGoing(s.BackupPVC) && j != nil && !steps.IsRunning(j):
		// The pods of the Job block the deletion of the PersistentVolumeClaim, or are pending because of it.
		step, _ := steps.DeleteAndWait([]client.Object{j.Job})
		step.Attempt, step.Message = steps.AttemptRunning, "Backing up the data: retrying"
		return step
	case steps.IsGoing(s.BackupPVC) && j == nil:
		return waitForPerson(s, fmt.Sprintf(
			"PersistentVolumeClaim %s for the backups is being deleted. After that, it is created again on its volume",
			s.BackupPVC.Name))
	case j == nil:
		return steps.Step{Action: steps.CreateBackupJob, Attempt: steps.AttemptRunning, Message: "Backing up the data"}
	case j.DeletionTimestamp != nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning,
			Message: "Backing up the data: retrying"}
	}
	return followBackupJob(s)
}

// followBackupJob waits until the backup Job is finished.
func followBackupJob(s *instance.State) steps.Step {
	j := s.BackupJob
	if finished, ok := j.Finished(); finished != nil {
		return judgeBackupJob(s, finished.Time, ok)
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

// backupSucceeded returns when the Job finished, and reports whether it succeeded and is not being deleted.
func backupSucceeded(j *instance.Job) (finished time.Time, ok bool) {
	if j == nil || j.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	end, ok := j.Finished()
	if end == nil || !ok {
		return time.Time{}, false
	}
	return end.Time, true
}

// freeUnmountablePVC handles data that no Job can mount. If possible, the controller makes the data available to a
// Job again. Otherwise a user must act.
func freeUnmountablePVC(s *instance.State) (steps.Step, bool) {
	if a := s.Attempt(); a.IsOnline() {
		return steps.Step{}, false // No Job has to mount the data.
	}
	if step, open := MakeDataReachable(s); open {
		return step, true
	}
	volume, name := volumeName(s), s.JobLocation().Namespace+"/"+s.JobLocation().Data
	switch c := s.DataPVC; {
	case s.PVCNameConflict:
		return waitForPerson(s, fmt.Sprintf(
			"PersistentVolumeClaim %s does not belong to this instance, but the data on volume %q needs a "+
				"PersistentVolumeClaim with that name. Delete it, or create it again under another name",
			name, volume)), true
	case c == nil:
		return waitForPerson(s, fmt.Sprintf(
			"PersistentVolumeClaim %s and volume %q, which contains the data, do not exist. Restore the volume",
			name, volume)), true
	case c.DeletionTimestamp != nil:
		return waitForPerson(s, fmt.Sprintf(
			"PersistentVolumeClaim %s was deleted, and its volume %q, which contains the data, does not exist. "+
				"Restore the volume",
			name, volume)), true
	case c.Status.Phase == corev1.ClaimLost:
		return waitForPerson(s, fmt.Sprintf("PersistentVolumeClaim %s has lost its volume %q. Restore the volume", name,
			volume)), true
	}
	return steps.Step{}, false
}

// waitForPerson returns a step that blocks the backup until a user acts. Its hint is the command that skips the backup.
func waitForPerson(s *instance.State, message string) steps.Step {
	return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Attempt: steps.AttemptBlocked, Message: message,
		Hint: skipHint(s)}
}

// skipHint returns the command that skips the backup and loses the data.
func skipHint(s *instance.State) string {
	if s.Orphan != nil {
		return fmt.Sprintf("To delete the data without a backup instead: kubectl annotate pv %s %s=%s", volumeName(s),
			v1.AnnotationSkipBackup, s.Instance.XR)
	}
	return fmt.Sprintf("To delete the data without a backup instead: kubectl annotate %s %s=%s", s.XR.InKubectl(),
		v1.AnnotationSkipBackup, s.Instance.XR)
}

// WithoutOutsideHint returns the command that excludes files outside of the data directory from the backup.
// Everything else is still backed up.
func WithoutOutsideHint(s *instance.State) string {
	hint := "To back up only the data directory, and lose the files outside of it: kubectl annotate "
	if len(s.Pods) == 0 {
		hint = "The files outside of the data directory were deleted with the server's pod. To back up only the " +
			"data directory: kubectl annotate "
	}
	if s.Orphan != nil {
		return fmt.Sprintf("%spv %s %s=%s", hint, volumeName(s), v1.AnnotationWithoutOutside, s.Instance.XR)
	}
	return fmt.Sprintf("%s%s %s=%s", hint, s.XR.InKubectl(), v1.AnnotationWithoutOutside, s.Instance.XR)
}

var sumPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// judgeBackupJob returns the next step after a backup Job has finished. If it failed, the step retries it or expands
// the backup volume.
func judgeBackupJob(s *instance.State, finished time.Time, succeeded bool) steps.Step {
	r := s.BackupJob.Report
	size, grows := grownSize(s)
	switch {
	case !succeeded && grows:
		return steps.Step{Action: steps.GrowBackupPVC, Attempt: steps.AttemptRunning,
			Message: fmt.Sprintf("Backing up the data: expanding PersistentVolumeClaim %s for the backups to %s (%s)",
				s.BackupPVC.Name, size.String(), steps.FailureOf(s.BackupJob))}
	case !succeeded:
		return retryBackup(s, finished, whyNoRoom(s))
	case HasMoved(s, s.BackupJob):
		return steps.Step{Action: steps.DeleteObjects, Attempt: steps.AttemptRunning,
			Message: "Backing up the data: a volume was replaced, so the backup is verified again",
			Targets: []client.Object{s.BackupJob.Job}}
	case r == nil:
		// The report was deleted together with the pod. The Job runs again, finds the existing archive, and reports
		// it.
		return steps.Step{Action: steps.DeleteObjects, Attempt: steps.AttemptRunning,
			Message: "Backing up the data: verifying the backup again", Targets: []client.Object{s.BackupJob.Job}}
	case r.OK && r.Empty && knownData(s):
		return retryBackup(s, finished,
			"the volume is empty, but the server had data. Check that it is the right volume, on the right node")
	case r.OK && r.Empty:
		return steps.Step{Action: steps.MarkNoData, Attempt: steps.AttemptEmpty,
			Message: "The volume contains no database, so there is nothing to back up"}
	case !r.OK || r.Command != "backup" || !namesArchive(s, r) || !sumPattern.MatchString(r.SHA256):
		return retryBackup(s, finished, "the report of the Job does not describe a verified archive")
	case isMissing(s):
		return retryBackup(s, finished, s.Refusal.Message)
	case wasMissing(s):
		return retryBackup(s, finished, s.Record().Status.Message)
	case s.Store() == "" && (!s.IsBackupPVRetained() || s.BackupPV == nil):
		return KeepBackupPV(s, steps.Step{Attempt: steps.AttemptRunning, Percent: 100,
			Message: fmt.Sprintf("Volume %q is retained for the backups", s.BackupPVC.Spec.VolumeName)})
	}
	if step, full := makeRoomInIndex(s); full {
		return step
	}
	step := steps.Step{Action: steps.RecordBackup, Attempt: steps.AttemptRunning, Percent: 100,
		Message: "The backup is verified"}
	if steps.RefusalOf(s, steps.RecordBackup) != nil { // The refusal is appended to this message.
		step.Message = "The archive was read back, but the controller cannot record the backup yet"
	}
	return step
}

// isMissing reports whether the store does not contain the archive that the Job reported. The archive may have been
// deleted, or the BackupStore may have been replaced.
func isMissing(s *instance.State) bool {
	f := steps.RefusalOf(s, steps.RecordBackup)
	return f != nil && f.Missing
}

// wasMissing reports whether the BackupRecord already contains the error that this Job's archive is missing in the
// store.
func wasMissing(s *instance.State) bool {
	status := &s.Record().Status
	return s.Store() != "" && status.Phase == v1.BackupFailed &&
		strings.Contains(status.Message, path.Join(StorePrefix(s), s.BackupJob.Report.Archive))
}

// knownData reports whether the instance must have data: its server has run, it was restored, or the backup is of a
// running instance. If the volume is empty nevertheless, it is the wrong volume.
func knownData(s *instance.State) bool {
	a := s.Attempt()
	return !a.IsOfDeletion() || serverVersion(s) != "" || s.XR != nil && hasServed(s.XR)
}

func hasServed(xr *instance.Composite) bool {
	r := xr.Status.Restore
	return r != nil && r.Phase == v1.RestoreSucceeded || xr.Status.Initialized || xr.IsServing()
}

// retryBackup retries a failed backup after a delay.
func retryBackup(s *instance.State, finished time.Time, reason string) steps.Step {
	message := fmt.Sprintf("The backup has failed and is retried: %s. No data is lost: it stays on its volume",
		reason)
	pause := min(max(finished.Sub(begunAt(s))/4, steps.Soonest), steps.Latest)
	left := finished.Add(pause).Sub(s.Now)
	step := steps.Step{Attempt: steps.AttemptFailed, Message: message, Hint: skipHint(s)}
	if r := s.BackupJob.Report; r != nil && r.ExitCode == agent.ExitOutside {
		step.Hint = WithoutOutsideHint(s)
	}
	switch r := s.Record(); {
	case r.Status.Phase != v1.BackupFailed || r.Status.Message != reason:
		step.Action, step.Message = steps.MarkFailed, reason
	case left > 0:
		step.Action, step.After = steps.Wait, left
	default:
		step.Action, step.Targets = steps.DeleteObjects, []client.Object{s.BackupJob.Job}
	}
	return step
}

// begunAt returns when the deletion started or, for a running instance, when the backup started.
func begunAt(s *instance.State) time.Time {
	if deletedAt := s.Identity().DeletedAt; deletedAt != nil {
		return deletedAt.Time
	}
	return s.Record().CreationTimestamp.Time
}

// phasesOfBackup lists the phases of a backup in order, and what messages say about them. Each phase reads the
// complete data once.
var phasesOfBackup = []struct{ phase, says string }{{agent.PhaseClone, ": cloning"}, {agent.PhaseCopy, ""},
	{agent.PhaseVerify, ": verifying"}}

// Progress returns the progress of a Job. A Job that clones has three phases, and every other Job has the last two.
func Progress(j *instance.Job) (percent int32, message string) {
	phases := phasesOfBackup
	if !slices.ContainsFunc(j.Spec.Template.Spec.InitContainers,
		func(c corev1.Container) bool { return c.Name == agent.CloneContainerName }) {
		phases = phases[1:]
	}
	switch p := j.Progress; {
	case j.Report != nil && j.Report.OK:
		return 100, "Backing up the data: done" // The Job's status is updated after the status of its pod.
	case p != nil:
		n := max(0, slices.IndexFunc(phases, func(phase struct{ phase, says string }) bool { return phase.phase == p.Phase }))
		percent = int32((100*n + min(p.Percent, 100)) / len(phases)) //nolint:gosec // It is at most 100.
		return percent, fmt.Sprintf("Backing up the data, %d%%%s", percent, phases[n].says)
	case j.PodFailure != "":
		return 0, fmt.Sprintf("Backing up the data: the Job does not run (%s)", j.PodFailure)
	}
	return 0, "Backing up the data"
}

// Builders maps the actions of a backup to the functions that build their changes.
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
	steps.RecordBackup:         recordBackup,
	steps.MarkVerified:         markVerified,
	steps.RecreateBackup:       recreateBackup,
	steps.DeleteUnprovenBackup: deleteUnprovenBackup,
	steps.RenewAccess:          renewAccess,
}

// HasVerifiedBackup reports whether the backup of this instance is verified.
func HasVerifiedBackup(s *instance.State) bool {
	r := s.Record()
	return r != nil && r.IsVerified()
}
