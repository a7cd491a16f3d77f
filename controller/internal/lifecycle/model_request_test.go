package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
)

// modelRequest is the name of the Backup object that requests a backup.
const modelRequest = "one"

// isAnswering reports whether an on-demand or scheduled backup is in progress.
func (i modelImage) isAnswering() bool {
	return i.answered == v1.LastBackupRunning || i.answered == v1.LastBackupFailing
}

// requestsOf adds the event that a user requests a backup of an instance.
func (m model) requestsOf(n int, add adder) {
	add("a backup is asked for", true, m.requests > 0 && m.instances[n].pod, func(w *model) {
		w.requests--
		i := &w.instances[n].image
		i.asked, i.online, i.planned, i.due = true, w.online, w.planned, w.planned
	})
}

// statusOfRequest writes the requested backup to the status of the XR, and to the fields in status.internal.
func (l modelInstance) statusOfRequest(status, remembered map[string]any) {
	i := l.image
	if i.asked && l.pod {
		status["conditions"] = []any{map[string]any{"type": v1.ConditionServing, "status": "True"}}
	}
	if i.answered != "" {
		remembered[i.fieldOfRequest()] = map[string]any{
			"request": i.request(), "uid": i.uidOfRequest(), "phase": string(i.answered),
			"fence":  i.isAnswering() && !i.online && !i.resumed,
			"method": string(i.method()), "begunAt": metav1.NewTime(now.Add(-time.Minute)).UTC().Format(time.RFC3339),
		}
	}
	if i.planned {
		next := now.Add(time.Minute)
		if i.due {
			next = now.Add(-time.Minute)
		}
		remembered["backupSchedule"] = map[string]any{"schedule": modelSchedule, "nextAt": next.UTC().Format(time.RFC3339)}
	}
}

// modelBackupUID is the UID of the Backup object.
const modelBackupUID = "backup-uid"

// uidOfRequest returns the UID of the Backup object. A scheduled backup has none.
func (i modelImage) uidOfRequest() string {
	if i.planned {
		return ""
	}
	return modelBackupUID
}

// backupObjects returns the Backup object of the namespace. Its status does not contain the result of the backup.
func (m model) backupObjects() []client.Object {
	var i modelImage
	for n := range m.instances { // The last existing instance is the current one.
		if m.instances[n].xr != none {
			i = m.instances[n].image
		}
	}
	if !i.asked || i.planned {
		return nil
	}
	return []client.Object{&v1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: m.key().Namespace, Name: modelRequest, UID: modelBackupUID},
		Spec: v1.BackupObjectSpec{Instance: v1.InstanceReference{Kind: m.key().Kind, Name: m.key().Name}, Method: i.method()}}}
}

// modelSchedule is a schedule with hourly backups.
const modelSchedule = "0 * * * *"

func (i modelImage) fieldOfRequest() string {
	if i.planned {
		return backup.StatusFields[v1.OriginSchedule]
	}
	return backup.StatusFields[v1.OriginRequest]
}

// request returns the name of the Backup object, or the time of the scheduled backup.
func (i modelImage) request() string {
	if i.planned {
		return v1.PlannedName(now.Add(-time.Minute))
	}
	return modelRequest
}

// showRequest writes the backup schedule of the model to the spec of the XR.
func (i modelImage) showRequest(spec map[string]any) {
	backup, _ := spec["backup"].(map[string]any)
	if i.planned {
		backup["schedule"] = map[string]any{"cron": modelSchedule, "method": string(i.method())}
	}
}

// requestOfImage returns the field spec.request of the BackupRecord. It is empty for a backup before an image change.
func (l modelInstance) requestOfImage() string {
	if l.image.asked {
		return l.image.request()
	}
	return ""
}

func (l modelInstance) jobNameOfImage(n int) string {
	if l.image.asked {
		return l.instanceOf(n).Jobs().Request()
	}
	return l.instanceOf(n).Jobs().ImageChange()
}

// writeRequestStatus updates the model after the controller has written status.internal.requestedBackup or
// scheduledBackup.
func (i *modelImage) writeRequestStatus(value any) {
	b, _ := value.(map[string]any)
	if p, ok := b["phase"].(v1.LastBackupPhase); ok {
		i.answered = p
	}
	if fence, ok := b["fence"]; ok {
		i.resumed = fence != true
	}
}

// originOfImage returns why the backup is taken: by a schedule, on demand, or before an image change.
func (i modelImage) originOfImage() v1.BackupOrigin {
	switch {
	case i.planned:
		return v1.OriginSchedule
	case i.asked:
		return v1.OriginRequest
	}
	return v1.OriginImageChange
}
