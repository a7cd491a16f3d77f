package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// modelRequest is what a claim asks for a backup with.
const modelRequest = "one"

// isAnswering is true while a backup is taken that was asked for.
func (i modelImage) isAnswering() bool {
	return i.answered == v1.RequestedRunning || i.answered == v1.RequestedFailing
}

// requestsOf a life, by its user.
func (m model) requestsOf(n int, add adder) {
	add("a backup is asked for", true, m.requests > 0 && m.lives[n].pod, func(w *model) {
		w.requests--
		w.lives[n].image.asked, w.lives[n].image.online = true, w.online
	})
}

// statusOfRequest in the XR.
func (l modelLife) statusOfRequest(status map[string]any) {
	i := l.image
	if i.asked && l.pod {
		status["conditions"] = []any{map[string]any{"type": v1.ConditionServing, "status": "True"}}
	}
	if i.answered != "" {
		status["requestedBackup"] = map[string]any{
			"request": modelRequest, "phase": string(i.answered), "fence": i.isAnswering() && !i.online, "method": string(i.method()), "begunAt": metav1.NewTime(now.Add(-time.Minute)).UTC().Format(time.RFC3339),
		}
	}
}

// requestOfImage in the backup's record.
func (l modelLife) requestOfImage() string {
	if l.image.asked {
		return modelRequest
	}
	return ""
}

func (l modelLife) jobNameOfImage(n int) string {
	if l.image.asked {
		return lifeOf(n).Jobs().Request()
	}
	return lifeOf(n).Jobs().ImageChange()
}

// writeRequestStatus is what becomes of status.requestedBackup.
func (i *modelImage) writeRequestStatus(value any) {
	b, _ := value.(map[string]any)
	if p, said := b["phase"].(v1.RequestedPhase); said {
		i.answered = p
	}
}
