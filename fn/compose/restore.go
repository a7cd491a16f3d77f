package compose

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Places inside the restore Job's pod.
const (
	toolsPath   = "/tools"
	dataPath    = "/data"
	archivePath = "/backup"
)

// restoreRetries is how often a restore is tried again after a fault that may
// pass, such as a node that goes away.
const restoreRetries int32 = 6

// restoreKept in seconds is how long a restore Job that has ended can be looked
// at: a day. One that failed is then tried again.
const restoreKept int32 = 24 * 60 * 60

// restoreJob brings the data back before the server's first start. A Job cannot
// change: the spec of one that is observed is wanted as it is.
func (p *plan) restoreJob() *batchv1.Job {
	j := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: p.meta(p.instance.RestoreJobName(), map[string]string{v1.LabelComponent: v1.ComponentRestore}),
	}
	j.Annotations = p.claimAnnotations()
	if o := p.Observed.Restore; o != nil {
		j.Annotations[v1.AnnotationRestore] = o.Annotations[v1.AnnotationRestore]
		return j
	}
	choice, _ := json.Marshal(p.start.restore) //nolint:errchkjson // Strings, numbers and booleans only.
	j.Annotations[v1.AnnotationRestore] = string(choice)
	j.Spec = batchv1.JobSpec{
		BackoffLimit:            new(restoreRetries),
		TTLSecondsAfterFinished: new(restoreKept),
		PodReplacementPolicy:    new(batchv1.Failed),
		PodFailurePolicy:        restoreFailurePolicy(),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: p.labels(map[string]string{v1.LabelComponent: v1.ComponentRestore})},
			Spec:       p.restorePod(),
		},
	}
	return j
}

// restoreFailurePolicy ends the Job at once on what no retry can mend, and does
// not count what happened to the pod from outside.
func restoreFailurePolicy() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(v1.ComponentRestore),
				Operator:      batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values:        v1.PermanentExits(),
			},
		},
		{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		},
	}}
}

// restorePod asks the server's own image for its version, with our binary copied
// into it, and then restores. It has no API credentials and no password.
func (p *plan) restorePod() corev1.PodSpec {
	r := p.start.restore
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext:              p.jobSecurity(),
		InitContainers:               []corev1.Container{p.toolsContainer(), p.versionContainer()},
		Containers: []corev1.Container{
			p.jobContainer(v1.ComponentRestore, p.Settings.AgentImage, []corev1.VolumeMount{
				toolsMount(),
				{Name: "data", MountPath: dataPath},
				{Name: "backup", MountPath: archivePath, ReadOnly: true},
			}, "/controller", "restore",
				"--archive="+archivePath+"/"+r.Archive.Path,
				"--sha256="+r.Archive.SHA256,
				"--volume="+dataPath,
				"--directory="+v1.DataDirectory,
				"--source-version="+r.Version,
				"--source-clean="+strconv.FormatBool(r.CleanShutdown),
				"--target-version="+toolsPath+"/version.json"),
		},
		Volumes: []corev1.Volume{
			emptyVolume("tools"),
			claimVolume("data", p.instance.DataPVCName(), false),
			claimVolume("backup", r.Archive.PVCName, true),
		},
	}
}

func toolsMount() corev1.VolumeMount { return corev1.VolumeMount{Name: "tools", MountPath: toolsPath} }

// toolsContainer brings our binary to where the server's image can run it.
func (p *plan) toolsContainer() corev1.Container {
	return p.jobContainer("tools", p.Settings.AgentImage, []corev1.VolumeMount{toolsMount()}, "/controller", "install", "--to="+toolsPath+"/controller")
}

// versionContainer asks the server's image for its version.
func (p *plan) versionContainer() corev1.Container {
	return p.jobContainer("version", p.image, []corev1.VolumeMount{toolsMount()}, toolsPath+"/controller", "version-of-server", "--to="+toolsPath+"/version.json")
}

func (p *plan) jobContainer(name, image string, mounts []corev1.VolumeMount, command ...string) corev1.Container {
	return corev1.Container{
		Name:                     name,
		Image:                    image,
		Command:                  command,
		VolumeMounts:             mounts,
		Resources:                p.jobResources,
		SecurityContext:          p.containerSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func claimVolume(name, claim string, readOnly bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly},
	}}
}

// exitCode in the message that the Job controller writes when a pod failure
// policy ends a Job (matchesFailJob in pkg/controller/job/pod_failure_policy.go
// of Kubernetes).
var exitCode = regexp.MustCompile(`failed with exit code (\d+)`)

// restoreFailure says what a failed restore Job means, and what to do.
func restoreFailure(j *batchv1.Job, backup string) string {
	again := fmt.Sprintf("then delete Job %s, and it is tried again", qualified(j.Namespace, j.Name))
	message := jobCondition(j, batchv1.JobFailed).Message
	code := 0
	if m := exitCode.FindStringSubmatch(message); m != nil {
		code, _ = strconv.Atoi(m[1]) // Digits only; what does not fit matches no case.
	}
	switch code {
	case v1.ExitVersion:
		return fmt.Sprintf("Backup %q was written by a server that spec.image cannot take over from, a newer one or one too far behind; nothing was written. Set spec.image to that server's version, %s", backup, again)
	case v1.ExitUnclean:
		return fmt.Sprintf("The server that wrote backup %q did not stop cleanly, and MySQL upgrades only what did; nothing was written. Set spec.image to the very version that wrote it, %s", backup, again)
	case v1.ExitDamaged:
		return fmt.Sprintf("The archive of backup %q is damaged: its checksum does not hold; nothing was restored. Bring the file back, %s; or create the claim again with spec.restore.backup set to an older one", backup, again)
	case v1.ExitMissing:
		return fmt.Sprintf("The archive of backup %q or its manifest.json is not on its volume. Bring it back, %s; or create the claim again with spec.restore.backup set to another one", backup, again)
	case v1.ExitOccupied:
		return fmt.Sprintf("The data volume already holds a database, so backup %q was not restored over it. Look at the volume, %s", backup, again)
	case v1.ExitNoSpace:
		return fmt.Sprintf("Backup %q does not fit on the data volume. Let the volume grow, %s", backup, again)
	}
	return fmt.Sprintf("Restoring backup %q has failed (%s); the server does not start. Look at the log of Job %s, mend the cause, %s", backup, orUnknown(message), qualified(j.Namespace, j.Name), again)
}

func orUnknown(s string) string {
	if s == "" {
		return "the Job does not say why"
	}
	return s
}
