package placement

import (
	"slices"
	"strings"
	"testing"

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

// TestCheck checks that Check refuses scheduling that the API server would refuse in the Deployment,
// and names the field.
func TestCheck(t *testing.T) {
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
			errs := Check(s, field.NewPath("s"))
			if tc.want == "" && len(errs) > 0 || tc.want != "" &&
				(len(errs) == 0 || !strings.Contains(errs[0].Error(), tc.want)) {
				t.Errorf("want an error with %q, got %v", tc.want, errs)
			}
		})
	}
}
