package restoretest

import (
	"path"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Containers of the Job, in their order.
const (
	containerUnpack    = "unpack"
	containerBootCheck = "bootcheck"
	containerClean     = "clean"
)

// Places inside the Job's pod.
const (
	backupPath = "/backup"
	copyPath   = "/copy"
)

// Memory that is reserved. The server takes 230 MiB, and more for large pages.
const (
	serverMemory = "512Mi"
)

// A Job that does not end is no verdict. It has a few minutes for images and
// scheduling, and then reads this much in a second at least.
const (
	settling  = 15 * time.Minute
	slowest   = 5 << 20
	longest   = 24 * time.Hour
	keptFor   = 24 * time.Hour
	leaveTime = 5 * time.Second
)

// newJob that starts a server from a copy of a backup. The server's image is the
// claim's: it sees the copy, and not the backup.
func newJob(s *State, image string) *batchv1.Job {
	r := s.Record
	i := r.Spec.Instance
	life := v1.Instance{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, XR: i.XR}
	onHost := s.Volume.Spec.HostPath != nil
	files, ready := agent.FileSecurity(onHost), agent.ToolsMount()
	ready.ReadOnly = true
	backup := corev1.VolumeMount{Name: "backup", MountPath: backupPath}
	copied := corev1.VolumeMount{Name: "backup", MountPath: copyPath, SubPath: v1.RestoreTestFolder}
	out := agent.NewJob(life, i.Namespace, life.RestoreTestJobName(), v1.ComponentRestoreTest, corev1.PodSpec{
		SecurityContext:               agent.PodSecurity(onHost),
		TerminationGracePeriodSeconds: new(int64(leaveTime.Seconds())),
		InitContainers: []corev1.Container{
			agent.ToolsContainer(image),
			agent.VersionContainer(r.Spec.Image),
			agent.Container(containerUnpack, image, agent.Memory, agent.UnpackSecurity(onHost), []corev1.VolumeMount{ready, backup}, agent.Program, "unpack",
				"--archive="+path.Join(backupPath, r.Spec.Archive.Path),
				"--sha256="+r.Spec.Archive.SHA256,
				"--volume="+backupPath,
				"--source-version="+r.Spec.Version,
				"--source-clean="+strconv.FormatBool(r.Spec.CleanShutdown),
				"--target-version="+agent.VersionFile),
			agent.Container(containerBootCheck, r.Spec.Image, serverMemory, files, []corev1.VolumeMount{ready, copied}, agent.CopiedProgram, "bootcheck", "--folder="+copyPath),
		},
		Containers: []corev1.Container{
			agent.Container(containerClean, image, agent.Memory, files, []corev1.VolumeMount{copied}, agent.Program, "wipe", "--volume="+copyPath),
		},
		Volumes: []corev1.Volume{
			agent.ToolsVolume(),
			agent.PVCVolume("backup", r.Spec.Archive.PVCName),
		},
	})
	limit := min(settling+time.Duration(r.Spec.Archive.DataBytes/slowest)*time.Second, longest)
	out.Spec.ActiveDeadlineSeconds = new(int64(limit.Seconds()))
	out.Spec.TTLSecondsAfterFinished = new(int32(keptFor.Seconds()))
	if t := s.restoreTest(); t != nil {
		out.Annotations[v1.AnnotationRestoreTest] = string(t.ID)
	}
	return out
}
