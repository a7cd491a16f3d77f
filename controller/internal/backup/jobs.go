package backup

import (
	"cmp"
	"encoding/json"
	"path"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

func createBackupJob(s *instance.State, _ steps.Step) []change.Change {
	var out []change.Change
	if s.Store() != "" {
		out = append(out, GiveBackupAccess(s))
	}
	if a := s.Attempt(); a.IsOnline() {
		out = append(out, OfferClone(s))
	}
	return append(out, change.NewObject(NewJob(s)))
}

// NewJob returns the Job that archives the data of an instance.
func NewJob(s *instance.State) *batchv1.Job {
	r := s.Record()
	if r == nil {
		r = NewRecord(s)
	}
	b := agent.Backup{
		Volume: steps.DataPath,
		Record: s.Attempt().Record, Image: serverImage(s),
		Instance: s.Instance, NamespaceUID: s.NamespaceUID(), Version: serverVersion(s),
		Announced: r.CreationTimestamp.Time, Number: r.Spec.Number, StorageSize: r.Spec.StorageSize,
		WithoutOutside: s.DeletionIntent().LeavesOutside(),
		// The data of a Database does not show whether its initialization completed.
		NeverServed: s.Orphan == nil && !knownData(s) && s.Instance.Kind != v1.KindDatabase,
	}
	volume := ArchivePodVolume(s)
	if s.Store() != "" {
		b.Object, volume = StorePrefix(s), agent.AccessVolume(s.Attempt().Access)
	} else {
		b.Archive = path.Join(steps.BackupPath, s.Attempt().Record, catalog.ArchiveName)
	}
	if a := s.Attempt(); a.IsOnline() {
		return CloneJob(s, &b, volume)
	}
	return AgentJob(s, s.Attempt().Job, v1.ComponentBackup, b.Command(), DataPodVolume(s), volume)
}

// WipeJob returns the Job that empties the directory of a hostPath volume.
func WipeJob(s *instance.State) *batchv1.Job {
	return AgentJob(s, s.JobLocation().WipeJob, v1.ComponentErase, agent.WipeData(s.Instance.XR, steps.DataPath),
		DataPodVolume(s))
}

// PruneJob returns the Job that deletes the directories of the given BackupRecords.
func PruneJob(s *instance.State, records []client.Object) *batchv1.Job {
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.GetName())
	}
	j := AgentJob(s, s.JobLocation().PruneJob, v1.ComponentPrune, agent.Prune(steps.BackupPath, names...),
		ArchivePodVolume(s))
	list, _ := json.Marshal(names) //nolint:errchkjson // Strings only.
	j.Annotations[v1.AnnotationPruned] = string(list)
	return j
}

// AgentJob returns a Job that runs the controller's image. It mounts each volume at the path /NAME, with the name of
// the volume.
func AgentJob(s *instance.State, name, component string, command []string, volumes ...corev1.Volume) *batchv1.Job {
	j := volumeJob(s, name, component, command, volumes...).Job()
	s.Rules.Fit(&j.Spec.Template.Spec)
	recordPVCs(s, j)
	return j
}

// volumeJob returns the fields that all Jobs of an instance have in common.
func volumeJob(s *instance.State, name, component string, command []string, volumes ...corev1.Volume) agent.VolumeJob {
	return agent.VolumeJob{
		Of: s.Instance, Namespace: s.JobLocation().Namespace, Name: name, Component: component, Image: s.Settings.AgentImage,
		Resources: s.Settings.JobResources, Nodes: nodesOf(s), PullSecrets: PullSecrets(s), OnNode: s.HostPath(),
		Command: command, Volumes: volumes,
	}
}

// nodesOf returns the nodes on which the Jobs of the instance can run. They come from the status of the XR, or from
// the volume if the XR is deleted. The PVC is not read, because users of the claim's namespace can change it.
func nodesOf(s *instance.State) *v1.NodePlacement {
	switch {
	case s.XR != nil && s.XR.Status.UID != "": // The function has written the status.
		return s.XR.Status.Nodes
	case s.DataPV != nil:
		return v1.ReadNodes(s.DataPV.Annotations[v1.AnnotationNodes])
	}
	return nil
}

// PullSecrets returns the names of the instance's image pull secrets. They come from the XR. If the XR is deleted or
// the field is unreadable, they come from the volume. The PVC is not read, because users of the claim's namespace can
// change it.
func PullSecrets(s *instance.State) []v1.ImagePullSecret {
	switch {
	case s.XR != nil && !s.XR.Unreadable.Has("spec.imagePullSecrets"):
		return s.XR.Spec.ImagePullSecrets
	case s.DataPV != nil:
		return v1.ReadPullSecrets(s.DataPV.Annotations[v1.AnnotationPullSecrets])
	}
	return nil
}

// DataPodVolume returns the pod volume that mounts the data in the Jobs of this instance.
func DataPodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(steps.VolumeData, s.JobLocation().Data)
}

// ArchivePodVolume returns the pod volume that mounts the backup volume in the Jobs of this instance.
func ArchivePodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(steps.VolumeBackup, s.JobLocation().Backup)
}

// serverImage returns the image of the server that wrote the data.
func serverImage(s *instance.State) string {
	return cmp.Or(s.Identity().Image, dataAnnotation(s, v1.AnnotationImage))
}

// serverVersion returns the version that the server reported, or "" if it never responded.
func serverVersion(s *instance.State) string { return dataAnnotation(s, v1.AnnotationVersion) }

// dataAnnotation returns an annotation of the data PVC or volume.
func dataAnnotation(s *instance.State, key string) string {
	if s.DataPVC != nil && s.DataPVC.Annotations[key] != "" {
		return s.DataPVC.Annotations[key]
	}
	if s.DataPV != nil {
		return s.DataPV.Annotations[key]
	}
	return ""
}

// IdentityAnnotations returns the annotations of a data volume that identify the instance even after claim and XR are
// deleted.
func IdentityAnnotations(s *instance.State) map[string]string {
	a := agent.Annotations(s.Instance)
	a[v1.AnnotationImage] = serverImage(s)
	a[v1.AnnotationNamespaceUID] = string(s.NamespaceUID())
	// An empty value replaces the annotation that names a store which the instance no longer uses.
	if store := s.Store(); store != "" || s.DataPV != nil && s.DataPV.Annotations[v1.AnnotationBackupStore] != "" {
		a[v1.AnnotationBackupStore] = store
	}
	a[v1.AnnotationDeletionPolicy] = string(s.Identity().DeletionPolicy)
	if v := serverVersion(s); v != "" {
		a[v1.AnnotationVersion] = v
	}
	if n := s.Identity().BackupNumber; n > 0 {
		a[v1.AnnotationBackupNumber] = strconv.FormatInt(n, 10)
	}
	if n := s.Identity().FirstBackupNumber; n > 0 {
		a[v1.AnnotationFirstBackupNumber] = strconv.FormatInt(n, 10)
	} else if v := s.DataPV; v != nil && v.Labels[v1.LabelXR] != string(
		s.Instance.XR) && v.Annotations[v1.AnnotationFirstBackupNumber] != "" { // The number belongs to another instance.
		a[v1.AnnotationFirstBackupNumber] = ""
	}
	// An empty value replaces the annotation that names nodes to which the Jobs are no longer restricted.
	if nodes := nodesOf(s).Annotation(); nodes != "" || s.DataPV != nil && s.DataPV.Annotations[v1.AnnotationNodes] != "" {
		a[v1.AnnotationNodes] = nodes
	}
	// An empty value replaces the annotation that names pull secrets which the instance no longer uses.
	if secrets := v1.PullSecretsAnnotation(PullSecrets(s)); secrets != "" || s.DataPV != nil &&
		s.DataPV.Annotations[v1.AnnotationPullSecrets] != "" {
		a[v1.AnnotationPullSecrets] = secrets
	}
	if choice := s.Identity().Choice; choice != "" {
		a[v1.AnnotationChoice] = choice
	}
	return a
}
