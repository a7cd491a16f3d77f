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

// CheckData of a server that runs, before it stops for a backup.
func CheckData(s *instance.State) []change.Change {
	if s.XR == nil || len(s.Pods) == 0 || s.Word().LeavesOutside() {
		return nil
	}
	return []change.Change{change.InServer(change.CheckData, s.XR.Unstructured, serverOf(s))}
}

// A backup for which the server goes on is of a clone of its data, which a throwaway server makes in the Job's pod, on a volume
// that goes with that. From there on it is archived and proved as every other. The account that clones is made with the Job, and
// taken away when its clone has ended; at the latest with the end of the backup, whatever has become of it.

// backUpRunning is the same of a server that goes on.
func backUpRunning(s *instance.State, announcement string) (step steps.Step, open bool) {
	return backUpInLife(s, announcement, awaitWithdrawal)
}

// awaitWithdrawal of the account that nobody needs any more.
func awaitWithdrawal(s *instance.State) (step steps.Step, open bool) {
	return steps.Step{Action: steps.WithdrawClone}, s.CloneAccess != nil && (s.Backup == nil || isCloned(s.Backup))
}

// isCloned is true of a Job that needs the server no more.
func isCloned(j *instance.Job) bool {
	at, _ := j.Finished()
	return j.Cloned || at != nil || j.DeletionTimestamp != nil
}

// OfferClone of the server to the Job that is about to be made.
func OfferClone(s *instance.State) change.Change {
	to := agent.AccessSecret(s.Life, s.Life.Namespace, s.Life.Accesses().Clone())
	return change.InServer(change.OfferClone, to, serverOf(s))
}

// Withdrawal of the account with which a Job clones the server.
func Withdrawal(s *instance.State) change.Change {
	return change.InServer(change.WithdrawClone, s.XR.Unstructured, serverOf(s))
}

// withdrawClone in the server first: a Secret whose account is gone opens nothing. A server that has not let us in for that, once
// the time for its backup is over, keeps the account, and no other backup from being taken.
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

// serverOf this life, and by whom it is known.
func serverOf(s *instance.State) change.Server {
	in := change.Server{Of: s.Life}
	if t := s.XR.Status.TLS; t != nil {
		in.Authorities = t.Authorities
	}
	return in
}

// spareForClone is what a server without data takes beside the clone, until that is there.
var spareForClone = resource.MustParse("512Mi")

// CloneJob archives what it has cloned.
func CloneJob(s *instance.State, b *agent.Backup, to corev1.Volume) *batchv1.Job {
	size, err := v1.ParseSize(s.Identity().Size)
	if err != nil {
		size = resource.Quantity{} // The function refuses it. The class, or the kubelet, does, too.
	}
	size.Add(spareForClone)
	scratch := agent.ScratchVolume(steps.VolumeData, storageClass(s), size, map[string]string{v1.LabelName: "mysql", v1.LabelComponent: v1.ComponentBackup})
	of := volumeJob(s, s.Attempt().Job, v1.ComponentBackup, b.Command(), scratch, to)
	of.Before = []corev1.Container{
		agent.ToolsContainer(s.Settings.AgentImage),
		agent.CloneContainer(ServedImage(s), corev1.VolumeMount{Name: steps.VolumeData, MountPath: steps.DataPath}),
	}
	of.Beside = []corev1.Volume{agent.ToolsVolume(), agent.DonorVolume(s.Life.Accesses().Clone())}
	j := of.Job()
	if c := s.BackupPVC; s.Store() == "" && c != nil && c.Status.Phase != corev1.ClaimBound {
		besideServer(s, &j.Spec.Template.Spec)
	}
	s.Rules.Fit(&j.Spec.Template.Spec)
	notePVCs(s, j)
	return j
}

// besideServer is on its node. A volume that is made for the first pod which mounts it is made where that pod is: the Job of a
// deletion mounts it together with the data.
func besideServer(s *instance.State, pod *corev1.PodSpec) {
	pods := s.Life.ServerSelector()
	pods[v1.LabelInstance] = s.Life.Key()
	v1.AffinityOf(pod).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: pods}, TopologyKey: corev1.LabelHostname,
	}}}
}

// ServedImage is that of the server which runs.
func ServedImage(s *instance.State) string { return cmp.Or(s.XR.Status.ServedImage, serverImage(s)) }
