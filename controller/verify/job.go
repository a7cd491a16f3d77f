package verify

import (
	"path"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/job"
)

// Containers of the Job, in their order.
const (
	containerTools   = "tools"
	containerVersion = "version"
	containerUnpack  = "unpack"
	containerVerify  = "verify"
	containerClean   = "clean"
)

// Places inside the Job's pod.
const (
	toolsPath  = "/tools"
	backupPath = "/backup"
	copyPath   = "/verify"
)

// Memory that is reserved. The server takes 230 MiB, and more for large pages.
const (
	agentMemory  = "64Mi"
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
func newJob(s *State, agent string) *batchv1.Job {
	r := s.Record
	i := r.Spec.Instance
	life := v1.Instance{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, XR: i.XR}
	onHost := s.Volume.Spec.HostPath != nil
	files, unpacks := job.FileSecurity(onHost), job.FileSecurity(onHost)
	if onHost { // Its files get the owner that they had.
		unpacks.Capabilities.Add = append(unpacks.Capabilities.Add, "CHOWN")
	}
	tools := corev1.VolumeMount{Name: "tools", MountPath: toolsPath}
	ready := corev1.VolumeMount{Name: "tools", MountPath: toolsPath, ReadOnly: true}
	backup := corev1.VolumeMount{Name: "backup", MountPath: backupPath}
	copied := corev1.VolumeMount{Name: "backup", MountPath: copyPath, SubPath: v1.VerifyFolder}
	version, program := toolsPath+"/version.json", toolsPath+job.Program
	out := job.New(life, i.Namespace, life.VerifyJobName(), v1.ComponentVerify, corev1.PodSpec{
		SecurityContext:               job.PodSecurity(onHost),
		TerminationGracePeriodSeconds: new(int64(leaveTime.Seconds())),
		InitContainers: []corev1.Container{
			job.Container(containerTools, agent, agentMemory, files, []corev1.VolumeMount{tools}, job.Program, "install", "--to="+program),
			job.Container(containerVersion, r.Spec.Image, agentMemory, job.Security(), []corev1.VolumeMount{tools}, program, "version-of-server", "--to="+version),
			job.Container(containerUnpack, agent, agentMemory, unpacks, []corev1.VolumeMount{ready, backup}, job.Program, "unpack",
				"--archive="+path.Join(backupPath, r.Spec.Archive.Path),
				"--sha256="+r.Spec.Archive.SHA256,
				"--volume="+backupPath,
				"--source-version="+r.Spec.Version,
				"--source-clean="+strconv.FormatBool(r.Spec.CleanShutdown),
				"--target-version="+version),
			job.Container(containerVerify, r.Spec.Image, serverMemory, files, []corev1.VolumeMount{ready, copied}, program, "verify", "--folder="+copyPath),
		},
		Containers: []corev1.Container{
			job.Container(containerClean, agent, agentMemory, files, []corev1.VolumeMount{copied}, job.Program, "wipe", "--volume="+copyPath),
		},
		Volumes: []corev1.Volume{
			{Name: "tools", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			job.PVCVolume("backup", r.Spec.Archive.PVCName),
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
