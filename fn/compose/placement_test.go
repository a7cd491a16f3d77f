package compose

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func inZone() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
		}}}}
}

// scheduling returns a scheduling with all fields set.
func scheduling() *v1.Scheduling {
	return &v1.Scheduling{
		NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations: []corev1.Toleration{
			{Key: "databases", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(int64(30))},
		},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: inZone()},
			PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: podsOf("shop", corev1.LabelTopologyZone)}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				podsOf("batch", corev1.LabelHostname)}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway}},
		PriorityClassName: "databases",
	}
}

func podsOf(app, topologyKey string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		TopologyKey: topologyKey}
}

func scheduled(in *Input) {
	in.XR.Spec.Scheduling = scheduling()
	allowsScheduling(in)
}

var allowsScheduling = platform(func(s *v1.PlatformSpec) {
	s.AllowedTolerations, s.AllowedPriorityClasses = []string{"databases", v1.TaintsOfTrouble}, []string{"databases"}
})

var forbidsScheduling = platform(func(s *v1.PlatformSpec) {
	s.AllowedTolerations, s.AllowedPriorityClasses = nil, nil
})

func podOf(t *testing.T, out *Output) corev1.PodSpec {
	t.Helper()
	d, ok := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment)
	if !ok {
		t.Fatal("no Deployment")
	}
	return d.Spec.Template.Spec
}

// TestScheduling checks that the server's pod has the scheduling of its claim, and that Jobs have its node placement.
func TestScheduling(t *testing.T) {
	batch := podsOf("batch", corev1.LabelHostname)
	batch.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
		{Key: v1.LabelComponent, Operator: metav1.LabelSelectorOpNotIn, Values: v1.JobComponents()}}
	want := corev1.PodSpec{
		NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations:  scheduling().Tolerations,
		Affinity: &corev1.Affinity{
			NodeAffinity: scheduling().Affinity.NodeAffinity,
			PodAffinity: &corev1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 10, PodAffinityTerm: podsOf("shop", corev1.LabelTopologyZone)}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{batch}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{v1.LabelManagedBy: v1.ManagedBy, v1.LabelComponent: v1.ComponentServer}},
		}},
		PriorityClassName: "databases",
	}
	placement := func(p corev1.PodSpec) corev1.PodSpec {
		return corev1.PodSpec{NodeSelector: p.NodeSelector, Tolerations: p.Tolerations, Affinity: p.Affinity,
			TopologySpreadConstraints: p.TopologySpreadConstraints, PriorityClassName: p.PriorityClassName}
	}
	defaults := func(in *Input) { in.Settings.DefaultScheduling = scheduling() }
	out := composed(t, given(scheduled))
	if diff := cmp.Diff(want, placement(podOf(t, out))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	jobs := scheduling().NodePlacement()
	jobs.Tolerations = jobs.Tolerations[:1]
	if diff := cmp.Diff(jobs, out.Status.Nodes); diff != "" {
		t.Errorf("A Job has what is said of nodes, and not how long a server stays on one that is gone. -want, +got:\n%s",
			diff)
	}
	if diff := cmp.Diff(want, placement(podOf(t, composed(t, given(defaults))))); diff != "" {
		t.Errorf("The platform needs no leave of its own lists. -want, +got:\n%s", diff)
	}
	own := func(in *Input) { in.XR.Spec.Scheduling = &v1.Scheduling{} }
	if diff := cmp.Diff(corev1.PodSpec{}, placement(podOf(t, composed(t, given(defaults, own))))); diff != "" {
		t.Errorf("A claim that wants nothing has nothing. -want, +got:\n%s", diff)
	}
	r, err := resolve(given(scheduled))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, placement(restorePod(r, &v1.RestoreStatus{}))); diff != "" {
		t.Errorf("The restore is the first to use the data volume, which is made where it runs. -want, +got:\n%s", diff)
	}
}

// TestNodesOfJobs checks that Jobs get the nodes on which the server last ran, even if the spec has changed since
// then.
func TestNodesOfJobs(t *testing.T) {
	ran := &v1.NodePlacement{NodeSelector: map[string]string{"disk": "old"}}
	wanted := scheduling().NodePlacement().OfJobs()
	had := func(in *Input) { in.XR.Status.Nodes = ran }
	defaults := func(in *Input) { in.Settings.DefaultScheduling = scheduling() }
	// made returns a change of an Input that adds a Deployment for the current spec, with the given numbers of replicas
	// and of ready pods.
	made := func(replicas, ready int32) func(*Input) {
		return func(in *Input) {
			in.XR.Status.Started, in.XR.Status.UID, in.XR.Status.Revision, in.XR.Status.Initialized =
				true, testInstance, "template", true
			r, err := resolve(*in)
			if err != nil {
				t.Fatal(err)
			}
			in.Observed.DataPVC = &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
			template := serverTemplate(r.serverInput)
			in.Observed.Deployment = &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{v1.AnnotationRevision: digestOf(r.templateInput) + "." + digestOf(template),
						v1.AnnotationStarted: startedMark(r.instance)}},
				Spec:   appsv1.DeploymentSpec{Replicas: &replicas},
				Status: appsv1.DeploymentStatus{Replicas: ready, UpdatedReplicas: ready, ReadyReplicas: ready},
			}
			in.Observed.Template = &Template{Digest: "template", ConfigHash: template.Annotations[v1.AnnotationConfigHash]}
		}
	}
	lost := func(in *Input) { in.XR.Status.UID, in.XR.Status.Nodes = "", nil }
	now := func(in *Input) { in.Settings.Maintenance = v1.MaintenanceNow }
	cases := map[string]struct {
		reason string
		in     Input
		want   *v1.NodePlacement
	}{
		"New": {reason: "The restore Job is the first pod that uses the data volume.",
			in: given(scheduled), want: wanted},
		"Runs": {reason: "The server runs on the nodes of the spec.", in: given(scheduled, had, made(1, 1)), want: wanted},
		"Pending": {reason: "The server finds no node that matches the spec.",
			in: given(scheduled, had, made(1, 0)), want: ran},
		"Stopped": {reason: "The server has not run on the nodes of the spec.",
			in: given(scheduled, had, made(0, 0)), want: ran},
		"Asked": {reason: "The pod of the server is about to be replaced.",
			in: given(had, made(1, 1), scheduled), want: ran},
		"Default": {reason: "The server keeps its pod if only the platform's default changes.",
			in: given(had, made(1, 1), defaults), want: ran},
		"Maintenance": {reason: "The pod of the server is about to be replaced.",
			in: given(had, made(1, 1), defaults, now), want: ran},
		"Suspended": {reason: "The server is stopped and has not run on the new nodes.",
			in:   given(had, made(1, 1), defaults, suspended),
			want: ran},
		"Lost": {reason: "The nodes in the status are lost, and the spec is the best guess.",
			in: given(scheduled, had, made(1, 0), lost), want: wanted},
		"TakenBack": {reason: "The spec no longer selects nodes, so a Job may run on any node.", in: given(had, made(1, 1))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, composed(t, tc.in).Status.Nodes); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
