package backup

import (
	"cmp"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// CheckData checks a running server for data outside of its data directory before the server stops for a backup.
func CheckData(s *instance.State) []change.Change {
	if s.XR == nil || len(s.Pods) == 0 || s.DeletionIntent().LeavesOutside() {
		return nil
	}
	return []change.Change{change.InServer(change.CheckData, s.XR.Unstructured, serverOf(s))}
}

// An online backup archives a clone of the data. A temporary server in the Job's pod clones the running server to a
// volume that is deleted with the pod. The clone is then archived and verified like every other backup. The account
// for the clone is created with the Job. It is removed when the clone is complete, or at the latest when the backup
// is finished.

// backUpRunning returns the next step of an online backup.
func backUpRunning(s *instance.State, announcement string) (step steps.Step, open bool) {
	return backUpInstance(s, announcement, awaitWithdrawal)
}

// awaitWithdrawal waits until the clone account is removed, once the backup no longer needs the account.
func awaitWithdrawal(s *instance.State) (step steps.Step, open bool) {
	return steps.Step{Action: steps.WithdrawClone}, s.CloneAccess != nil && (s.BackupJob == nil || isCloned(s.BackupJob))
}

// isCloned reports whether a Job no longer needs the running server.
func isCloned(j *instance.Job) bool {
	finished, _ := j.Finished()
	return j.Cloned || finished != nil || j.DeletionTimestamp != nil
}

// OfferClone returns the change that creates the account with which the next Job clones the server.
func OfferClone(s *instance.State) change.Change {
	secret := agent.AccessSecret(s.Instance, s.Instance.Namespace, s.Instance.Accesses().Clone())
	return change.InServer(change.OfferClone, secret, serverOf(s))
}

// Withdrawal returns the change that removes the account with which a Job clones the server.
func Withdrawal(s *instance.State) change.Change {
	return change.InServer(change.WithdrawClone, s.XR.Unstructured, serverOf(s))
}

// withdrawClone removes the account from the server before it deletes the Secret, because the Secret is useless
// without the account. If the server still refuses connections after PatienceOnline, the account remains in the
// server. It does not prevent other backups.
func withdrawClone(s *instance.State, step steps.Step) []change.Change {
	in := Withdrawal(s)
	if isOverdue(s) && steps.RefusalOf(s, step.Action) != nil {
		in = in.OrNot()
	}
	out := []change.Change{in}
	if s.CloneAccess != nil {
		out = append(out, change.DeleteObject(s.CloneAccess, ""))
	}
	return out
}

// serverOf returns how to reach the running server of this instance, with the CA certificates that verify it.
func serverOf(s *instance.State) change.Server {
	in := change.Server{Of: s.Instance}
	if s.XR.Status.TLS != nil {
		in.Authorities = s.XR.Status.Authorities
	}
	return in
}

// spareForClone is the additional space that an empty server needs while it receives the clone.
var spareForClone = resource.MustParse("512Mi")

// CloneJob returns the Job that clones the server and archives the clone.
func CloneJob(s *instance.State, b *agent.Backup, access corev1.Volume) *batchv1.Job {
	size, err := v1.ParseSize(s.Identity().Size)
	if err != nil {
		size = resource.Quantity{} // The function refuses such a size, and so does the StorageClass or the kubelet.
	}
	size.Add(spareForClone)
	scratch := agent.ScratchVolume(steps.VolumeData, storageClass(s), size,
		map[string]string{v1.LabelName: "mysql", v1.LabelComponent: v1.ComponentBackup})
	job := volumeJob(s, s.Attempt().Job, v1.ComponentBackup, b.Command(), scratch, access)
	job.Before = []corev1.Container{
		agent.ToolsContainer(s.Settings.AgentImage),
		agent.CloneContainer(ServedImage(s), corev1.VolumeMount{Name: steps.VolumeData, MountPath: steps.DataPath}),
	}
	job.MountedAlongside = []corev1.Volume{agent.ToolsVolume(), agent.DonorVolume(s.Instance.Accesses().Clone())}
	j := job.Job()
	if c := s.BackupPVC; s.Store() == "" && c != nil && c.Status.Phase != corev1.ClaimBound {
		mountServerVolumes(s, &j.Spec.Template.Spec)
	}
	s.Rules.Fit(&j.Spec.Template.Spec)
	recordPVCs(s, j)
	return j
}

// mountServerVolumes schedules the pod to the server's node. The backup volume is then provisioned near that node,
// because the Job of a deletion mounts it together with the data volume.
func mountServerVolumes(s *instance.State, pod *corev1.PodSpec) {
	pods := s.Instance.ServerSelector()
	pods[v1.LabelInstance] = s.Instance.Key()
	v1.AffinityOf(pod).PodAffinity = &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: pods}, TopologyKey: corev1.LabelHostname,
		}}}
}

// ServedImage returns the image of the running server.
func ServedImage(s *instance.State) string { return cmp.Or(s.XR.Status.ServedImage, serverImage(s)) }
