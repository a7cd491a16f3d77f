package instance

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waits(reason, message string, last *corev1.ContainerStateTerminated) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "mysql", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		LastTerminationState: corev1.ContainerState{Terminated: last},
	}
}

func TestTroubleOf(t *testing.T) {
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}}
	pull := waits("ErrImagePull", "not found", nil)
	cases := map[string]struct {
		reason string
		status corev1.PodStatus
		dying  bool
		says   string
	}{
		"Fine":        {reason: "A container that runs has none.", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}},
		"Creating":    {reason: "What goes by itself is none.", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("ContainerCreating", "", nil)}}},
		"Unscheduled": {reason: "The scheduler says why.", status: unscheduled, says: "finds no node: 0/2 nodes are available"},
		"Image":       {reason: "The kubelet says why.", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{pull}}, says: "ErrImagePull: not found"},
		"Init":        {reason: "Also before the container of a restore.", status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{pull}, ContainerStatuses: []corev1.ContainerStatus{waits("PodInitializing", "", nil)}}, says: "ErrImagePull"},
		"Crash":       {reason: "Its log says more than the kubelet.", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("CrashLoopBackOff", "back-off 10s", &corev1.ContainerStateTerminated{ExitCode: 7})}}, says: "(exit code 7); its log says why: kubectl logs -n default p --previous"},
		"Agent": {reason: "Our own program says it best.", says: "container mysql of pod p: the volume holds no data", status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
			waits("CrashLoopBackOff", "back-off 10s", &corev1.ContainerStateTerminated{ExitCode: 47, Message: `{"command":"initialize","error":"the volume holds no data"}`}),
		}}},
		"Dying": {reason: "A pod that goes is no trouble.", status: unscheduled, dying: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: meta("p", nil), Status: tc.status}
			if tc.dying {
				p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			if got := troubleOf(p); !strings.Contains(got, tc.says) || (got == "") != (tc.says == "") {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got)
			}
		})
	}
}
