package instance

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestTrialFails checks that settings are reverted only if the server keeps exiting with them.
func TestTrialFails(t *testing.T) {
	status := &v1.SettingsStatus{ID: "new", Phase: v1.SettingsOnTrial, ConfigHash: "hash"}
	exits := func(restarts, code int32) corev1.ContainerStatus {
		c := waits(crashLoop, "back-off", &corev1.ContainerStateTerminated{ExitCode: code})
		c.RestartCount = restarts
		return c
	}
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	cases := map[string]struct {
		reason string
		hash   string
		dying  bool
		status corev1.PodStatus
		fails  bool
	}{
		"Exits": {reason: "The server exited three times with the new settings, so they must be reverted.", hash: "hash",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exits(2, 1)}}, fails: true},
		"Killed": {reason: "The server may be killed because the new settings need too much memory.", hash: "hash",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exits(5, 137)}}, fails: true},
		"Init": {reason: "An init container that keeps exiting also shows that the settings do not work.", hash: "hash",
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{exits(2, 1)}}, fails: true},
		"Once": {reason: "A single restart may have another cause, so the settings must be kept.", hash: "hash",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exits(1, 1)}}},
		"Well": {reason: "Exit code 0 is a requested shutdown, not a failure.", hash: "hash",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exits(3, 0)}}},
		"Slow": {reason: "A long crash recovery is not a failure, because the server does not exit.", hash: "hash",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: "mysql", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}},
		"Earlier": {reason: "The pod uses the previous settings, so its exits must be ignored.", hash: "other",
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exits(9, 1)}}},
		"Dying": {reason: "A pod that is being deleted must be ignored, because another pod replaces it.", hash: "hash", dying: true,
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exits(9, 1)}}},
		"Recovers": {reason: "The server is ready, so the settings work despite earlier exits.", hash: "hash",
			status: corev1.PodStatus{Conditions: ready, ContainerStatuses: []corev1.ContainerStatus{exits(9, 1)}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationConfigHash: tc.hash}},
				Status: tc.status}
			if tc.dying {
				p.DeletionTimestamp = &metav1.Time{}
			}
			if got := failsTrial(status, p) != nil; got != tc.fails {
				t.Errorf("%s want the settings taken back: %t, got %t", tc.reason, tc.fails, got)
			}
		})
	}
}

// TestValidationIsReported checks that the verdict contains the error of mysqld. If mysqld reports none, the verdict
// shows how its container terminated.
func TestValidationIsReported(t *testing.T) {
	status := &v1.SettingsStatus{ID: "new", Phase: v1.SettingsValidating}
	failed := []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: "no more tries"}}
	ended := func(t corev1.ContainerStateTerminated) []corev1.Pod {
		spec := corev1.PodSpec{Containers: []corev1.Container{
			{Name: v1.ComponentSettings, Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}}}}
		return []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{v1.LabelComponent: v1.ComponentSettings}}, Spec: spec, Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: v1.ComponentSettings, State: corev1.ContainerState{Terminated: &t}}}}}}
	}
	cases := map[string]struct {
		conditions []batchv1.JobCondition
		pods       []corev1.Pod
		waits      string
		says       string
	}{
		"Running": {},
		"Waits":   {waits: "pod p cannot be scheduled", says: "cannot be scheduled"},
		"Mysqld": {conditions: failed,
			pods: ended(corev1.ContainerStateTerminated{ExitCode: 49,
				Message: `{"command":"validate-settings","exitCode":49,"error":"unknown variable 'x=1'"}`}), says: "unknown variable 'x=1'"},
		"Memory": {conditions: failed, pods: ended(corev1.ContainerStateTerminated{ExitCode: 137, Reason: reasonOOMKilled}),
			says: "its memory limit of 64Mi is too low. Raise spec.resources.limits.memory of the claim"},
		"Exits": {conditions: failed, pods: ended(corev1.ContainerStateTerminated{ExitCode: 2}),
			says: "exited with code 2"},
		"PodsGone": {conditions: failed},
		"Complete": {conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := judgeValidation(status,
				&Job{Job: &batchv1.Job{Status: batchv1.JobStatus{Conditions: tc.conditions}}, Pods: tc.pods}, tc.waits)
			if (got != nil) != (tc.says != "") || got != nil &&
				(got.TakenBack || got.ID != status.ID || !strings.Contains(got.Message, tc.says)) {
				t.Errorf("want %q, got %+v", tc.says, got)
			}
		})
	}
}
