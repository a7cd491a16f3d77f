package instance

import (
	"context"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An ended is the log of a terminated container. It records whether the log of the previous run was requested.
type ended struct {
	logs

	previous *bool
}

func (l ended) OfEnded(_ context.Context, _, _, _ string, previous bool) (io.ReadCloser, error) {
	*l.previous = previous
	return io.NopCloser(strings.NewReader(string(l.logs))), nil
}

func terminated(code int32, reason string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}
}

// TestCrashSaysWhatTheServerPrinted checks that the message contains the server's own error, or the setting that a
// user must raise for an OOMKilled container. It must not contain a secret.
func TestCrashSaysWhatTheServerPrinted(t *testing.T) {
	const option = "2026-11-29T08:00:00.1Z 0 [ERROR] [MY-000067] [Server] unknown variable " +
		"'innodb_foo=1'.\n2026-11-29T08:00:00.2Z 0 [ERROR] [MY-010119] [Server] Aborting\n"
	see := "kubectl logs -n default p --container mysql"
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	cases := map[string]struct {
		reason   string
		status   corev1.ContainerStatus
		log      string
		says     string
		previous bool
		change   func(*corev1.Pod)
	}{
		"Loop": {reason: "The container waits for its next restart, so the log of its previous run must be read.",
			status: waits(crashLoop, "back-off", terminated(1, "Error")), log: option, previous: true,
			says: "container mysql of pod p has exited (exit code 1) and is restarted: [MY-000067] [Server] unknown variable " +
				"'innodb_foo=1'.. The whole log: " + see + " --previous"},
		"Running": {reason: "The container runs again but is not ready, so the log of its previous run must be read.",
			status: corev1.ContainerStatus{Name: "mysql", State: running,
				LastTerminationState: corev1.ContainerState{
					Terminated: terminated(1, "Error")}}, log: option, previous: true, says: "unknown variable 'innodb_foo=1'"},
		"Ended": {reason: "The container has just terminated, so the log of the current run must be read.",
			status: corev1.ContainerStatus{Name: "mysql", State: corev1.ContainerState{Terminated: terminated(1, "Error")}},
			log:    option, says: "unknown variable 'innodb_foo=1'.. The whole log: " + see},
		"Signal": {reason: "The message must contain the signal, but not the stack trace that follows it.",
			status: waits(crashLoop, "", terminated(139, "Error")),
			log: "2026-11-29T08:00:00Z UTC - mysqld got signal 11 ;\nMost likely, you have hit a bug\nstack_bottom = 0 " +
				"thread_stack 0x100000\n", previous: true,
			says: "(exit code 139) and is restarted: mysqld got signal 11 ;. The whole log"},
		"Words": {reason: "If the log contains no line with [ERROR], the message must contain its last lines.",
			status: waits(crashLoop, "", terminated(2, "Error")), log: "2026-11-29 08:00:00 starting\ncannot open /data\n",
			previous: true, says: "is restarted: starting; cannot open /data. The whole log"},
		"NoLog": {reason: "The container printed nothing, so the message must contain the command that shows its log.",
			status: waits(crashLoop, "", terminated(1, "Error")), previous: true,
			says: "has exited (exit code 1) and is restarted. See its log: " + see + " --previous"},
		"NoProgram": {reason: "The program cannot be started, so the message must contain the error of the container runtime.",
			status: waits(crashLoop, "", &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError",
				Message: `exec: "docker-entrypoint.sh": executable file not found`}), previous: true, says: `is restarted: exec: "docker-entrypoint.sh": executable file not found. The whole log`},
		"OOM": {reason: "The memory limit comes from the claim, so the message must name the field of the claim.",
			status: waits(crashLoop, "", terminated(137, "OOMKilled")),
			says: "container mysql of pod p was OOMKilled (exit code 137): its memory limit of 256Mi is too low. Raise " +
				"spec.resources.limits.memory of the claim", change: limited(v1.ComponentServer)},
		"OOMAgain": {reason: "The message must stay the same while the OOMKilled container runs again.",
			status: corev1.ContainerStatus{Name: "mysql", State: running,
				LastTerminationState: corev1.ContainerState{
					Terminated: terminated(137,
						"OOMKilled")}}, says: "Raise spec.resources.limits.memory of the claim", change: limited(v1.ComponentDatabase)},
		"OOMNode": {reason: "The container has no memory limit, so the message must recommend a memory request.",
			status: waits(crashLoop, "", terminated(137, "OOMKilled")),
			says:   "it has no memory limit, so the memory of its node ran out. To fix it, set spec.resources.requests.memory",
			change: func(p *corev1.Pod) { p.Labels = map[string]string{v1.LabelComponent: v1.ComponentServer} }},
		"Secret": {reason: "A container may print its password, which the message must not contain.",
			status: waits(crashLoop, "", terminated(1, "Error")),
			log: "[ERROR] [Entrypoint]: GENERATED ROOT PASSWORD: hunter2\n[ERROR] ERROR 1064: syntax to use near ''hunter2'' " +
				"at line 1\n", previous: true, says: "GENERATED ROOT PASSWORD: …; ERROR 1064: syntax to use near … at line 1"},
		"Ready": {reason: "The container is ready again, so there is no crash to report.",
			status: corev1.ContainerStatus{Name: "mysql", Ready: true, State: running,
				LastTerminationState: corev1.ContainerState{Terminated: terminated(1, "Error")}}, log: option},
		"Stopped": {reason: "The container exited with code 0 because it was stopped, which is not a crash.",
			status: corev1.ContainerStatus{Name: "mysql", State: running,
				LastTerminationState: corev1.ContainerState{Terminated: terminated(0, "Completed")}}, log: option},
		"Once": {reason: "The kubelet does not restart the containers of a Job's pod, so there is no crash to report.",
			status: corev1.ContainerStatus{Name: "mysql", State: corev1.ContainerState{Terminated: terminated(1, "Error")}},
			log:    option, change: func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metaOf("p", nil),
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tc.status}}}
			if tc.change != nil {
				tc.change(p)
			}
			l, previous := lookAt(t), false
			l.logs = ended{logs(tc.log), &previous}
			got := l.crashOf(t.Context(), p)
			if !strings.Contains(got, tc.says) || (got == "") != (tc.says == "") || strings.Contains(got, "hunter2") {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got)
			}
			if previous != tc.previous {
				t.Errorf("%s want the previous run's log: %t, got %t", tc.reason, tc.previous, previous)
			}
		})
	}
}

// limited adds a component label and a container with a memory limit to a pod.
func limited(component string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{v1.LabelComponent: component}
		p.Spec.Containers = []corev1.Container{
			{Name: "mysql", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}}}}
	}
}

// TestReportSaysOOMKilled checks the error that is reported if the kernel killed the program or its server. It names
// the setting that must be raised, and does not report the data as broken.
func TestReportSaysOOMKilled(t *testing.T) {
	cases := map[string]struct {
		reason    string
		component string
		message   string
		code      int32
		ended     string
		says      string
	}{
		"NoReport": {reason: "The program was killed before it could write a report, so the error must come from the status.",
			component: v1.ComponentBackup, code: 137,
			ended: "OOMKilled", says: "was OOMKilled (exit code 137): its memory limit of 256Mi is too low. Raise " +
				"limits.memory in JOB_RESOURCES of the controller"},
		"Child": {reason: "Only the server, a child process, was killed, and the error must name the limit to raise.",
			component: v1.ComponentRestore,
			message:   `{"command":"import-dump","exitCode":1,"error":"the server ended (signal: killed): it said nothing"}`,
			code:      1, ended: "OOMKilled",
			says: "Raise jobResources.limits.memory in the Composition's input, which the platform team sets. the server " +
				"ended (signal: killed): it said nothing"},
		"Counter": {reason: "The container status does not show OOMKilled, but the program has read the kernel's counter.",
			component: v1.ComponentServer,
			message:   `{"command":"initialize","exitCode":1,"error":"the server ended (OOMKilled: x)"}`, code: 1,
			ended: "Error", says: "Raise spec.resources.limits.memory of the claim. the server ended"},
		"Broken": {reason: "A server that was OOMKilled does not show that the archive is broken.", component: v1.ComponentRestoreTest,
			message: `{"command":"bootcheck","exitCode":46,"error":"broken"}`, ended: "OOMKilled", says: "Raise limits.memory"},
		"Fine": {reason: "A successful report must stay without an error.", component: v1.ComponentBackup,
			message: `{"command":"backup","ok":true}`, ended: "OOMKilled"},
		"Other": {reason: "The exit reason is not OOMKilled, so the program's own error must be reported.", component: v1.ComponentBackup,
			message: `{"command":"backup","exitCode":1,"error":"no"}`, code: 1, ended: "Error", says: "no"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metaOf("p", nil)}
			limited(tc.component)(p)
			r := ReportOf(p, &corev1.ContainerStatus{Name: "mysql",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.code, Reason: tc.ended,
					Message: tc.message}}})
			if r == nil || !strings.Contains(r.Error, tc.says) || (r.Error == "") != (tc.says == "") ||
				r.ExitCode == agent.ExitBroken {
				t.Errorf("%s want %q, got %+v", tc.reason, tc.says, r)
			}
		})
	}
	if r := ReportOf(&corev1.Pod{},
		&corev1.ContainerStatus{State: corev1.ContainerState{Terminated: terminated(137, "Error")}}); r != nil {
		t.Errorf("want no report of a container that wrote none, got %+v", r)
	}
}

// TestSteadyText checks that the message about a crashing server does not change if only numbers in the server's log
// change. The message does change if the memory limit changes.
func TestSteadyText(t *testing.T) {
	before := &v1.Blocker{Message: "container mysql of pod p has exited (exit code 1) and is restarted: LSN 12 is in " +
		"the future"}
	if got := steadyText(before, strings.Replace(before.Message, "12", "13", 1)); got != before.Message {
		t.Errorf("want the text as it was, got %q", got)
	}
	for _, reason := range []string{"container mysql of pod p was OOMKilled: its memory limit of 2Gi is too low",
		strings.Replace(before.Message, "LSN", "page", 1)} {
		if got := steadyText(&v1.Blocker{Message: strings.Replace(reason, "2Gi", "1Gi", 1) + "x"}, reason); got != reason {
			t.Errorf("want %q, got %q", reason, got)
		}
	}
}

// TestFailedRestoreSaysWhy checks that the error of the pod is reported after the last attempt of a restore. Only the
// pod contains the failed statement of a dump.
func TestFailedRestoreSaysWhy(t *testing.T) {
	const reason = "the dump cannot be imported: a statement in it failed: ERROR at line 1: Unknown command"
	for phase, want := range map[v1.RestorePhase]string{v1.RestoreFailed: "container restore of pod p: " + reason,
		v1.RestoreRunning: "container restore of pod p: " + reason, v1.RestoreSucceeded: ""} {
		p := &corev1.Pod{ObjectMeta: metaOf("p",
			map[string]string{v1.LabelXR: "uid", v1.LabelComponent: v1.ComponentRestore}), Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever}}
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "restore", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 42,
					Message: `{"command":"import-dump","exitCode":42,"error":"` + reason + `"}`}},
		}}}
		basis := &Basis{Subject: Subject{
			Instance: v1.Instance{Kind: v1.KindMySQL, Namespace: p.Namespace, Name: "db", XR: "uid"},
			XR:       &Composite{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}},
		}}
		basis.XR.Status.Restore = &v1.RestoreStatus{Phase: phase, Backup: "b"}
		basis.XR.Status.PreviousBackup = "b"
		work, err := readWork(t.Context(), lookAt(t, p), basis, &BackupVolumes{}, "")
		if err != nil {
			t.Fatal(err)
		}
		if work.PodFailure != want {
			t.Errorf("%s: want %q, got %q", phase, want, work.PodFailure)
		}
	}
}

// TestEvictionIsSaid checks that the controller reports an eviction by the kubelet, although the container statuses
// do not show it.
func TestEvictionIsSaid(t *testing.T) {
	j := &Job{Pods: []corev1.Pod{{ObjectMeta: metaOf("p", nil),
		Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted",
			Message: "The node was low on resource: ephemeral-storage"}}}}
	j.recordEviction()
	if want := "pod p: Evicted: The node was low on resource: ephemeral-storage"; j.PodFailure != want {
		t.Errorf("want %q, got %q", want, j.PodFailure)
	}
	later := corev1.Pod{ObjectMeta: metaOf("q", nil), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	later.CreationTimestamp = metav1.NewTime(noon)
	j.PodFailure, j.Pods = "", append(j.Pods, later)
	if j.recordEviction(); j.PodFailure != "" {
		t.Errorf("the next pod runs, got %q", j.PodFailure)
	}
}
