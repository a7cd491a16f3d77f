package compose

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A rig simulates Crossplane, so that the desired resources of a call are the observed resources of the next one.
type rig struct {
	t   *testing.T
	in  Input
	out *Output
}

// newRig returns an instance that accepts clients and runs with these settings.
func newRig(t *testing.T, pairs ...string) *rig {
	t.Helper()
	r := &rig{t: t, in: given(inUse, config(pairs...))}
	r.in.XR.Status.Initialized = false
	r.pass() // The first start.
	r.in.XR.Status.ServedImage = v1.DefaultImage
	r.ready(true)
	r.pass()
	if r.out.Status.Settings != nil || r.configMap()[v1.ServedConfigKey] != "" {
		t.Fatalf("want an instance at rest, got %+v", r.out.Status.Settings)
	}
	return r
}

// pass calls the function once, and makes its desired resources and status the observed ones of the next call.
func (r *rig) pass() {
	r.t.Helper()
	r.out = composed(r.t, r.in)
	verdict, status := r.in.XR.Status.SettingsVerdict, r.in.XR.Status
	r.in.XR.Status = r.out.Status
	r.in.XR.Status.SettingsVerdict, r.in.XR.Status.PreviousBackup, r.in.XR.Status.Authorities =
		verdict, status.PreviousBackup, status.Authorities
	r.in.XR.Status.Initialized = true
	r.in.Observed.Config = r.out.Resources[v1.ResourceConfig].Object.(*corev1.ConfigMap)
	d := r.out.Resources[v1.ResourceDeployment]
	old := r.in.Observed.Deployment
	r.in.Observed.Deployment = d.Object.(*appsv1.Deployment)
	r.in.Observed.Deployment.Status = old.Status
	if d.AsObserved == nil {
		template := r.in.Observed.Deployment.Spec.Template
		next := Template{
			Digest: digestOf(template), ConfigHash: template.Annotations[v1.AnnotationConfigHash], Certified: true,
			Images: map[string]string{"mysql": template.Spec.Containers[0].Image},
		}
		if next.Digest != r.in.Observed.Template.Digest {
			r.ready(false) // Its pod is replaced.
		}
		r.in.Observed.Template = &next
	}
	job, ok := r.out.Resources[v1.ResourceSettingsCheck]
	switch {
	case !ok:
		r.in.Observed.SettingsCheck = nil
	case r.in.Observed.SettingsCheck == nil:
		r.in.Observed.SettingsCheck = job.Object.(*batchv1.Job)
	}
}

func (r *rig) ready(ready bool) {
	r.in.Observed.Deployment.Status = appsv1.DeploymentStatus{}
	if ready {
		r.in.Observed.Deployment.Status = appsv1.DeploymentStatus{UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	}
}

// ends sets a condition, such as Complete or Failed, of the Job that validates the settings.
func (r *rig) ends(change batchv1.JobConditionType) {
	r.t.Helper()
	if r.in.Observed.SettingsCheck == nil {
		r.t.Fatal("want a Job that validates the settings")
	}
	r.in.Observed.SettingsCheck.Status.Conditions = []batchv1.JobCondition{
		{Type: change, Status: corev1.ConditionTrue, Message: "the Job says so"}}
}

func (r *rig) set(pairs ...string) {
	config(pairs...)(&r.in)
	r.pass()
}

func (r *rig) configMap() map[string]string { return r.in.Observed.Config.Data }

// is checks the phase of the new settings in the status, and that the my.cnf of the running server contains runsWith.
func (r *rig) is(phase v1.SettingsPhase, runsWith string) {
	r.t.Helper()
	got := v1.SettingsPhase("")
	if s := r.out.Status.Settings; s != nil {
		got = s.Phase
	}
	if got != phase {
		r.t.Errorf("want phase %q, got %q: %s", phase, got, r.out.Status.Message)
	}
	if text := r.configMap()[v1.ConfigKey]; !strings.Contains(text, runsWith) ||
		r.in.Observed.Template.ConfigHash != digest(text) {
		r.t.Errorf("want the server to run with %q, got %q", runsWith, text)
	}
	if n := r.out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment).Spec.Replicas; *n != 1 {
		r.t.Errorf("want a server, got %d", *n)
	}
	n := slices.IndexFunc(r.out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionPendingRestart })
	if n < 0 || r.out.Conditions[n].True != (phase != "") || phase != "" &&
		r.out.Conditions[n].Reason != settingsReasons[phase] {
		r.t.Errorf("want a condition for phase %q, got %+v", phase, r.out.Conditions)
	}
}

func (r *rig) says(want string) {
	r.t.Helper()
	if !strings.Contains(r.out.Status.Message, want) {
		r.t.Errorf("want a message with %q, got %q", want, r.out.Status.Message)
	}
}

// TestNewSettingsAreValidatedFirst checks that a running server uses new settings only after a Job has started
// another server with them.
func TestNewSettingsAreValidatedFirst(t *testing.T) {
	r := newRig(t, "max_connections", "5")
	r.set("max_connections", "6")
	r.is(v1.SettingsValidating, "max_connections = 5")
	j := r.in.Observed.SettingsCheck
	if text := j.Spec.Template.Annotations[v1.AnnotationConfig]; !strings.Contains(text, "max_connections = 6") {
		t.Errorf("want the Job to have the new settings, got %q", text)
	}
	if r.configMap()[v1.ServedConfigKey] != "" {
		t.Error("want the ConfigMap of the running server as it was")
	}
	r.pass()
	r.is(v1.SettingsValidating, "max_connections = 5")
	r.ends(batchv1.JobComplete)
	r.pass()
	r.is(v1.SettingsOnTrial, "max_connections = 6")
	if !strings.Contains(r.configMap()[v1.ServedConfigKey], "max_connections = 5") {
		t.Errorf("want the last settings that served kept, got %v", r.configMap())
	}
	r.pass()
	r.is(v1.SettingsOnTrial, "max_connections = 6")
	r.ready(true)
	r.pass()
	r.is("", "max_connections = 6")
	if len(r.configMap()) != 1 || r.in.Observed.SettingsCheck != nil {
		t.Errorf("want nothing left of the change, got %v and %v", r.configMap(), r.in.Observed.SettingsCheck)
	}
}

// TestRefusedSettingsStopNoServer checks that the server keeps the old settings until the settings change again, and
// that the message contains the reason.
func TestRefusedSettingsStopNoServer(t *testing.T) {
	r := newRig(t, "max_connections", "5")
	r.set("max_connections", "6", "no_such_setting", "1")
	r.ends(batchv1.JobFailed)
	r.pass()
	r.is(v1.SettingsRefused, "max_connections = 5")
	r.says("the Job says so")
	r.says("no_such_setting")
	r.in.XR.Status.SettingsVerdict = &v1.SettingsVerdict{ID: r.out.Status.Settings.ID,
		Message: "unknown variable 'no_such_setting=1'"}
	for range 3 {
		r.pass()
		r.is(v1.SettingsRefused, "max_connections = 5")
		r.says("unknown variable")
	}
	r.set("max_connections", "7")
	r.is(v1.SettingsValidating, "max_connections = 5")
	if r.in.Observed.SettingsCheck != nil {
		t.Error("want the Job of the refused settings deleted first")
	}
	r.pass()
	r.ends(batchv1.JobComplete)
	r.pass()
	r.is(v1.SettingsOnTrial, "max_connections = 7")
	r.ready(true)
	r.pass()
	r.is("", "max_connections = 7")
	r.set("max_connections", "8", "no_such_setting", "1")
	r.ends(batchv1.JobFailed)
	r.pass()
	r.set("max_connections", "7") // These are the settings in use.
	r.is("", "max_connections = 7")
}

// TestSettingsAreTakenBack checks that a server that keeps exiting with new settings reverts to the last settings
// that worked. It keeps them until the settings change again.
func TestSettingsAreTakenBack(t *testing.T) {
	r := newRig(t, "max_connections", "5")
	r.set("max_connections", "6", "bad", "1")
	r.ends(batchv1.JobComplete)
	r.pass()
	r.is(v1.SettingsOnTrial, "bad = 1")
	r.in.Observed.Deployment.Status = appsv1.DeploymentStatus{UpdatedReplicas: 1, ReadyReplicas: 1}
	r.pass() // The server listens on its port for a moment after each start.
	r.is(v1.SettingsOnTrial, "bad = 1")
	trial := *r.out.Status.Settings
	if trial.ConfigHash != r.in.Observed.Template.ConfigHash {
		t.Error("want the controller to know the pods of the trial")
	}
	r.in.XR.Status.SettingsVerdict = &v1.SettingsVerdict{ID: trial.ID, TakenBack: true, Message: "mysqld said no"}
	r.pass()
	r.is(v1.SettingsTakenBack, "max_connections = 5")
	r.says("mysqld said no")
	r.says("bad, max_connections")
	for range 3 {
		r.ready(true)
		r.pass()
		r.is(v1.SettingsTakenBack, "max_connections = 5")
	}
	r.in.Required.Platform.Known = false // No stored settings are removed while required resources are unknown.
	r.pass()
	r.in.Required.Platform.Known = true
	r.pass()
	r.is(v1.SettingsTakenBack, "max_connections = 5")
	r.in.XR.Spec.RequireTLS = new(false)
	r.pass() // The server restarts for a different reason.
	r.is(v1.SettingsTakenBack, "max_connections = 5")
	r.ready(true)
	r.set("max_connections", "7")
	r.is(v1.SettingsValidating, "max_connections = 5")
	r.ends(batchv1.JobComplete)
	r.pass()
	r.is(v1.SettingsOnTrial, "max_connections = 7")
	r.ready(true)
	r.pass()
	r.is("", "max_connections = 7")
}

// TestLastSettingsSurviveSeveralTrials checks several new settings in a row, with none of which the server accepts
// clients. The server must not revert to any of them.
func TestLastSettingsSurviveSeveralTrials(t *testing.T) {
	r := newRig(t, "max_connections", "5")
	for _, bad := range []string{"1", "2", "3"} {
		r.set("bad", bad)
		r.pass()
		r.ends(batchv1.JobComplete)
		r.pass()
		r.is(v1.SettingsOnTrial, "bad = "+bad)
		if kept := r.configMap()[v1.ServedConfigKey]; !strings.Contains(kept, "max_connections = 5") {
			t.Fatalf("want the settings that served kept, got %q", kept)
		}
	}
}

// TestValidationDelaysNothingElse checks that only a running server waits for the Job, and only if the new settings
// affect it.
func TestValidationDelaysNothingElse(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*Input)
		waits  bool
	}{
		"Settings": {reason: "New settings may be invalid.", change: config("max_connections", "6"), waits: true},
		"Image": {reason: "A new image may refuse the current settings.",
			change: func(in *Input) { in.XR.Spec.Image = new(v1.DefaultImage + ".1") }, waits: true},
		"None": {reason: "Without settings, none can be invalid.", change: config()},
		"Resources": {reason: "The change does not affect my.cnf.",
			change: func(in *Input) { in.XR.Spec.RequireTLS = new(false) }},
		"Suspended": {reason: "The instance is suspended, so no server is at risk.", change: func(in *Input) {
			config("max_connections", "6")(in)
			in.XR.Spec.Suspend = true
		}},
		"Fenced": {reason: "The server is already stopped because of its PVC.", change: func(in *Input) {
			config("max_connections", "6")(in)
			in.XR.Status.PVCDeleted = true
		}},
		"NotServed": {reason: "No server has ever accepted clients, and the new settings may fix the first start.",
			change: func(in *Input) {
				config("max_connections", "6")(in)
				in.XR.Status.ServedImage, in.Observed.Deployment.Status = "", appsv1.DeploymentStatus{}
			}},
		"NotStarted": {reason: "The server is stopped, so no server is at risk.", change: func(in *Input) {
			config("max_connections", "6")(in)
			in.Observed.Deployment.Spec.Replicas = new(int32(0))
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "max_connections", "5")
			tc.change(&r.in)
			out := composed(t, r.in)
			if _, waits := out.Resources[v1.ResourceSettingsCheck]; waits != tc.waits {
				t.Errorf("%s want a Job: %t, got %t", tc.reason, tc.waits, waits)
			}
			if kept := out.Resources[v1.ResourceDeployment].AsObserved != nil; kept != tc.waits {
				t.Errorf("%s want the template as it is: %t, got %t", tc.reason, tc.waits, kept)
			}
		})
	}
}

// TestSettingsJob checks that the Job has the server's limits, but neither its data nor its password.
func TestSettingsJob(t *testing.T) {
	r := newRig(t, "max_connections", "5")
	r.in.XR.Spec.Resources = &v1.Resources{Limits: map[corev1.ResourceName]v1.Amount{"memory": "256Mi"}}
	r.set("max_connections", "6")
	j := r.in.Observed.SettingsCheck
	pod := j.Spec.Template.Spec
	for _, v := range pod.Volumes {
		if v.PersistentVolumeClaim != nil || v.Secret != nil && v.Name != TLSVolume || v.ConfigMap != nil {
			t.Errorf("the Job mounts %+v", v)
		}
	}
	if c := pod.Containers[0]; c.Image != v1.DefaultImage || c.Resources.Limits.Memory().String() != "256Mi" ||
		c.Resources.Requests.Memory().String() != "256Mi" {
		t.Errorf("the Job runs %s with %v", c.Image, c.Resources)
	}
	if *pod.AutomountServiceAccountToken || j.Annotations[v1.AnnotationSettings] == "" {
		t.Errorf("want no token and the ID of the settings, got %v", j.ObjectMeta)
	}
}

// TestForeignJobIsNotTaken checks that an existing Job with the same name and another owner is not changed. A
// condition reports the conflict.
func TestForeignJobIsNotTaken(t *testing.T) {
	r := newRig(t, "max_connections", "5")
	r.in.Required.Existing[v1.ResourceSettingsCheck] = Required[metav1.PartialObjectMetadata]{Known: true,
		Items: []metav1.PartialObjectMetadata{{}}}
	r.set("max_connections", "6")
	r.is(v1.SettingsValidating, "max_connections = 5")
	if n := slices.IndexFunc(r.out.Conditions, func(c Condition) bool { return c.Reason == v1.ReasonNameTaken }); n < 0 {
		t.Errorf("want the claim to say whose it is not, got %+v", r.out.Conditions)
	}
	if r.in.Observed.SettingsCheck != nil {
		t.Error("want no Job")
	}
}
