package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// lostLives are those whose XR is gone and whose data is not. The controller
// takes the backup that was not taken.
func (x *checker) lostLives(p *subject) []Finding {
	var out []Finding
	var seen []types.UID
	for _, v := range p.data {
		if uid := xrOf(v); x.lost[uid] && !slices.Contains(seen, uid) {
			seen = append(seen, uid)
			out = append(out, x.explainRescue(p, "PersistentVolume "+v.Name, uid))
			if r := p.recordOf(uid); r == nil || !r.IsProven() {
				out = append(out, x.examineRetained(v, "the data")...)
			}
		}
	}
	for _, c := range p.handles {
		if uid := xrOf(c); x.lost[uid] && !slices.Contains(seen, uid) {
			seen = append(seen, uid)
			out = append(out, x.explainRescue(p, fmt.Sprintf("PersistentVolumeClaim %s/%s", c.Namespace, c.Name), uid))
		}
	}
	return out
}

// explainRescue of the data that a volume or PVC holds.
func (x *checker) explainRescue(p *subject, holder string, uid types.UID) Finding {
	r := p.recordOf(uid)
	if r == nil {
		return wrongFinding(x.askController("announces a backup of it"),
			"%s has data of a composite resource that is gone (%s), and no backup of it is announced", holder, uid)
	}
	if r.IsProven() {
		return noteFinding("", "%s lost its composite resource; its backup %s is proven, and it is being released", holder, r.Name)
	}
	f := x.unfinishedRecord(r)
	f.Text = fmt.Sprintf("%s lost its composite resource and is being rescued; %s", holder, f.Text)
	return f
}

func (p *subject) recordOf(uid types.UID) *v1.MySQLBackup {
	for _, r := range p.records {
		if r.Spec.Instance.XR == uid {
			return r
		}
	}
	return nil
}

// strayVolumes say that they are a living instance's, which has another one.
func (x *checker) strayVolumes(p *subject) []Finding {
	var out []Finding
	for _, v := range p.data {
		for _, xr := range p.xrs {
			if xr.GetUID() != xrOf(v) {
				continue
			}
			if used := x.stateOfLife(p, xr).DataPV; used != v {
				out = append(out, wrongFinding("see what is on it before you touch it: kubectl describe pv "+v.Name,
					"PersistentVolume %s says that it has the data of %s, which uses %s", v.Name, nameOf(xr), volumeName(used)))
			}
		}
	}
	return out
}

func volumeName(v *corev1.PersistentVolume) string {
	if v == nil {
		return "none"
	}
	return v.Name
}

// unfinishedRecord of a backup that is not proven: whether that is wrong depends on how
// long it has been so.
func (x *checker) unfinishedRecord(r *v1.MySQLBackup) Finding {
	phase := r.Status.Phase
	if phase == "" {
		phase = v1.BackupPending
	}
	text := fmt.Sprintf("backup %s is %s, %s after it was announced", r.Name, phase, x.ageOf(r.CreationTimestamp))
	if r.Status.Message != "" {
		text += ": " + r.Status.Message
	}
	f := Finding{Severity: Note, Text: text}
	switch {
	case phase == v1.BackupFailed:
		f.Severity, f.Advice = Wrong, "it is tried again by itself, and succeeds when the cause is gone"
	case x.isOlder(r.CreationTimestamp, long):
		f.Severity, f.Advice = Wrong, "see what it waits for: kubectl get pods --all-namespaces --selector "+v1.LabelXR+"="+string(r.Spec.Instance.XR)
	}
	return f
}

// examineLeftovers is what belongs to no instance.
func (x *checker) examineLeftovers() []Finding {
	out := x.xrsWithoutClaim()
	for i := range x.Volumes {
		if v := &x.Volumes[i]; instance.HasFinalizer(v) && !x.isKnown(v) {
			out = append(out, wrongFinding("see what it is: kubectl get pv "+v.Name+" --output yaml",
				"PersistentVolume %s has our finalizer and does not say whose it is: nobody looks after it", v.Name))
		}
	}
	for i := range x.PVCs {
		if c := &x.PVCs[i]; instance.HasFinalizer(c) && !x.knownHandle(c) {
			out = append(out, wrongFinding(fmt.Sprintf("see what it is: kubectl get pvc --namespace %s %s --output yaml", c.Namespace, c.Name),
				"PersistentVolumeClaim %s/%s has our finalizer and does not say whose it is: nobody looks after it", c.Namespace, c.Name))
		}
	}
	return append(append(out, x.examinePasswords()...), x.examineJobs()...)
}

// xrsWithoutClaim: an XR that was made without a claim is looked after by nobody.
func (x *checker) xrsWithoutClaim() []Finding {
	var out []Finding
	for _, xr := range x.XRs {
		if xr.Spec.ClaimRef == nil {
			out = append(out, wrongFinding(fmt.Sprintf("create a claim in a namespace instead; see this one: kubectl describe %s %s", resourceOf(xr), xr.GetName()),
				"%s was made without a claim: the controller does not look after it, and no backup is taken of it", nameOf(xr)))
		}
	}
	return out
}

// isKnown is true for volumes that are some instance's, by what they say or by who uses them.
func (x *checker) isKnown(v *corev1.PersistentVolume) bool {
	_, ok := keyOf(v)
	return ok && (isBackup(v) || xrOf(v) != "") || x.isUsed(v.Name)
}

func (x *checker) knownHandle(c *corev1.PersistentVolumeClaim) bool {
	_, ok := keyOf(c)
	return ok && (isBackup(c) || xrOf(c) != "")
}

// isUsed is true for volumes that have the data of an instance that is there.
func (x *checker) isUsed(volume string) bool {
	for _, p := range x.subjects {
		for _, xr := range p.xrs {
			if v := x.stateOfLife(p, xr).DataPV; v != nil && v.Name == volume {
				return true
			}
		}
	}
	return false
}

// isAlive is true if there is something left of a life that its Jobs and its
// password are for.
func (x *checker) isAlive(uid types.UID) bool { return x.living[uid] || x.lost[uid] }

// examinePasswords whose backup is gone. That of a life is kept from its first start.
func (x *checker) examinePasswords() []Finding {
	var out []Finding
	for i := range x.Passwords {
		s := &x.Passwords[i]
		recorded := slices.ContainsFunc(x.Records, func(r v1.MySQLBackup) bool { return r.Name == s.Name })
		switch {
		case recorded || x.isAlive(xrOf(s)):
		case x.mayOpen(s):
			out = append(out, noteFinding("keep it as long as its archive may be there",
				"Secret %s/%s has the password of a backup whose record is gone, and a volume for backups of that instance is there", s.Namespace, s.Name))
		default:
			// A volume that has lost its labels may hold the archive all the same.
			out = append(out, noteFinding("keep it as long as its archive may be somewhere: it is small, and nothing else opens that archive",
				"Secret %s/%s has the password of a backup whose record is gone", s.Namespace, s.Name))
		}
	}
	return out
}

// mayOpen is true if a password is of an instance that has a volume for backups, or
// of nobody knows whom.
func (x *checker) mayOpen(s *metav1.PartialObjectMetadata) bool {
	k, ok := keyOf(s)
	return !ok || x.subjects[k] != nil && len(x.subjects[k].backups) > 0
}

// examineJobs of lives that have ended.
func (x *checker) examineJobs() []Finding {
	var out []Finding
	for i := range x.Jobs {
		j := &x.Jobs[i]
		if uid := xrOf(j); uid != "" && !x.isAlive(uid) && !x.isEraseJob(j) {
			out = append(out, noteFinding(fmt.Sprintf("kubectl delete job --namespace %s %s", j.Namespace, j.Name),
				"Job %s/%s was made for a composite resource that is gone (%s)", j.Namespace, j.Name, uid))
		}
	}
	return out
}

// isEraseJob is true if a Job removes an archive whose record waits for that.
func (x *checker) isEraseJob(j *metav1.PartialObjectMetadata) bool {
	return j.Labels[v1.LabelComponent] == v1.ComponentErase && slices.ContainsFunc(x.Records, func(r v1.MySQLBackup) bool {
		return r.DeletionTimestamp != nil && r.Spec.Instance.XR == xrOf(j)
	})
}
