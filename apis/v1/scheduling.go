package v1

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A Scheduling says where a server may run.
type Scheduling struct {
	// Nodes that the server may run on, and that the Jobs which read its data prefer.
	NodePlacement `json:",inline"`

	// PodAffinity: near these pods of the claim's namespace.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	PodAffinity []PodTerm `json:"podAffinity,omitempty"`

	// PodAntiAffinity: apart from these pods of the claim's namespace.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	PodAntiAffinity []PodTerm `json:"podAntiAffinity,omitempty"`

	// TopologySpreadConstraints spread the MySQL servers of the claim's namespace.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=4
	TopologySpreadConstraints []TopologySpread `json:"topologySpreadConstraints,omitempty"`

	// PriorityClassName of the server's pod, among those that the platform allows.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// A NodePlacement says which nodes pods may run on.
type NodePlacement struct {
	// NodeSelector: labels that the node has.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// NodeAffinity as in a pod of Kubernetes.
	//
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`

	// Tolerations of taints, as in a pod of Kubernetes, whose keys are among those that the
	// platform allows. Each has a key, and none is of the control plane.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// A PodTerm is about pods of the claim's namespace, and how far from them a server may be. No
// other namespace's: a pod that must be apart from others keeps those from its place, too.
type PodTerm struct {
	// MatchLabels of the pods.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	MatchLabels map[string]string `json:"matchLabels"`

	// TopologyKey is the label of nodes that have the same value for it where they are near,
	// such as kubernetes.io/hostname or topology.kubernetes.io/zone.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// Weight of it as a wish, from 1 to 100. Unset, it must be so.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight *int32 `json:"weight,omitempty"`
}

// A TopologySpread says how evenly the MySQL servers of a namespace are spread.
type TopologySpread struct {
	// TopologyKey is the label of nodes whose values they are spread over, such as
	// topology.kubernetes.io/zone.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// MaxSkew is how many more servers one value may have than another.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// WhenUnsatisfiable is ScheduleAnyway, which makes it a wish, or DoNotSchedule.
	//
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	// +kubebuilder:validation:Enum=ScheduleAnyway;DoNotSchedule
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable,omitempty"`
}

// TaintsOfTrouble is what the keys of taints begin with that Kubernetes sets on nodes which are not well.
const TaintsOfTrouble = "node.kubernetes.io/"

// IsOfControlPlane is true of the taints that keep others from the nodes of the control plane.
func IsOfControlPlane(taint string) bool {
	return taint == "node-role.kubernetes.io/control-plane" || taint == "node-role.kubernetes.io/master"
}

// OfJobs is what of it counts for the Jobs that read the server's data; nil where nothing does.
// How long a server stays on a node that is not well says nothing of them.
func (p *NodePlacement) OfJobs() *NodePlacement {
	if p == nil {
		return nil
	}
	out := p.DeepCopy()
	out.Tolerations = slices.DeleteFunc(out.Tolerations, func(t corev1.Toleration) bool { return strings.HasPrefix(t.Key, TaintsOfTrouble) })
	if len(out.Tolerations) == 0 {
		out.Tolerations = nil
	}
	if len(out.NodeSelector) == 0 && out.NodeAffinity == nil && out.Tolerations == nil {
		return nil
	}
	return out
}

// Prefer these nodes for a pod that reads what lies on a volume: it has to be where that can be used, whatever has become of
// them since. What its affinity says already is as it was.
func (p *NodePlacement) Prefer(pod *corev1.PodSpec) {
	if p == nil {
		return
	}
	pod.Tolerations = p.Tolerations
	wanted := []corev1.NodeSelectorTerm{{}}
	var preferred []corev1.PreferredSchedulingTerm
	if a := p.NodeAffinity; a != nil {
		preferred = slices.Clone(a.PreferredDuringSchedulingIgnoredDuringExecution)
		if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			wanted = r.DeepCopy().NodeSelectorTerms
		}
	}
	for _, term := range wanted {
		for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{p.NodeSelector[key]}})
		}
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			preferred = append(preferred, corev1.PreferredSchedulingTerm{Weight: mostWeight, Preference: term})
		}
	}
	if len(preferred) > 0 {
		AffinityOf(pod).NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}
	}
}

// mostWeight that a preference can have.
const mostWeight = 100

// AffinityOf a pod, which has one from then on.
func AffinityOf(pod *corev1.PodSpec) *corev1.Affinity {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	return pod.Affinity
}

// Annotation of it, as AnnotationNodes has it; empty for nil.
func (p *NodePlacement) Annotation() string {
	if p == nil {
		return ""
	}
	text, _ := json.Marshal(p) //nolint:errchkjson // Strings and numbers only.
	return string(text)
}

// ReadNodes of an annotation; nil where it says nothing that can be read.
func ReadNodes(annotation string) *NodePlacement {
	out := &NodePlacement{}
	if annotation == "" || json.Unmarshal([]byte(annotation), out) != nil {
		return nil
	}
	return out
}
