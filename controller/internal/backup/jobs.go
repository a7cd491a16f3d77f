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

// NewJob archives the data of a stopped server.
func NewJob(s *instance.State) *batchv1.Job {
	r := s.Record()
	if r == nil {
		r = NewRecord(s)
	}
	b := agent.Backup{
		Volume: steps.DataPath,
		Record: s.Attempt().Record, Image: serverImage(s),
		Instance: s.Life, NamespaceUID: s.NamespaceUID(), Version: serverVersion(s),
		Announced: r.CreationTimestamp.Time, Number: r.Spec.Number, StorageSize: r.Spec.StorageSize,
		WithoutOutside: s.Word().LeavesOutside(),
		NeverServed:    s.Orphan == nil && !knownData(s) && s.Life.Kind == v1.KindMySQL, // Only there the first start's end leaves a trace.
	}
	to := ArchivePodVolume(s)
	if s.Store() != "" {
		b.Object, to = StoreFolder(s), agent.AccessVolume(s.Attempt().Access)
	} else {
		b.Archive = path.Join(steps.BackupPath, s.Attempt().Record, catalog.ArchiveName)
	}
	if a := s.Attempt(); a.IsOnline() {
		return CloneJob(s, &b, to)
	}
	return AgentJob(s, s.Attempt().Job, v1.ComponentBackup, b.Command(), DataPodVolume(s), to)
}

// WipeJob empties the folder of a hostPath volume.
func WipeJob(s *instance.State) *batchv1.Job {
	return AgentJob(s, s.JobLocation().WipeJob, v1.ComponentWipe, agent.WipeData(s.Life.XR, steps.DataPath), DataPodVolume(s))
}

// PruneJob removes the folders of records.
func PruneJob(s *instance.State, records []client.Object) *batchv1.Job {
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.GetName())
	}
	j := AgentJob(s, s.JobLocation().PruneJob, v1.ComponentPrune, agent.Prune(steps.BackupPath, names...), ArchivePodVolume(s))
	list, _ := json.Marshal(names) //nolint:errchkjson // Strings only.
	j.Annotations[v1.AnnotationPruned] = string(list)
	return j
}

// AgentJob runs the agent beside the volumes, each mounted under its name.
func AgentJob(s *instance.State, name, component string, command []string, volumes ...corev1.Volume) *batchv1.Job {
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

// DataPodVolume mounts the data where Jobs of this life run.
func DataPodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(steps.VolumeData, s.JobLocation().Data)
}

// ArchivePodVolume mounts the backup volume there.
func ArchivePodVolume(s *instance.State) corev1.Volume {
	return agent.PVCVolume(steps.VolumeBackup, s.JobLocation().Backup)
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

// IdentityAnnotations are the annotations of a data volume that say what must be known of it when
// claim and XR are gone.
func IdentityAnnotations(s *instance.State) map[string]string {
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
