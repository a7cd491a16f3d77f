package instance

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// noon is the current time of the tests. Objects that were created a minute earlier have exceeded waitTimeout.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// lookAt returns a podReader that reads the given objects and whose current time is noon.
func lookAt(t *testing.T, objects ...client.Object) podReader {
	t.Helper()
	reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
			e, _ := o.(*corev1.Event)
			return []string{string(e.InvolvedObject.UID)}
		}).Build()
	return podReader{Reader: reader, now: noon}
}

// said returns an event about an object. The event was last seen the given number of seconds before noon.
func said(name string, uid types.UID, kind, reason, message string, ago int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metaOf(name, nil), InvolvedObject: corev1.ObjectReference{UID: uid}, Type: kind, Reason: reason,
		Message:       message,
		LastTimestamp: metav1.NewTime(noon.Add(-time.Duration(ago) * time.Second)),
	}
}

func node(ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: ready, Message: "Kubelet stopped posting node status."}}}}
	n.Name = "worker"
	return n
}

// waiting returns a pod that was scheduled to a node a minute before noon.
func waiting(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metaOf("p", nil), Spec: corev1.PodSpec{NodeName: "worker"}, Status: corev1.PodStatus{
		Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("ContainerCreating", "", nil)},
	}}
	p.UID, p.CreationTimestamp = "pod", metav1.NewTime(noon.Add(-time.Minute))
	for _, change := range changes {
		change(p)
	}
	return p
}

// serving makes a pod ready.
func serving(p *corev1.Pod) {
	p.Status.Phase, p.Status.ContainerStatuses[0].State = corev1.PodRunning, corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func unready(p *corev1.Pod) {
	serving(p)
	p.Status.Conditions[0].Status = corev1.ConditionFalse
}

// restarted changes a pod as a restart of its node does: its init containers have terminated, and its volumes are not
// mounted yet.
func restarted(p *corev1.Pod) {
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "initialize", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
}

func dyingSince(timestamp time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		serving(p)
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: timestamp}, []string{"x"}
	}
}

func unplaced(p *corev1.Pod) {
	p.Spec.NodeName = ""
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Message: "pod has unbound immediate PersistentVolumeClaims"}}
	p.Spec.Volumes = []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db-pvc"}}}}
}

// TestWhyPodWaits checks the message for each cause that Kubernetes reports. The events about volumes are from
// kubernetes, pkg/controller/volume/attachdetach/reconciler/reconciler.go and
// pkg/kubelet/volumemanager/volume_manager.go.
func TestWhyPodWaits(t *testing.T) {
	const warning, normal = corev1.EventTypeWarning, corev1.EventTypeNormal
	mount := said("mount", "pod", warning, "FailedMount",
		`MountVolume.SetUp failed for volume "config" : configmap "db-config" not found`, 30)
	attach := said("attach", "pod", warning, "FailedAttachVolume",
		`Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) old`, 30)
	pending := &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("db-pvc", nil),
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	pending.UID = "pvc"
	cases := map[string]struct {
		reason  string
		pod     *corev1.Pod
		objects []client.Object
		says    string
	}{
		"Mount": {reason: "Only an event contains the reason why the volume cannot be mounted.",
			pod: waiting(), objects: []client.Object{mount},
			says: `pod p on node worker: FailedMount: MountVolume.SetUp failed for volume "config" : configmap "db-config" not found`},
		"MountAgain": {reason: "A later event that only repeats the problem must not hide its cause.", pod: waiting(),
			objects: []client.Object{mount,
				said("late", "pod", warning, "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[config]",
					5)}, says: "db-config"},
		"Attach": {reason: "The volume is attached to another node, and the message must contain this event.",
			pod: waiting(), objects: []client.Object{attach},
			says: "FailedAttachVolume: Multi-Attach error"},
		"Attached": {reason: "A later normal event shows that the volume is attached, so there is no problem.", pod: waiting(),
			objects: []client.Object{attach,
				said("done", "pod", normal, "SuccessfulAttachVolume", "AttachVolume.Attach succeeded", 5)}},
		"Another": {reason: "The event belongs to an earlier pod with the same name.", pod: waiting(),
			objects: []client.Object{said("mount", "earlier", warning, "FailedMount", "no", 30)}},
		"Silence": {reason: "There is no event, so there is nothing to report.", pod: waiting()},
		"Young": {reason: "The pod was created a second ago, so the problem may still disappear.",
			pod:     waiting(func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second)) }),
			objects: []client.Object{mount}},
		"Started": {reason: "The pod has started, so an earlier warning must be ignored.", pod: waiting(unready),
			objects: []client.Object{mount, node(corev1.ConditionTrue)}},
		"Status": {reason: "The status of the pod takes precedence over its events.",
			pod:     waiting(func(p *corev1.Pod) { p.Status.ContainerStatuses[0] = waits("ErrImagePull", "not found", nil) }),
			objects: []client.Object{mount}, says: "pod p: ErrImagePull: not found"},
		"Remounted": {reason: "After a restart of its node, the pod must mount its volumes again, so the event applies.",
			pod:     waiting(restarted),
			objects: []client.Object{mount}, says: "FailedMount"},
		"Node": {reason: "The node is not ready, and the message must contain the command to continue without it.", pod: waiting(unready),
			objects: []client.Object{node(corev1.ConditionUnknown)},
			says: "pod p is on node worker, which is not ready (Kubelet stopped posting node status.). " +
				"Repair the node. If it is shut down permanently"},
		"NodeGone": {reason: "The node of the pod does not exist, and the message must report this.",
			pod: waiting(unready), says: "node worker, which no longer exists"},
		"NodeSlow": {reason: "The node is ready and the server is still starting, so there is nothing to report.", pod: waiting(unready),
			objects: []client.Object{node(corev1.ConditionTrue)}},
		"NodeServing": {reason: "The pod is ready, so the state of its node must not be reported.", pod: waiting(serving),
			objects: []client.Object{node(corev1.ConditionUnknown)}},
		"Ending": {reason: "The grace period of the pod has just ended, so it may still terminate.", pod: waiting(dyingSince(noon)),
			objects: []client.Object{node(corev1.ConditionUnknown)}},
		"Ended": {reason: "The pod does not terminate because its node is not ready, and the message must report this.",
			pod:     waiting(dyingSince(noon.Add(-time.Minute))),
			objects: []client.Object{node(corev1.ConditionUnknown)}, says: "out-of-service=nodeshutdown:NoExecute"},
		"Scratch": {
			reason: "A quota refuses the ephemeral volume, and the message must contain this event.", pod: waiting(unplaced, scratch),
			says: "PersistentVolumeClaims. FailedBinding: ephemeral volume data: exceeded quota",
			objects: []client.Object{said("quota", "pod", warning, "FailedBinding", "ephemeral volume data: exceeded quota", 20),
				said("node", "pod", warning, "FailedScheduling", "0/2 nodes", 5)},
		},
		"ScratchMade": {
			reason: "The PVC of the ephemeral volume exists now, so only its own event must be reported.", pod: waiting(unplaced, scratch),
			says: "PersistentVolumeClaim p-data: ProvisioningFailed: no room",
			objects: []client.Object{
				&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-data", UID: "scratch"},
					Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}},
				said("quota", "pod", warning, "FailedBinding", "ephemeral volume data: exceeded quota", 20),
				said("full", "scratch", warning, "ProvisioningFailed", "no room", 10),
			},
		},
		"Unbound": {
			reason: "The scheduler's message contains no cause, so the event of the PVC must be added.", pod: waiting(unplaced),
			says: "pod has unbound immediate PersistentVolumeClaims. PersistentVolumeClaim db-pvc: ProvisioningFailed: no " +
				"such pool",
			objects: []client.Object{pending, said("no", "pvc", warning, "ProvisioningFailed", "no such pool", 20),
				said("again", "pvc", normal, "Provisioning", "External provisioner is provisioning volume", 5)},
		},
		"Place": {reason: "The message must explain why the pod may run only on one node.", pod: waiting(unplaced),
			says: "on nodes that can use the existing backup volume for this name (kubernetes.io/hostname In worker), " +
				"because otherwise its data could not be backed up"},
		"Unprintable": {reason: "Events may contain any text, so the message must be printable and short.", pod: waiting(),
			objects: []client.Object{said("mount", "pod", warning, "FailedMount", "no\n\x1b[2J"+strings.Repeat("x", 5000), 30)},
			says:    "FailedMount: no [2Jxxx"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := tc.objects
			if !slices.ContainsFunc(objects, func(o client.Object) bool { _, ok := o.(*corev1.Node); return ok }) &&
				name != "NodeGone" {
				objects = append(slices.Clone(objects), node(corev1.ConditionTrue))
			}
			basis := &Basis{DataVolumes: DataVolumes{DataPVC: pending}}
			if name == "Place" {
				basis.XR = &Composite{Status: v1.MySQLStatus{InternalStatus: v1.InternalStatus{
					BackupNodes: agent.OnNode("worker").Required}}}
			}
			got := lookAt(t, objects...).whyPodWaits(t.Context(), basis, nil, tc.pod)
			if !strings.Contains(got, tc.says) || (got == "") != (tc.says == "") {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got)
			}
			if len(got) > maxPodFailure+100 {
				t.Errorf("%s want it cut, got %d bytes", tc.reason, len(got))
			}
		})
	}
}

// scratch adds an ephemeral volume to a pod.
func scratch(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
}

// TestWhyNoPod checks that a Job whose pod is refused is reported after some time. The message is the same for each
// attempt.
func TestWhyNoPod(t *testing.T) {
	made := func(ago time.Duration, change func(*Job)) *Job {
		j := &Job{Job: &batchv1.Job{ObjectMeta: metaOf("backup-db-job", nil)}}
		j.UID, j.CreationTimestamp = "job", metav1.NewTime(noon.Add(-ago))
		change(j)
		return j
	}
	refusal := func(name string) *corev1.Event {
		return said("refused", "job", corev1.EventTypeWarning, "FailedCreate",
			`Error creating: pods "backup-db-job-`+name+`" is forbidden: exceeded quota: no-pods`, 5)
	}
	const words = `Job backup-db-job has no pod: FailedCreate: Error creating: pods "backup-db-job" is forbidden: exceeded quota: no-pods`
	cases := map[string]struct {
		reason  string
		job     *Job
		objects []client.Object
		says    string
	}{
		"Refused": {reason: "The event of the Job contains the reason why its pod is refused.", job: made(time.Minute, func(*Job) {}),
			objects: []client.Object{refusal("x7k2p")}, says: words},
		"RefusedAgain": {reason: "The message must be the same for each attempt, although the name of the pod differs.",
			job:     made(time.Minute, func(*Job) {}),
			objects: []client.Object{refusal("b9d4w")}, says: words},
		"Unknown": {reason: "There is no event, so the message must contain the command that shows the reason.",
			job:  made(time.Minute, func(*Job) {}),
			says: "For the reason: kubectl describe job --namespace default backup-db-job"},
		"New": {reason: "The Job was created a second ago, so its pod may still be created.", job: made(time.Second, func(*Job) {}),
			objects: []client.Object{refusal("x7k2p")}},
		"Running": {reason: "The Job has a pod, so there is nothing to report.",
			job:     made(time.Minute, func(j *Job) { j.Pods = []corev1.Pod{{}} }),
			objects: []client.Object{refusal("x7k2p")}},
		"Ended": {reason: "The Job has finished, so it needs no pod.", job: made(time.Minute, func(j *Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := lookAt(t, tc.objects...).whyNoPod(t.Context(), tc.job); !strings.Contains(got, tc.says) ||
				(got == "") != (tc.says == "") {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got)
			}
		})
	}
}

// TestOutlived checks that a Job is finished when its own container has terminated, even if another component added a
// container to its pod.
func TestOutlived(t *testing.T) {
	ended := func(name string, ago time.Duration, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code,
				FinishedAt: metav1.NewTime(noon.Add(-ago))}}}
	}
	runs := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	pod := func(phase corev1.PodPhase, statuses ...corev1.ContainerStatus) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: phase, ContainerStatuses: statuses}}
	}
	cases := map[string]struct {
		reason        string
		pods          []corev1.Pod
		over, succeed bool
	}{
		"Sidecar": {reason: "An injected container keeps running, but the backup container has succeeded.",
			pods: []corev1.Pod{pod(corev1.PodRunning, runs("proxy"), ended("backup", time.Minute, 0))}, over: true,
			succeed: true},
		"Failed": {reason: "An injected container keeps running, but the backup container has failed.",
			pods: []corev1.Pod{pod(corev1.PodRunning, ended("backup", time.Minute, 1), runs("proxy"))}, over: true},
		"Soon": {reason: "The success of the backup container must be recorded immediately.",
			pods: []corev1.Pod{pod(corev1.PodRunning, ended("backup", time.Second, 0), runs("proxy"))}, over: true,
			succeed: true},
		"Failing": {reason: "The pod may still end by itself, and only the Job decides about another attempt.",
			pods: []corev1.Pod{pod(corev1.PodRunning, ended("backup", time.Second, 1), runs("proxy"))}},
		"Works": {reason: "The backup container is still running, although the injected container has terminated.",
			pods: []corev1.Pod{pod(corev1.PodRunning, runs("backup"), ended("proxy", time.Minute, 0))}},
		"Alone": {reason: "The backup container has succeeded, but the kubelet has not updated the phase of the pod.",
			pods: []corev1.Pod{pod(corev1.PodRunning, ended("backup", time.Second, 0))}, over: true, succeed: true},
		"Behind": {reason: "A pod has succeeded, but the Job controller has not updated the status of the Job.",
			pods: []corev1.Pod{pod(corev1.PodFailed, ended("backup", time.Hour, 1)),
				pod(corev1.PodSucceeded, ended("backup", time.Second, 0))}, over: true, succeed: true},
		"Over": {reason: "The pod has failed, so the status of the Job decides the result.",
			pods: []corev1.Pod{pod(corev1.PodFailed, ended("backup", time.Minute, 0), runs("proxy"))}},
		"Again": {reason: "An earlier pod failed, but the backup container of the current pod has succeeded.",
			pods: []corev1.Pod{pod(corev1.PodFailed, ended("backup", time.Hour, 1)),
				pod(corev1.PodRunning, ended("backup", time.Minute, 0), runs("proxy"))}, over: true, succeed: true},
		"Two": {reason: "Two pods are running, and one of them may not belong to the Job, so no result is recorded.",
			pods: []corev1.Pod{pod(corev1.PodRunning, ended("backup", time.Minute, 0), runs("proxy")),
				pod(corev1.PodRunning, runs("backup"))}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := &Job{Job: &batchv1.Job{}, Pods: tc.pods}
			j.Spec.Template.Labels = map[string]string{v1.LabelComponent: v1.ComponentBackup}
			j.recordEnd(noon)
			if finished, succeeded := j.Finished(); (finished != nil) != tc.over || succeeded != tc.succeed {
				t.Errorf("%s got an end at %v, success %v", tc.reason, finished, succeeded)
			}
		})
	}
}
