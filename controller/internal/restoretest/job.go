package restoretest

import (
	"path"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// Containers of the Job of a restore test, in the order in which they run.
const (
	containerUnpack    = "unpack"
	containerBootCheck = "bootcheck"
	containerClean     = "clean"
)

// Paths in the pod of a restore test's Job.
const (
	backupPath = "/backup"
	copyPath   = "/copy"
)

// serverMemory is the memory request of the server's container. The server takes 230 MiB, and more for large pages.
const (
	serverMemory = "512Mi"
)

// Time limits of the Job, because a Job that does not terminate has no result. settling is the time for image pulls
// and scheduling. After that, the Job must read at least slowest bytes per second. It must terminate within longest.
// A finished Job is kept for keptFor.
const (
	settling  = 15 * time.Minute
	slowest   = 5 << 20
	longest   = 24 * time.Hour
	keptFor   = 24 * time.Hour
	leaveTime = 5 * time.Second
)

// spareParts and spareRoom determine the free space on the volume for the copy: the size of the data divided by
// spareParts, plus spareRoom in bytes. A starting server creates its own logs, and the job image leaves a tenth of
// the volume free.
const (
	spareParts = 4
	spareRoom  = 1 << 30
)

// mountedBy returns the backup PVC, which is the only PVC of the Job.
func mountedBy(s *State) instance.Mounted {
	return func(string) *corev1.PersistentVolumeClaim { return s.Home.BackupPVC }
}

// newJob returns the Job of a restore test, which starts a server from a copy of a backup. turn is the ID of the
// test. Users choose the server's image in the claim, so its container can access the copy but not the backup.
func newJob(s *State, turn types.UID) *batchv1.Job {
	r, image := s.Record, s.AgentImage
	instanceID := r.Spec.Instance.Instance()
	onHost := s.Volume != nil && s.Volume.Spec.HostPath != nil
	files, ready := agent.FileSecurity(onHost), agent.ToolsMount()
	ready.ReadOnly = true
	backup := corev1.VolumeMount{Name: "backup", MountPath: backupPath}
	copied := corev1.VolumeMount{Name: "backup", MountPath: copyPath, SubPath: v1.RestoreTestDir}
	unpacking := agent.Unpacking{Volume: backupPath, SHA256: r.Spec.Archive.SHA256, Version: r.Spec.Version,
		Clean: r.Spec.CleanShutdown}
	volumes, mounts := []corev1.Volume{agent.ToolsVolume()}, []corev1.VolumeMount{ready, backup}
	if r.InStore() {
		unpacking.Object = r.Spec.Archive.Path
		volumes = append(volumes, agent.ScratchVolume(backup.Name, r.Spec.StorageClass, copySize(r),
			map[string]string{v1.LabelName: "mysql", v1.LabelComponent: v1.ComponentRestoreTest}), agent.AccessVolume(
			instanceID.Accesses().RestoreTest()))
		mounts = append(mounts, corev1.VolumeMount{Name: agent.AccessVolumeName, MountPath: agent.AccessDir,
			ReadOnly: true})
	} else {
		unpacking.Archive = path.Join(backupPath, r.Spec.Archive.Path)
		volumes = append(volumes, agent.PVCVolume(backup.Name, r.Spec.Archive.PVCName))
	}
	first := []corev1.Container{
		agent.ToolsContainer(image),
		agent.VersionContainer(r.Spec.Image),
		agent.Container(containerUnpack, image, agent.Memory, agent.UnpackSecurity(onHost), mounts, unpacking.Unpack()...),
	}
	if onHost {
		first = append(first, agent.OwnContainer(image, copied))
	}
	first = append(first, agent.Container(containerBootCheck, r.Spec.Image, serverMemory, agent.ServerSecurity(),
		[]corev1.VolumeMount{ready, copied}, agent.BootCheck(copyPath)...))
	pod := corev1.PodSpec{
		SecurityContext:               agent.PodSecurity(onHost),
		TerminationGracePeriodSeconds: new(int64(leaveTime.Seconds())),
		InitContainers:                first,
		Containers: []corev1.Container{
			agent.Container(containerClean, image, agent.Memory, files, []corev1.VolumeMount{copied}, agent.Wipe(copyPath)...),
		},
		Volumes: volumes,
	}
	r.Spec.Nodes.Prefer(&pod)
	out := agent.NewJob(instanceID, instanceID.Namespace, instanceID.Jobs().RestoreTest(), v1.ComponentRestoreTest, s.JobResources,
		r.Spec.ImagePullSecrets, pod)
	s.Home.Rules.Fit(&out.Spec.Template.Spec)
	limit := min(settling+time.Duration(r.Spec.Archive.DataBytes/slowest)*time.Second, longest)
	out.Spec.ActiveDeadlineSeconds = new(int64(limit.Seconds()))
	out.Spec.TTLSecondsAfterFinished = new(int32(keptFor.Seconds()))
	out.Annotations[v1.AnnotationRestoreTest] = string(turn)
	instance.RecordPVCs(out, mountedBy(s))
	return out
}

// copySize returns the size of the volume for the copy, which is at least the size of the instance's volume.
func copySize(r *v1.BackupRecord) resource.Quantity {
	size := *resource.NewQuantity(r.Spec.Archive.DataBytes+r.Spec.Archive.DataBytes/spareParts+spareRoom,
		resource.BinarySI)
	if had, err := v1.ParseSize(r.Spec.StorageSize); err == nil && had.Cmp(size) > 0 {
		return had
	}
	return size
}
