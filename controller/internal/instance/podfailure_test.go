package instance

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

func waits(reason, message string, last *corev1.ContainerStateTerminated) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "mysql", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		LastTerminationState: corev1.ContainerState{Terminated: last},
	}
}

// noData returns the termination of an init container that found no data.
func noData() *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: agent.ExitNoData,
		Message: `{"command":"initialize","exitCode":47,"error":"the volume holds no data"}`}
}

func TestPodFailureOf(t *testing.T) {
	unscheduled := corev1.PodStatus{
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}}
	pull := waits("ErrImagePull", "not found", nil)
	cases := map[string]struct {
		reason string
		status corev1.PodStatus
		dying  bool
		says   string
	}{
		"Fine": {reason: "A running container has no failure.",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}},
		"Creating": {reason: "ContainerCreating usually ends without a change by a user, so it is not a failure.",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("ContainerCreating", "", nil)}}},
		"Unscheduled": {reason: "The failure must contain the scheduler's message.", status: unscheduled,
			says: "cannot be scheduled: 0/2 nodes are available"},
		"Image": {reason: "The failure must contain the kubelet's message.",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{pull}}, says: "ErrImagePull: not found"},
		"Init": {reason: "The failure of an init container must be reported as well.",
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{pull},
				ContainerStatuses: []corev1.ContainerStatus{waits("PodInitializing", "", nil)}}, says: "ErrImagePull"},
		"InitKilled": {reason: "The kernel killed the init container before it could write a report.",
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
				waits("CrashLoopBackOff", "back-off 10s", &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}),
			}}, says: "container mysql of pod p was OOMKilled (exit code 137)"},
		"Agent": {reason: "The error from the program's report must be used instead of the kubelet's message.",
			says: "container mysql of pod p: the volume holds no data",
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
				waits("CrashLoopBackOff", "back-off 10s",
					&corev1.ContainerStateTerminated{ExitCode: 47,
						Message: `{"command":"initialize","error":"the volume holds no data"}`}),
			}}},
		"AgentEnded": {reason: "Between two attempts, the report is in the current state of the init container.",
			says: "container initialize of pod p: the volume holds no data",
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "initialize", State: corev1.ContainerState{Terminated: noData()},
			}}}},
		"AgentAgain": {reason: "The error of the last attempt must be reported while the next attempt runs.",
			says: "container initialize of pod p: the volume holds no data",
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "initialize", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				LastTerminationState: corev1.ContainerState{Terminated: noData()},
			}}}},
		"AgentDone": {reason: "The init container has succeeded, so its earlier error must not be reported.",
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "initialize", State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{
						Message: `{"command":"initialize","ok":true}`}}, LastTerminationState: corev1.ContainerState{
					Terminated: noData()},
			}}}},
		"Restore": {reason: "The pod of a failed restore must be reported with its error while the restore is retried.",
			says: "container restore of pod p: a server still runs",
			status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "restore", State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: 75,
						Message: `{"command":"restore","exitCode":75,"error":"a server still runs"}`}},
			}}}},
		"Dying": {reason: "A pod that is being deleted has no failure.", status: unscheduled, dying: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metaOf("p", nil), Status: tc.status}
			if tc.dying {
				p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			if got := podFailureOf(p); !strings.Contains(got, tc.says) || (got == "") != (tc.says == "") {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got)
			}
		})
	}
}

// TestWaitsBecause checks that the message about a waiting container is the same at each read, so that the status is
// not updated unnecessarily.
func TestWaitsBecause(t *testing.T) {
	cases := map[string]struct{ reason, says, message, want string }{
		"Try": {reason: "The kubelet has just tried to pull the image.", says: "ErrImagePull", message: "not found",
			want: "ErrImagePull: not found"},
		"Between": {reason: "The error of the last attempt must be used while the kubelet waits for the next attempt.",
			says:    "ImagePullBackOff",
			message: `Back-off pulling image "a/b:c": ErrImagePull: not found`, want: "ErrImagePull: not found"},
		"Older": {reason: "The message of an older kubelet does not contain the error of the last attempt.", says: "ImagePullBackOff",
			message: `Back-off pulling image "a/b:c"`, want: `ImagePullBackOff: Back-off pulling image "a/b:c"`},
		"Port": {reason: "The local port differs in each attempt, so the message must not contain it.", says: "ErrImagePull",
			message: "lookup r.example on 10.96.0.10:53: read udp 10.0.0.2:40117->10.96.0.10:53: i/o timeout",
			want:    "ErrImagePull: lookup r.example on 10.96.0.10:53: read udp 10.96.0.10:53: i/o timeout"},
		"Terminals": {reason: "A registry may send control characters, which must be removed.",
			says: "ErrImagePull", message: "no\x1b[2J\nimage",
			want: "ErrImagePull: no [2J image"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := waitsBecause(&corev1.ContainerStateWaiting{Reason: tc.says, Message: tc.message}); got != tc.want {
				t.Errorf("%s want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// TestNewJob checks that the messages of a Job's conditions are made printable.
func TestNewJob(t *testing.T) {
	j := NewJob(&batchv1.Job{Status: batchv1.JobStatus{
		Conditions: []batchv1.JobCondition{{Message: "denied:\n\x1b[2Jno"}}}})
	if got := j.Status.Conditions[0].Message; got != "denied: [2Jno" {
		t.Errorf("want one line that prints, got %q", got)
	}
}
