package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestPrefer checks that a Job tolerates the same taints as the server, and that it prefers nodes but requires none.
func TestPrefer(t *testing.T) {
	requirement := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	term := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	toleration := []corev1.Toleration{{Key: "databases", Operator: corev1.TolerationOpExists}}
	beside := &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}}}
	p := &NodePlacement{
		NodeSelector: map[string]string{"disk": "ssd", "arch": "arm64"}, Tolerations: toleration,
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{term(requirement("zone", "a")), term(requirement("zone", "b"))}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Weight: 1, Preference: term(requirement("rack", "1"))}},
		},
	}
	before := p.DeepCopy()
	got := corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: beside}}
	p.Prefer(&got)
	want := corev1.PodSpec{Tolerations: toleration,
		Affinity: &corev1.Affinity{PodAffinity: beside, NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Weight: 1, Preference: term(requirement("rack", "1"))},
				{Weight: 100, Preference: term(requirement("zone", "a"), requirement("arch", "arm64"), requirement("disk", "ssd"))},
				{Weight: 100, Preference: term(requirement("zone", "b"), requirement("arch", "arm64"), requirement("disk", "ssd"))},
			},
		}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("It is changed itself. -before, +after:\n%s", diff)
	}
	got = corev1.PodSpec{}
	(&NodePlacement{Tolerations: toleration}).Prefer(&got)
	if diff := cmp.Diff(corev1.PodSpec{Tolerations: toleration}, got); diff != "" {
		t.Errorf("Taints alone say nothing of others. -want, +got:\n%s", diff)
	}
	var none *NodePlacement
	none.Prefer(&got)
}
