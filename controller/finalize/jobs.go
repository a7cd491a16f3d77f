package finalize

import (
	"encoding/json"
	"path"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// archiveName of a backup, in its record's folder.
const archiveName = "data.tar.zst"

// annotationPruned of a prune Job lists the records whose folders it removes, as
// JSON. It is read back once the Job is complete.
const annotationPruned = v1.Group + "/pruned"

// Volumes of a Job's pod, and where they are in it.
const (
	volumeData   = "data"
	volumeBackup = "backup"
	dataPath     = "/" + volumeData
	backupPath   = "/" + volumeBackup
)

// backupJob archives the data of a stopped server.
func backupJob(s *instance.State, image string) *batchv1.Job {
	command := []string{
		agent.Program, "backup",
		"--volume=" + dataPath,
		"--directory=" + v1.DataDirectory,
		"--archive=" + path.Join(backupPath, s.Life.RecordName(), archiveName),
		"--record=" + s.Life.RecordName(),
		"--xr=" + string(s.Life.XR),
		"--kind=" + s.Life.Kind,
		"--namespace=" + s.Life.Namespace,
		"--namespace-uid=" + string(s.NamespaceUID()),
		"--name=" + s.Life.Name,
		"--image=" + serverImage(s),
	}
	if v := serverVersion(s); v != "" {
		command = append(command, "--source-version="+v)
	}
	if !s.Orphaned && !knownData(s) && s.Life.Kind == v1.KindMySQL { // Only there the first start's end leaves a trace.
		command = append(command, "--never-served")
	}
	return agentJob(s, image, s.JobLocation().BackupJob, v1.ComponentBackup, command, dataPodVolume(s), backupPodVolume(s))
}

// wipeJob empties the folder of a hostPath volume.
func wipeJob(s *instance.State, image string) *batchv1.Job {
	return agentJob(s, image, s.JobLocation().WipeJob, v1.ComponentWipe, []string{agent.Program, "wipe", "--volume=" + dataPath}, dataPodVolume(s))
}

// pruneJob removes the folders of records.
func pruneJob(s *instance.State, image string, records []client.Object) *batchv1.Job {
	names := make([]string, 0, len(records))
	command := append(make([]string, 0, len(records)+3), agent.Program, "prune", "--volume="+backupPath)
	for _, r := range records {
		names = append(names, r.GetName())
		command = append(command, "--folder="+r.GetName())
	}
	j := agentJob(s, image, s.JobLocation().PruneJob, v1.ComponentPrune, command, backupPodVolume(s))
	list, _ := json.Marshal(names) //nolint:errchkjson // Strings only.
	j.Annotations[annotationPruned] = string(list)
	return j
}

// agentJob runs the agent beside the volumes, each mounted under its name.
func agentJob(s *instance.State, image, name, component string, command []string, volumes ...corev1.Volume) *batchv1.Job {
	mounts := make([]corev1.VolumeMount, 0, len(volumes))
	for _, v := range volumes {
		mounts = append(mounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	j := agent.NewJob(s.Life, s.JobLocation().Namespace, name, component, corev1.PodSpec{
		SecurityContext: agent.PodSecurity(s.HostPath()),
		Containers:      []corev1.Container{agent.Container(component, image, agent.Memory, agent.FileSecurity(s.HostPath()), mounts, command...)},
		Volumes:         volumes,
	})
	notePVCs(s, j)
	return j
}

func dataPodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(volumeData, s.JobLocation().Data)
}

func backupPodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(volumeBackup, s.JobLocation().Backup)
}

// serverImage that wrote the data.
func serverImage(s *instance.State) string {
	if s.XR.Status.Image != "" {
		return s.XR.Status.Image
	}
	return dataAnnotation(s, v1.AnnotationImage)
}

// serverVersion that the server gave as its own; empty where it never answered.
func serverVersion(s *instance.State) string { return dataAnnotation(s, v1.AnnotationVersion) }

// dataAnnotation of the data PVC or volume.
func dataAnnotation(s *instance.State, key string) string {
	if s.DataPVC != nil && s.DataPVC.Annotations[key] != "" {
		return s.DataPVC.Annotations[key]
	}
	if s.DataPV != nil {
		return s.DataPV.Annotations[key]
	}
	return ""
}

// identityAnnotations are the annotations of a data volume that say what must be known of it when
// claim and XR are gone.
func identityAnnotations(s *instance.State) map[string]string {
	a := agent.Annotations(s.Life)
	a[v1.AnnotationImage] = serverImage(s)
	a[v1.AnnotationNamespaceUID] = string(s.NamespaceUID())
	a[v1.AnnotationDeletionPolicy] = string(s.XR.Spec.DeletionPolicy)
	if v := serverVersion(s); v != "" {
		a[v1.AnnotationVersion] = v
	}
	return a
}
