package lifecycle

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
)

// A modelClone is the state of an online backup.
type modelClone struct {
	online bool
	// cloner is true if the clone account exists in the MySQL server. access is true if the Secret with the account
	// exists.
	cloner, access bool
	// cloned is the number of rows in the clone of the Job plus 1, or 0 before the clone is complete.
	cloned int8
}

func (c modelClone) method() v1.BackupMethod {
	if c.online {
		return v1.MethodOnline
	}
	return v1.MethodCold
}

// clones adds the events of a clone of the server by a running Job.
func (m model) clones(n int, runs bool, add adder) {
	l := m.instances[n]
	i := l.image
	runs = runs && i.online && i.cloned == 0
	add("the server is cloned", false, runs && l.pod && i.cloner, func(w *model) {
		if w.instances[n].image.cloned = l.rows + 1; !i.access {
			w.broken = "a Job has an account, and no Secret says so"
		}
	})
	add("the clone is refused", false, runs && l.pod && !i.cloner,
		func(w *model) { w.instances[n].image.done, w.instances[n].image.failed = true, true })
	add("the clone finds no server", false, runs && !l.pod, func(w *model) {
		w.instances[n].image.done, w.instances[n].image.failed = true, true
	})
}

// accessSecret returns the Secret with which the Job of an instance logs in to the server.
func (l modelInstance) accessSecret(n int) client.Object {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: l.instanceOf(n).Accesses().Clone(),
		UID: "access", Labels: l.instanceOf(n).Labels()}}
}

// showClone turns a backup Job into the Job of an online backup, which does not mount the data volume.
func (c modelClone) showClone(j *batchv1.Job, p *corev1.Pod) {
	p.Spec.Volumes = nil
	j.Spec.Template.Spec.Volumes = j.Spec.Template.Spec.Volumes[1:]
	j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: agent.CloneContainerName}}
	if c.cloned > 0 {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{
			{Name: agent.CloneContainerName,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Message: `{"command":"clone","ok":true}`}}}}
	}
}

// writeServer applies a change that the controller makes in the running server of an instance.
func (m *model) writeServer(n int, verb change.Verb) {
	i := &m.instances[n].image
	if verb == change.CheckData {
		return // The model contains no data outside of the data directory.
	}
	if i.cloner = verb == change.OfferClone; i.cloner {
		i.access = true
	}
}
