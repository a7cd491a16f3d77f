package compose

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	// made adds a Deployment for the current spec, with the given numbers of replicas and of ready pods.
	made := func(replicas, ready int32) func(*Input) {
		return func(in *Input) {
			in.XR.Status.Started, in.XR.Status.UID, in.XR.Status.Revision, in.XR.Status.Initialized =
				true, testLife, "template", true
			r, err := resolve(*in)
			if err != nil {
				t.Fatal(err)
			}
			in.Observed.DataPVC = &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
			template := serverTemplate(r.serverInput)
			in.Observed.Deployment = &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{v1.AnnotationRevision: digestOf(r.wish) + "." + digestOf(template),
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
		"New":         {reason: "Its restore is the first to run there.", in: given(scheduled), want: wanted},
		"Runs":        {reason: "It runs there.", in: given(scheduled, had, made(1, 1)), want: wanted},
		"Pending":     {reason: "It finds no such node.", in: given(scheduled, had, made(1, 0)), want: ran},
		"Stopped":     {reason: "It has not been there.", in: given(scheduled, had, made(0, 0)), want: ran},
		"Asked":       {reason: "Its pod is about to be another one.", in: given(had, made(1, 1), scheduled), want: ran},
		"Default":     {reason: "It runs in the pod that it had.", in: given(had, made(1, 1), defaults), want: ran},
		"Maintenance": {reason: "Its pod is about to be another one.", in: given(had, made(1, 1), defaults, now), want: ran},
		"Suspended": {reason: "It is stopped, and not there yet.", in: given(had, made(1, 1), defaults, suspended),
			want: ran},
		"Lost": {reason: "Nobody knows any more, and this is the best guess.",
			in: given(scheduled, had, made(1, 0), lost), want: wanted},
		"TakenBack": {reason: "It runs anywhere.", in: given(had, made(1, 1))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, composed(t, tc.in).Status.Nodes); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestWithinNodes checks that a node must match one term of each of the two selectors.
func TestWithinNodes(t *testing.T) {
	disks := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}},
		{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}},
	}}
	a := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: disks}
	zone := inZone().NodeSelectorTerms[0].MatchExpressions[0]
	want := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{disks.NodeSelectorTerms[0].MatchExpressions[0], zone}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{zone}, MatchFields: disks.NodeSelectorTerms[1].MatchFields},
		}}}
	if diff := cmp.Diff(want, within(a, inZone())); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if got := within(a, nil); got != a {
		t.Errorf("want it as it is where the backups can be anywhere, got %v", got)
	}
	if diff := cmp.Diff(inZone(), within(nil, inZone()).RequiredDuringSchedulingIgnoredDuringExecution); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestCheckScheduling checks that the function refuses scheduling that the API server would refuse in the Deployment,
// and names the field.
func TestCheckScheduling(t *testing.T) {
	toleration := func(toleration corev1.Toleration) func(*v1.Scheduling) {
		return func(s *v1.Scheduling) { s.Tolerations = []corev1.Toleration{toleration} }
	}
	expression := func(key string, op corev1.NodeSelectorOperator, values ...string) func(*v1.Scheduling) {
		return func(s *v1.Scheduling) {
			s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0] =
				corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
		}
	}
	fieldOf := func(key string, op corev1.NodeSelectorOperator, values ...string) func(*v1.Scheduling) {
		return func(s *v1.Scheduling) {
			s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields =
				[]corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}
		}
	}
	near := func(s *v1.Scheduling) *corev1.PodAffinityTerm {
		return &s.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	}
	cases := map[string]struct {
		change func(*v1.Scheduling)
		want   string
	}{
		"Fine":     {change: func(*v1.Scheduling) {}},
		"Number":   {change: expression("cores", corev1.NodeSelectorOpGt, "4")},
		"NodeName": {change: fieldOf("metadata.name", corev1.NodeSelectorOpIn, "node-1")},
		"EmptyTerm": {change: func(s *v1.Scheduling) {
			terms := &s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			*terms = append(*terms, corev1.NodeSelectorTerm{})
		}, want: "nodeSelectorTerms[1]: Required"},
		"Many": {change: expression("kubernetes.io/hostname", corev1.NodeSelectorOpIn,
			slices.Repeat([]string{"node-0123456789"}, 200)...), want: "Use fewer or shorter labels"},
		"Role": {change: toleration(corev1.Toleration{Key: "node-role.kubernetes.io/database",
			Operator: corev1.TolerationOpExists})},
		"SelectorKey": {change: func(s *v1.Scheduling) { s.NodeSelector = map[string]string{"a b": "c"} },
			want: "s.nodeSelector"},
		"SelectorValue": {change: func(s *v1.Scheduling) { s.NodeSelector = map[string]string{"a": "b c"} },
			want: "s.nodeSelector"},
		"NoTerms": {change: func(s *v1.Scheduling) {
			s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = nil
		}, want: "nodeSelectorTerms: Required"},
		"NodeKey":      {change: expression("a b", corev1.NodeSelectorOpExists), want: "matchExpressions[0].key"},
		"NodeOperator": {change: expression("a", "Is", "b"), want: `operator: Unsupported value: "Is"`},
		"NodeNoValues": {change: expression("a", corev1.NodeSelectorOpIn), want: "matchExpressions[0].values: Required"},
		"NodeValue":    {change: expression("a", corev1.NodeSelectorOpNotIn, "b c"), want: "is not a valid label value"},
		"NodeValues": {change: expression("a", corev1.NodeSelectorOpExists, "b"), want: "must be empty with operator " +
			"Exists"},
		"NodeNumbers":  {change: expression("a", corev1.NodeSelectorOpLt, "1", "2"), want: "one number"},
		"NodeNoNumber": {change: expression("a", corev1.NodeSelectorOpLt, "many"), want: "must be a whole number"},
		"FieldKey":     {change: fieldOf("spec.providerID", corev1.NodeSelectorOpIn, "a"), want: "matchFields[0].key"},
		"FieldOperator": {change: fieldOf("metadata.name", corev1.NodeSelectorOpExists, "a"),
			want: "matchFields[0].operator"},
		"FieldValues": {change: fieldOf("metadata.name", corev1.NodeSelectorOpIn), want: "set the name of one node"},
		"PreferenceWeight": {change: func(s *v1.Scheduling) {
			s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 101}}
		}, want: "weight"},
		"Everything": {change: toleration(corev1.Toleration{Operator: corev1.TolerationOpExists}),
			want: "set the key of the taint"},
		"ControlPlane": {change: toleration(corev1.Toleration{Key: "node-role.kubernetes.io/control-plane",
			Operator: corev1.TolerationOpExists}), want: "control plane"},
		"TolerationKey": {change: toleration(corev1.Toleration{Key: "a b"}), want: "tolerations[0].key"},
		"TolerationValue": {change: toleration(corev1.Toleration{Key: "a", Value: "b c"}),
			want: "not a valid taint value"},
		"ExistsValue": {change: toleration(corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists,
			Value: "b"}), want: "must be empty with operator Exists"},
		"TolerationOp": {change: toleration(corev1.Toleration{Key: "a", Operator: "Is"}),
			want: "tolerations[0].operator"},
		"Effect": {change: toleration(corev1.Toleration{Key: "a", Effect: "Never"}),
			want: "tolerations[0].effect"},
		"TolerationSeconds": {change: toleration(corev1.Toleration{Key: "a", TolerationSeconds: new(int64(1))}),
			want: "only with effect NoExecute"},
		"PodsOfNobody": {change: func(s *v1.Scheduling) { near(s).LabelSelector = nil }, want: "set the labels that " +
			"select the pods"},
		"PodsOfAll": {change: func(s *v1.Scheduling) { near(s).LabelSelector = &metav1.LabelSelector{} },
			want: "set the labels that select the pods"},
		"PodLabel": {change: func(s *v1.Scheduling) {
			s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels =
				map[string]string{"a": "b c"}
		}, want: "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels"},
		"PodTopology": {change: func(s *v1.Scheduling) { near(s).TopologyKey = "" },
			want: "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey"},
		"PodWeight": {change: func(s *v1.Scheduling) {
			s.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight = 0
		}, want: "weight"},
		"PodNamespaces": {change: func(s *v1.Scheduling) { near(s).Namespaces = []string{"theirs"} },
			want: "podAffinityTerm.namespaces: Forbidden: only pods in the claim's namespace"},
		"PodNamespaceSelector": {change: func(s *v1.Scheduling) { near(s).NamespaceSelector = &metav1.LabelSelector{} },
			want: "podAffinityTerm.namespaceSelector: Forbidden"},
		"PodLabelKeys": {change: func(s *v1.Scheduling) { near(s).MatchLabelKeys = []string{"a"} },
			want: "matchLabelKeys: Forbidden"},
		"PodOtherLabelKeys": {change: func(s *v1.Scheduling) { near(s).MismatchLabelKeys = []string{"a"} },
			want: "mismatchLabelKeys: Forbidden"},
		"SpreadSelector": {change: func(s *v1.Scheduling) {
			s.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}}
		}, want: "topologySpreadConstraints[0].labelSelector.matchLabels"},
		"SpreadLabelKeys": {change: func(s *v1.Scheduling) { s.TopologySpreadConstraints[0].MatchLabelKeys = []string{"a"} },
			want: "matchLabelKeys: Forbidden"},
		"SpreadDomains": {change: func(s *v1.Scheduling) { s.TopologySpreadConstraints[0].MinDomains = new(int32(2)) },
			want: "minDomains"},
		"SpreadTaints": {change: func(s *v1.Scheduling) {
			s.TopologySpreadConstraints[0].NodeTaintsPolicy = new(corev1.NodeInclusionPolicy("Never"))
		}, want: "nodeTaintsPolicy"},
		"SpreadTopology": {change: func(s *v1.Scheduling) { s.TopologySpreadConstraints[0].TopologyKey = "a b" },
			want: "topologySpreadConstraints[0].topologyKey"},
		"SpreadSkew": {change: func(s *v1.Scheduling) { s.TopologySpreadConstraints[0].MaxSkew = -1 },
			want: "maxSkew"},
		"SpreadWhen": {change: func(s *v1.Scheduling) { s.TopologySpreadConstraints[0].WhenUnsatisfiable = "Never" },
			want: "whenUnsatisfiable"},
		"SpreadTwice": {change: func(s *v1.Scheduling) {
			s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, s.TopologySpreadConstraints[0])
		}, want: "Duplicate"},
		"Priority": {change: func(s *v1.Scheduling) { s.PriorityClassName = "A b" }, want: "not a valid PriorityClass name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := scheduling()
			tc.change(s)
			errs := checkScheduling(s, field.NewPath("s"))
			if tc.want == "" && len(errs) > 0 || tc.want != "" &&
				(len(errs) == 0 || !strings.Contains(errs[0].Error(), tc.want)) {
				t.Errorf("want an error with %q, got %v", tc.want, errs)
			}
		})
	}
}
