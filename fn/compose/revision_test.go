package compose

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// seen stands for the digest of the pod template of the observed Deployment.
const seen = "0123456789abcdef0123456789abcdef"

// earlierConfig is a my.cnf that an earlier release wrote.
const earlierConfig = "[mysqld]\nearlier = ON\n"

// inUse changes an Input so that a server runs and a client has logged in to it.
func inUse(in *Input) {
	server(1)(in)
	in.XR.Status.Initialized = true
	in.Observed.Template = &Template{Digest: seen, ConfigHash: digest(configHeader)}
	in.Observed.Config = &corev1.ConfigMap{Data: map[string]string{v1.ConfigKey: configHeader}}
	hasPVC(in)
}

// madeEarlier returns a change of an Input that adds a running server. It has the same spec, and a pod template from an
// earlier release.
func madeEarlier(t *testing.T) func(*Input) {
	t.Helper()
	templateInput, _, _ := strings.Cut(markOf(t, given(inUse)), ".")
	return func(in *Input) {
		inUse(in)
		in.Observed.Deployment.Annotations[v1.AnnotationRevision] = templateInput + ".fedcba9876543210"
		in.XR.Status.Revision = seen
	}
}

// markOf composes an Input and returns AnnotationRevision of the Deployment.
func markOf(t *testing.T, in Input) string {
	t.Helper()
	return composed(t, in).Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment).Annotations[v1.AnnotationRevision]
}

// TestRevision checks that a running server keeps its template if only a newer release or the platform's settings
// would change it.
func TestRevision(t *testing.T) {
	earlier := madeEarlier(t)
	givenWith := func(changes ...func(*Input)) Input { return given(append([]func(*Input){earlier}, changes...)...) }
	cases := map[string]struct {
		reason string
		in     Input
		keeps  bool
		config string
	}{
		"Newer": {reason: "A new release must not restart the server.", in: givenWith(), keeps: true},
		"Settings": {reason: "A new job image must not restart the server.",
			in: givenWith(platform(func(s *v1.PlatformSpec) { s.AgentImage = "agent:v2" })), keeps: true},
		"PlatformUnknown": {reason: "The template of this release is unknown.", keeps: true, in: givenWith(func(in *Input) {
			in.Required.Platform, in.Observed.Config = Required[v1.Platform]{}, &corev1.ConfigMap{}
		})},
		"Size": {reason: "A larger volume must not restart the server.",
			in: givenWith(func(in *Input) { in.XR.Spec.StorageSize = new("2Gi") }), keeps: true},
		"Image": {reason: "The user has set another image.",
			in: givenWith(func(in *Input) { in.XR.Spec.Image = new("mysql:9.7") })},
		"Restarted": {reason: "A changed template, as by kubectl rollout restart, restarts the server anyway.",
			in: givenWith(func(in *Input) {
				in.Observed.Template.Digest = "changed"
			})},
		"StatusLost": {reason: "Without the revision in the status, a change of the template would be unnoticed.",
			in: givenWith(func(in *Input) { in.XR.Status.Revision = "" })},
		"Maintenance": {reason: "The platform requests the restart.",
			in: givenWith(func(in *Input) { in.Settings.Maintenance = v1.MaintenanceNow })},
		"Stopped": {reason: "A stopped server must start with the new template.",
			in: givenWith(func(in *Input) { in.Observed.Deployment.Spec.Replicas = new(int32(0)) })},
		"Fenced": {reason: "The server is stopped and must start later with the new template.",
			in: givenWith(func(in *Input) { in.XR.Status.PVCDeleted = true })},
		"Unused": {reason: "No client has ever logged in, so a new release may fix the server's pod.",
			in: givenWith(func(in *Input) { in.XR.Status.Initialized = false })},
		"Unmarked": {reason: "Without the annotation, the spec of the template is unknown.",
			in: givenWith(func(in *Input) { delete(in.Observed.Deployment.Annotations, v1.AnnotationRevision) })},
		"ConfigEarlier": {reason: "The server must keep its template and its my.cnf together.",
			keeps: true, config: earlierConfig,
			in: givenWith(func(in *Input) {
				in.Observed.Template.ConfigHash = digest(earlierConfig)
				in.Observed.Config = &corev1.ConfigMap{Data: map[string]string{v1.ConfigKey: earlierConfig}}
			})},
		"ConfigLost": {reason: "The my.cnf that the template was created with is unknown.", in: givenWith(func(in *Input) {
			in.Observed.Template.ConfigHash = digest(earlierConfig)
			in.Observed.Config = &corev1.ConfigMap{Data: map[string]string{v1.ConfigKey: earlierConfig + "init_file = /x\n"}}
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			d := out.Resources[v1.ResourceDeployment]
			if got := slices.Equal(d.AsObserved, []string{"spec", "template"}); got != tc.keeps {
				t.Errorf("%s want it kept: %t, got %t", tc.reason, tc.keeps, got)
			}
			condition := Condition{Type: v1.ConditionPendingRestart, Reason: v1.ReasonUpToDate}
			n := slices.IndexFunc(out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionPendingRestart })
			if waits := out.Conditions[n] != condition; waits != tc.keeps {
				t.Errorf("%s got %+v", tc.reason, out.Conditions[n])
			}
			mark, had := d.Object.(*appsv1.Deployment).
				Annotations[v1.AnnotationRevision], tc.in.Observed.Deployment.Annotations[v1.AnnotationRevision]
			if (mark == had) != tc.keeps || (out.Status.Revision == seen) != tc.keeps {
				t.Errorf("%s the mark was %q and is %q, the status says %q", tc.reason, had, mark, out.Status.Revision)
			}
			if got := out.Resources[v1.ResourceConfig].Object.(*corev1.ConfigMap).Data[v1.ConfigKey]; tc.keeps &&
				tc.config != "" && got != tc.config {
				t.Errorf("%s want the my.cnf %q, got %q", tc.reason, tc.config, got)
			}
		})
	}
}

// TestRevisionIsSeen checks that the status contains the digest of the observed template, which the next release
// needs.
func TestRevisionIsSeen(t *testing.T) {
	mark := markOf(t, given(inUse))
	in := given(inUse, func(in *Input) { in.Observed.Deployment.Annotations[v1.AnnotationRevision] = mark })
	out := composed(t, in)
	if out.Status.Revision != seen || out.Resources[v1.ResourceDeployment].AsObserved != nil {
		t.Errorf("want %q noted, and the template made, got %q and %v", seen, out.Status.Revision,
			out.Resources[v1.ResourceDeployment].AsObserved)
	}
}
