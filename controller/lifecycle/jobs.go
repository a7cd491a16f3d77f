package lifecycle

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
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// ArchiveName of a backup, in its record's folder.
const ArchiveName = "data.tar.zst"

// Volumes of a Job's pod, and where they are in it.
const (
	volumeData   = "data"
	volumeBackup = "backup"
	dataPath     = "/" + volumeData
	backupPath   = "/" + volumeBackup
)

// backupJob archives the data of a stopped server.
func backupJob(s *instance.State) *batchv1.Job {
	r := s.Record()
	if r == nil {
		r = newRecord(s)
	}
	b := agent.Backup{
		Volume: dataPath,
		Record: s.Attempt().Record, Image: serverImage(s),
		Instance: s.Life, NamespaceUID: s.NamespaceUID(), Version: serverVersion(s),
		Announced: r.CreationTimestamp.Time, Number: r.Spec.Number, StorageSize: r.Spec.StorageSize,
		WithoutOutside: s.Word().LeavesOutside(),
		NeverServed:    s.Orphan == nil && !knownData(s) && s.Life.Kind == v1.KindMySQL, // Only there the first start's end leaves a trace.
	}
	to := backupPodVolume(s)
	if s.Store() != "" {
		b.Object, to = storeFolder(s), agent.AccessVolume(s.Attempt().Access)
	} else {
		b.Archive = path.Join(backupPath, s.Attempt().Record, ArchiveName)
	}
	if a := s.Attempt(); a.IsOnline() {
		return cloneJob(s, &b, to)
	}
	return agentJob(s, s.Attempt().Job, v1.ComponentBackup, b.Command(), dataPodVolume(s), to)
}

// wipeJob empties the folder of a hostPath volume.
func wipeJob(s *instance.State) *batchv1.Job {
	return agentJob(s, s.JobLocation().WipeJob, v1.ComponentWipe, agent.WipeData(s.Life.XR, dataPath), dataPodVolume(s))
}

// pruneJob removes the folders of records.
func pruneJob(s *instance.State, records []client.Object) *batchv1.Job {
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.GetName())
	}
	j := agentJob(s, s.JobLocation().PruneJob, v1.ComponentPrune, agent.Prune(backupPath, names...), backupPodVolume(s))
	list, _ := json.Marshal(names) //nolint:errchkjson // Strings only.
	j.Annotations[v1.AnnotationPruned] = string(list)
	return j
}

// agentJob runs the agent beside the volumes, each mounted under its name.
func agentJob(s *instance.State, name, component string, command []string, volumes ...corev1.Volume) *batchv1.Job {
	j := volumeJob(s, name, component, command, volumes...).Job()
	s.Rules.Fit(&j.Spec.Template.Spec)
	notePVCs(s, j)
	return j
}

// volumeJob is what is the same of all Jobs of an instance.
func volumeJob(s *instance.State, name, component string, command []string, volumes ...corev1.Volume) agent.VolumeJob {
	return agent.VolumeJob{
		Of: s.Life, Namespace: s.JobLocation().Namespace, Name: name, Component: component, Image: s.Settings.AgentImage,
		Resources: s.Settings.JobResources, Nodes: nodesOf(s), OnNode: s.HostPath(), Command: command, Volumes: volumes,
	}
}

// nodesOf the instance's Jobs, as the XR's status has them, or the volume where that is gone. The PVC does not count: it is in the
// claim's namespace, where others may write.
func nodesOf(s *instance.State) *v1.NodePlacement {
	switch {
	case s.XR != nil && s.XR.Status.UID != "": // The function has written it.
		return s.XR.Status.Nodes
	case s.DataPV != nil:
		return v1.ReadNodes(s.DataPV.Annotations[v1.AnnotationNodes])
	}
	return nil
}

func dataPodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(volumeData, s.JobLocation().Data)
}

func backupPodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(volumeBackup, s.JobLocation().Backup)
}

// serverImage that wrote the data.
func serverImage(s *instance.State) string {
	return cmp.Or(s.Identity().Image, dataAnnotation(s, v1.AnnotationImage))
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
	if store := s.Store(); store != "" || s.DataPV != nil && s.DataPV.Annotations[v1.AnnotationBackupStore] != "" { // What it was is taken back.
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
	} else if v := s.DataPV; v != nil && v.Labels[v1.LabelXR] != string(s.Life.XR) && v.Annotations[v1.AnnotationFirstBackupNumber] != "" { // Another life's is taken back.
		a[v1.AnnotationFirstBackupNumber] = ""
	}
	if nodes := nodesOf(s).Annotation(); nodes != "" || s.DataPV != nil && s.DataPV.Annotations[v1.AnnotationNodes] != "" { // What they were is taken back.
		a[v1.AnnotationNodes] = nodes
	}
	if choice := s.Identity().Choice; choice != "" {
		a[v1.AnnotationChoice] = choice
	}
	return a
}
