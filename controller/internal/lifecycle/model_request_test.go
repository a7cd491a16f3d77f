package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
)

// modelRequest is what a claim asks for a backup with.
const modelRequest = "one"

// isAnswering is true while a backup is taken that was asked for.
func (i modelImage) isAnswering() bool {
	return i.answered == v1.LastBackupRunning || i.answered == v1.LastBackupFailing
}

// requestsOf a life, by its user.
func (m model) requestsOf(n int, add adder) {
	add("a backup is asked for", true, m.requests > 0 && m.lives[n].pod, func(w *model) {
		w.requests--
		i := &w.lives[n].image
		i.asked, i.online, i.planned, i.due = true, w.online, w.planned, w.planned
	})
}

// statusOfRequest in the XR, and what is remembered there.
func (l modelLife) statusOfRequest(status, remembered map[string]any) {
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

// modelBackupUID is that of the Backup that asks.
const modelBackupUID = "backup-uid"

// uidOfRequest is the Backup's; a planned backup has none.
func (i modelImage) uidOfRequest() string {
	if i.planned {
		return ""
	}
	return modelBackupUID
}

// backupObjects of the namespace. Nobody has told the Backup what became of it.
func (m model) backupObjects() []client.Object {
	var i modelImage
	for n := range m.lives { // The last one is the one that goes on.
		if m.lives[n].xr != none {
			i = m.lives[n].image
		}
	}
	if !i.asked || i.planned {
		return nil
	}
	return []client.Object{&v1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: key().Namespace, Name: modelRequest, UID: modelBackupUID},
		Spec: v1.BackupObjectSpec{Instance: v1.InstanceReference{Kind: v1.KindMySQL, Name: key().Name}, Method: i.method()}}}
}

// modelSchedule has a minute of each hour.
const modelSchedule = "0 * * * *"

func (i modelImage) fieldOfRequest() string {
	if i.planned {
		return backup.StatusFields[v1.OriginSchedule]
	}
	return backup.StatusFields[v1.OriginRequest]
}

// request of the backup: a text, or the minute that is due.
func (i modelImage) request() string {
	if i.planned {
		return v1.PlannedName(now.Add(-time.Minute))
	}
	return modelRequest
}

// showRequest in the spec.
func (i modelImage) showRequest(spec map[string]any) {
	backup, _ := spec["backup"].(map[string]any)
	if i.planned {
		backup["schedule"] = map[string]any{"cron": modelSchedule, "method": string(i.method())}
	}
}

// requestOfImage in the backup's record.
func (l modelLife) requestOfImage() string {
	if l.image.asked {
		return l.image.request()
	}
	return ""
}

func (l modelLife) jobNameOfImage(n int) string {
	if l.image.asked {
		return lifeOf(n).Jobs().Request()
	}
	return lifeOf(n).Jobs().ImageChange()
}

// writeRequestStatus is what becomes of status.internal.requestedBackup.
func (i *modelImage) writeRequestStatus(value any) {
	b, _ := value.(map[string]any)
	if p, ok := b["phase"].(v1.LastBackupPhase); ok {
		i.answered = p
	}
	if fence, ok := b["fence"]; ok {
		i.resumed = fence != true
	}
}

// originOfImage is why the backup is taken.
func (i modelImage) originOfImage() v1.BackupOrigin {
	switch {
	case i.planned:
		return v1.OriginSchedule
	case i.asked:
		return v1.OriginRequest
	}
	return v1.OriginImageChange
}
