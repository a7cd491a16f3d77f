package lifecycle

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// untilClocksAgree is the interval at which the controller compares the clocks.
const untilClocksAgree = time.Minute

// untilRulesAreRead is the interval at which the controller reads the quotas and limits of the namespace. It does not
// watch them, because the status of a quota changes with each pod.
const untilRulesAreRead = time.Hour

// decideWarning writes status.internal.backupWarning if it has changed.
func decideWarning(s *instance.State) (step steps.Step, open bool) {
	text := backupWarning(s)
	return steps.Step{Action: steps.WarnOfBackup, Message: text}, s.XR.Status.BackupWarning != text
}

// backupWarning returns why a later backup could not be taken or deleted, or "". The warning appears while the
// instance runs and there is time to act.
func backupWarning(s *instance.State) string {
	all := []string{backup.RoomWarning(s), namespaceWarning(s), clockWarning(s)}
	return strings.Join(slices.DeleteFunc(all, func(text string) bool { return text == "" }), ". ")
}

// warnOfBackup writes the warning that the function shows to users.
func warnOfBackup(s *instance.State, step steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{"backupWarning": steps.OrNil(step.Message)})
}

// clockWarning returns what is delayed until the clocks of the controller and the API server agree, or "".
func clockWarning(s *instance.State) string {
	if s.Skew.IsTrusted() || !dependsOnClock(s) {
		return ""
	}
	return s.Skew.String() + ". Until the clocks agree, no scheduled backup is started, and no backup is " +
		"deleted because of its age (spec.backup.retention.minAge). Correct the clock of that machine"
}

// namespaceWarning returns which rule of the namespace would refuse the pods of a backup of this instance, or "".
func namespaceWarning(s *instance.State) string {
	if s.Rules == nil || s.Namespace == nil || !s.XR.Status.Started || s.Ephemeral() || s.DataPVC == nil {
		return ""
	}
	if reason := s.Rules.WhyRefused(&finalJob(s).Spec.Template.Spec, true); reason != "" &&
		s.DeletionIntent().Policy() != v1.DeletionDiscard {
		return "A deletion of this instance would wait, because its final backup could not run: " + reason
	}
	if spec := &s.XR.Spec.Backup; spec.ScheduledMethod() == v1.MethodOnline {
		if reason := s.Rules.WhyRefused(
			fitted(s, &backup.CloneJob(s, &agent.Backup{}, backup.ArchivePodVolume(s)).Spec.Template.Spec),
			false); reason != "" {
			return "An online backup of this instance could not run: " + reason
		}
	}
	if s.DeletionIntent().RequiresRestorable() {
		if reason := s.Rules.WhyRefused(fitted(s, serverPod(s)), true); reason != "" {
			return "A deletion of this instance would wait, because the restore test of its final backup " +
				"(requireRestoreTest) could not run: " + reason
		}
	}
	return ""
}

// finalJob returns the Job that a deletion would create now.
func finalJob(s *instance.State) *batchv1.Job {
	return backup.AgentJob(s, s.Attempt().Job, v1.ComponentBackup, nil, backup.DataPodVolume(s))
}

// serverPod returns the pod of a Job that runs a temporary server. It contains only the fields that matter for the
// quotas and limits of the namespace.
func serverPod(s *instance.State) *corev1.PodSpec {
	job := agent.NewJob(s.Instance, s.Instance.Namespace, s.Instance.Jobs().RestoreTest(), v1.ComponentRestoreTest,
		s.Settings.JobResources, backup.PullSecrets(s), corev1.PodSpec{
			SecurityContext: agent.PodSecurity(s.HostPath()),
			Containers: []corev1.Container{
				agent.Container("bootcheck", backup.ServedImage(s), agent.ServerMemory, agent.ServerSecurity(), nil)},
		})
	return &job.Spec.Template.Spec
}

func fitted(s *instance.State, pod *corev1.PodSpec) *corev1.PodSpec {
	s.Rules.Fit(pod)
	return pod
}

// dependsOnClock reports whether backups of the instance are started by a schedule or deleted because of their age.
func dependsOnClock(s *instance.State) bool {
	spec := &s.XR.Spec.Backup
	return spec.Schedule != nil || v1.ParseMinAge(spec.Retention.MinAge) > 0
}

// untilNextCheck returns the time until a healthy instance is reconciled without an event. Zero means never.
func untilNextCheck(s *instance.State) time.Duration {
	after := backup.UntilPlanned(s)
	if s.Rules != nil && (after == 0 || after > untilRulesAreRead) {
		after = untilRulesAreRead
	}
	if !s.Skew.IsTrusted() && dependsOnClock(s) {
		after = untilClocksAgree
	}
	return after
}
