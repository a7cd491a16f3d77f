package lifecycle

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// Values of modelImage.says: the server is not stopped for an image change, it is stopped, or the new image may start.
const (
	imageNone int8 = iota
	imageFenced
	imageAllowed
)

// A modelImage is the backup before an image change to another release series, and the change itself. It also models
// an on-demand or scheduled backup, after which the image does not change.
type modelImage struct { //nolint:recvcheck // Methods that apply an event change the value. All others get a copy.
	modelClone

	// wanted is true if the spec has the new image, and pending if the function has reported it. composed is true if
	// the Deployment has the new image, and running if the pod has it.
	wanted, pending, composed, running bool
	// changed is true after a server of the new image has started on the data. served is true after it accepted
	// clients.
	changed, served bool
	says            int8
	// asked is true if a user has requested a backup. answered is its phase in status.internal.requestedBackup.
	asked    bool
	answered v1.LastBackupPhase
	// resumed is true if the server runs again before its backup is recorded.
	resumed bool
	// planned is true if the backup is scheduled instead of on-demand. due is true when its time has come.
	planned, due bool
	// The state of the backup before the image change or of the requested backup. The fields are those of
	// modelInstance.
	record               int8
	recordDying          bool
	archived, archivedOn int8
	noted                bool
	job                  int8
	done, failed, moved  bool
	counted              bool
}

// stops reports whether the function keeps the server stopped.
func (i modelImage) stops() bool {
	return i.says == imageFenced || i.says == imageAllowed && !i.wanted || i.isAnswering() && !i.online && !i.resumed
}

// waits reports whether the function does not use the new image yet.
func (i modelImage) waits() bool { return i.wanted && !i.served && i.says != imageAllowed }

// images adds the events of image changes and backups: changes by a user, by the function, and by the Job of the
// backup.
func (m model) images(n int, add adder) { //nolint:gocyclo // One line for each possible event.
	l := m.instances[n]
	i := l.image
	change := func(change func(*modelImage)) func(*model) { return func(w *model) { change(&w.instances[n].image) } }
	if l.xr == alive1 && m.namespace == alive1 && l.cross {
		m.requestsOf(n, add)
		add("the image is changed", true, m.imageChanges > 0 && l.pod && !i.wanted, func(w *model) {
			w.imageChanges--
			w.instances[n].image.wanted = true
		})
		add("the image is changed back", true, m.imageReverts > 0 && i.wanted && !i.changed, func(w *model) {
			w.imageReverts--
			w.instances[n].image.wanted = false
		})
	}
	if l.xr != none && l.cross && m.namespace == alive1 && l.born == m.current {
		add("the function says which image is pending", false, i.pending != (i.wanted && !i.served),
			change(func(i *modelImage) { i.pending = i.wanted && !i.served }))
		add("the function changes the image", false, l.deployment != none && !i.waits() && i.composed != i.wanted,
			func(w *model) {
				w.instances[n].image.composed = i.wanted
				if i.stops() {
					w.instances[n].deployment = 1
				}
			})
		add("the function stops the server for a backup", false, l.deployment == 2 && i.stops(),
			func(w *model) { w.instances[n].deployment = 1 })
		add("the function sees that the image has taken clients", false, l.pod && i.running && !i.served,
			change(func(i *modelImage) { i.served = true }))
	}
	mounts := i.online || m.pvc == alive1 && int(m.pvcInstance) == n+1 && l.ref == refBound && l.refPlace == atHome
	runs := i.job == alive1 && !i.done && mounts && m.backup == alive1 && m.backupAt == atHome && m.namespace == alive1 &&
		!m.tries()
	add("the volume of the image's backup is made", false, runs && m.backupPending, (*model).makeBackupVolume)
	runs = runs && !m.backupPending
	m.clones(n, runs, add)
	add("the image's backup is done", false, runs && (!i.online || i.cloned > 0), func(w *model) {
		w.instances[n].image.done, w.instances[n].image.archived, w.instances[n].image.archivedOn = true, l.rows+1, m.backupOn
		if i.online {
			w.instances[n].image.archived = i.cloned
		} else if l.pod {
			w.broken = "a backup is taken while the server runs"
		}
	})
	add("the image's backup fails", true, runs && m.failures > 0, func(w *model) {
		w.failures--
		w.instances[n].image.done, w.instances[n].image.failed = true, true
	})
	add("the image's Job is gone", false, i.job == dying1 || i.job != none && m.namespace == none,
		change(func(i *modelImage) { i.job, i.done, i.failed, i.moved, i.cloned = none, false, false, false, 0 }))
	add("the image's Job of the namespace goes", false, i.job == alive1 && m.namespace == dying1,
		change(func(i *modelImage) { i.job = dying1 }))
}

// startImage starts a pod with the image in the Deployment.
func (m *model) startImage(l *modelInstance) {
	i := &l.image
	if i.running = i.composed; !i.running || i.changed {
		return
	}
	i.changed = true
	if !i.noted || i.record != recordVerified || i.archived != l.rows+1 {
		m.broken = "a server of another series starts on data of which there is no backup"
	}
}

// statusOfImage writes the image change to the status of the XR, and to the fields in status.internal.
func (l modelInstance) statusOfImage(status, remembered map[string]any) {
	i := l.image
	if !l.started {
		return
	}
	if remembered["servedImage"] = runningImage; i.served {
		remembered["servedImage"] = nextImage
	}
	if i.pending {
		remembered["pendingImage"] = nextImage
	}
	l.statusOfRequest(status, remembered)
	if i.says != imageNone {
		remembered["imageChange"] = map[string]any{"from": runningImage, "fence": i.says == imageFenced,
			"allowed": i.says == imageAllowed}
	}
}

func (l modelInstance) recordNameOfImage(n int) string { return l.instanceOf(n).NumberedRecordName(1) }

// imageObjects returns the BackupRecord, the Secret and the Job of the backup that the modelImage describes.
func (l modelInstance) imageObjects(n int) []client.Object {
	i, instanceID := l.image, l.instanceOf(n)
	var out []client.Object
	if i.record != recordNone {
		out = append(out, l.recordOfImage(n))
	}
	if i.access {
		out = append(out, l.accessSecret(n))
	}
	if i.job == none {
		return out
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: l.jobNameOfImage(n),
		UID: types.UID("image-" + uidOf(n)), Labels: instanceID.Labels(), DeletionTimestamp: deletedAt(i.job)}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "image-" + uidOf(n),
		OwnerReferences: []metav1.OwnerReference{{UID: j.UID, Controller: new(true)}}}}
	p.Spec.Volumes = []corev1.Volume{agent.PVCVolume("data", instanceID.DataPVCName())}
	j.Spec.Template.Spec.Volumes = []corev1.Volume{agent.PVCVolume(steps.VolumeData, instanceID.DataPVCName()),
		agent.PVCVolume(steps.VolumeBackup, "backups")}
	if i.online {
		i.showClone(j, p)
	}
	j.Annotations = map[string]string{v1.AnnotationPVCs: modelInstance{jobMoved: i.moved}.jobPVCs()}
	if i.done {
		endJob(j, p, i.failed)
	}
	return append(out, j, p)
}

func (l modelInstance) recordOfImage(n int) *v1.BackupRecord {
	instanceID := l.instanceOf(n)
	r := &v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{
		Name: l.recordNameOfImage(n), UID: types.UID("image-record-" + uidOf(n)), Labels: instanceID.Labels(),
		Finalizers: []string{v1.Finalizer}, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)),
	}}
	if l.image.recordDying {
		r.DeletionTimestamp = deletedAt(dying1)
	}
	r.Spec = v1.BackupRecordSpec{
		Instance: v1.BackedUpInstance{Kind: instanceID.Kind, Namespace: instanceID.Namespace, NamespaceUID: namespaceUID(l.born),
			Name: instanceID.Name, XR: instanceID.XR},
		Image: runningImage, Version: "8.4.6", Number: 1, Origin: l.image.originOfImage(),
		Request: l.requestOfImage(), Method: l.image.method(),
		Archive: &v1.Archive{PVCName: instanceID.BackupPVCName(), Path: r.Name + "/" + catalog.ArchiveName},
	}
	r.Status.Phase, r.Status.Message = recordPhases[l.image.record], modelFailure
	return r
}

// writeImageStatus updates the model after the controller has written status.internal.imageChange.
func (i *modelImage) writeImageStatus(value any) {
	c, ok := value.(map[string]any)
	switch {
	case !ok:
		i.says = imageNone
	case c["allowed"] == true:
		i.says = imageAllowed
	case c["fence"] == true:
		i.says = imageFenced
	}
}

func (m *model) writeImageRecord(n int, c change.Change) {
	i := &m.instances[n].image
	switch c.Verb { //nolint:exhaustive // The controller uses no other verb.
	case change.Create:
		if i.record == recordNone {
			i.record, i.recordDying = recordNew, false
		}
	case change.Delete:
		i.recordDying = true
	case change.Patch:
		if !instance.HasFinalizer(c.Object) && i.recordDying {
			i.record, i.recordDying = recordNone, false
		}
	case change.PatchStatus:
		if phase := as[*v1.BackupRecord](c.Object).Status.Phase; phase != "" {
			i.record = phaseNumber(phase)
		}
	}
}

func (m *model) writeImageJob(n int, c change.Change) {
	i := &m.instances[n].image
	if c.Verb == change.Delete {
		i.job = dying1
		return
	}
	if i.job == none {
		i.job, i.done, i.failed, i.moved, i.cloned = alive1, false, false, false, 0
	}
}

// losePVC is called when the backup PVC is deleted. If its volume is also deleted, the archive is lost.
func (i *modelImage) losePVC(lost bool, volume int8) {
	if i.moved = i.moved || i.job != none; lost && i.archivedOn == volume {
		i.archived, i.noted = 0, false
	}
}

// endJob adds the result of a completed or failed Job.
func endJob(j *batchv1.Job, p *corev1.Pod, failed bool) {
	kind, message := batchv1.JobComplete, `{"command":"backup","ok":true,"archive":"`+catalog.ArchiveName+`","sha256":"`+
		strings.Repeat("a", 64)+`"}`
	if failed {
		kind, message = batchv1.JobFailed, `{"command":"backup","ok":false,"error":"`+modelFailure+`"}`
	}
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}}}
}
