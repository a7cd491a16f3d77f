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

// untilClocksAgree is how often the clocks are compared again.
const untilClocksAgree = time.Minute

// untilRulesAreRead is how often the rules of the namespace are looked at without an event. Their changes are not watched: the status of a quota
// changes with each pod.
const untilRulesAreRead = time.Hour

// decideWarning writes status.backupWarning if it has changed.
func decideWarning(s *instance.State) (step steps.Step, open bool) {
	text := backupWarning(s)
	return steps.Step{Action: steps.WarnOfBackup, Message: text}, s.XR.Status.BackupWarning != text
}

// backupWarning says what will keep a later backup from being taken or removed, while the instance lives and there is time to act. Empty if nothing
// does.
func backupWarning(s *instance.State) string {
	all := []string{backup.RoomWarning(s), namespaceWarning(s), clockWarning(s)}
	return strings.Join(slices.DeleteFunc(all, func(text string) bool { return text == "" }), ". ")
}

// warnOfBackup writes what the function says to people.
func warnOfBackup(s *instance.State, step steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{"backupWarning": steps.OrNil(step.Message)})
}

// clockWarning says what waits until the clocks of the controller and the API server agree.
func clockWarning(s *instance.State) string {
	if s.Skew.IsTrusted() || !dependsOnClock(s) {
		return ""
	}
	return s.Skew.String() + ": until both agree, no backup is started by the schedule, and none is deleted because of its age (keepFor). Correct the clock of that machine"
}

// namespaceWarning says what of the namespace would refuse the pods by which this instance is backed up.
func namespaceWarning(s *instance.State) string {
	if s.Rules == nil || s.Namespace == nil || !s.XR.Status.Started || s.Ephemeral() || s.DataPVC == nil {
		return ""
	}
	if why := s.Rules.WhyRefused(&finalJob(s).Spec.Template.Spec, true); why != "" && s.Word().Policy() != v1.DeletionDiscard {
		return "The final backup of this instance could not run, and its deletion would wait: " + why
	}
	if spec := &s.XR.Spec.Backup; spec.Method == v1.MethodOnline && (spec.Schedule != "" || spec.Request != "") {
		if why := s.Rules.WhyRefused(fitted(s, &backup.CloneJob(s, &agent.Backup{}, backup.ArchivePodVolume(s)).Spec.Template.Spec), false); why != "" {
			return "An online backup of this instance could not run: " + why
		}
	}
	if s.Word().RequiresRestorable() {
		if why := s.Rules.WhyRefused(fitted(s, serverPod(s)), true); why != "" {
			return "The restore test of the final backup (requireRestorable) could not run, and the deletion of this instance would wait: " + why
		}
	}
	return ""
}

// finalJob is the one that a deletion would create now.
func finalJob(s *instance.State) *batchv1.Job {
	return backup.AgentJob(s, s.Attempt().Job, v1.ComponentBackup, nil, backup.DataPodVolume(s))
}

// serverPod is that of a Job in which a server runs for a while, as far as a namespace may refuse it.
func serverPod(s *instance.State) *corev1.PodSpec {
	job := agent.NewJob(s.Life, s.Life.Namespace, s.Life.Jobs().RestoreTest(), v1.ComponentRestoreTest, s.Settings.JobResources, corev1.PodSpec{
		SecurityContext: agent.PodSecurity(s.HostPath()),
		Containers:      []corev1.Container{agent.Container("bootcheck", backup.ServedImage(s), agent.ServerMemory, agent.ServerSecurity(), nil)},
	})
	return &job.Spec.Template.Spec
}

func fitted(s *instance.State, pod *corev1.PodSpec) *corev1.PodSpec {
	s.Rules.Fit(pod)
	return pod
}

// dependsOnClock reports whether backups of the instance are started or deleted at a time.
func dependsOnClock(s *instance.State) bool {
	spec := &s.XR.Spec.Backup
	return spec.Schedule != "" || v1.ParseKeepFor(spec.KeepFor) > 0
}

// untilNextLook is how long a living instance that is as it should be needs no look without an event; zero for ever.
func untilNextLook(s *instance.State) time.Duration {
	after := backup.UntilPlanned(s)
	if s.Rules != nil && (after == 0 || after > untilRulesAreRead) {
		after = untilRulesAreRead
	}
	if !s.Skew.IsTrusted() && dependsOnClock(s) {
		after = untilClocksAgree
	}
	return after
}
