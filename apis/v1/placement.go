package v1

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A Scheduling specifies where a server may run. Its fields are those of a pod.
type Scheduling struct {
	// NodeSelector lists the labels that a node must have.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Affinity of the server's pod. Its terms can select pods in the claim's namespace only: namespaces and
	// namespaceSelector are refused, because anti-affinity would keep these pods away from a node as well.
	// matchLabelKeys and mismatchLabelKeys are refused, too.
	//
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// Tolerations of taints. Each toleration must have a key that the platform policy allows. Taints of the control
	// plane cannot be tolerated.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// TopologySpreadConstraints of the server's pod. If labelSelector is unset, the MySQL servers of the claim's
	// namespace are spread over the nodes. matchLabelKeys is refused.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// PriorityClassName of the server's pod. The platform policy must allow it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// NodePlacement returns the fields of the scheduling that select nodes, or nil if the scheduling is nil.
func (s *Scheduling) NodePlacement() *NodePlacement {
	if s == nil {
		return nil
	}
	out := &NodePlacement{NodeSelector: s.NodeSelector, Tolerations: s.Tolerations}
	if s.Affinity != nil {
		out.NodeAffinity = s.Affinity.NodeAffinity
	}
	return out
}

// A NodePlacement specifies the nodes on which pods may run.
type NodePlacement struct {
	// NodeSelector lists the labels that a node must have.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// NodeAffinity of the pod.
	//
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`

	// Tolerations of taints.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// TaintsOfTrouble is the prefix of the keys of taints that Kubernetes sets on unhealthy nodes.
const TaintsOfTrouble = "node.kubernetes.io/"

// IsOfControlPlane reports whether a taint reserves nodes for the control plane.
func IsOfControlPlane(taint string) bool {
	return taint == "node-role.kubernetes.io/control-plane" || taint == "node-role.kubernetes.io/master"
}

// OfJobs returns the placement of Jobs that read the server's data, or nil if it is empty. It omits tolerations of
// unhealthy nodes, because they apply to servers only.
func (p *NodePlacement) OfJobs() *NodePlacement {
	if p == nil {
		return nil
	}
	out := p.DeepCopy()
	out.Tolerations = slices.DeleteFunc(out.Tolerations, func(t corev1.Toleration) bool {
		return strings.HasPrefix(t.Key, TaintsOfTrouble)
	})
	if len(out.Tolerations) == 0 {
		out.Tolerations = nil
	}
	if len(out.NodeSelector) == 0 && out.NodeAffinity == nil && out.Tolerations == nil {
		return nil
	}
	return out
}

// Prefer makes a pod that reads a volume prefer these nodes. It never requires them, because the pod must run on a
// node that can mount the volume. The existing affinity of the pod is kept, except for its node affinity.
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
			term.MatchExpressions = append(term.MatchExpressions,
				corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{p.NodeSelector[key]}})
		}
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			preferred = append(preferred, corev1.PreferredSchedulingTerm{Weight: mostWeight, Preference: term})
		}
	}
	if len(preferred) > 0 {
		AffinityOf(pod).NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}
	}
}

// mostWeight is the maximum weight of a preference.
const mostWeight = 100

// AffinityOf returns the affinity of a pod. It adds an empty one if the pod has none.
func AffinityOf(pod *corev1.PodSpec) *corev1.Affinity {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	return pod.Affinity
}

// Annotation returns the value of AnnotationNodes, or "" if the placement is nil.
func (p *NodePlacement) Annotation() string {
	if p == nil {
		return ""
	}
	text, _ := json.Marshal(p) //nolint:errchkjson // Strings and numbers only.
	return string(text)
}

// ReadNodes returns the placement in an annotation. It is nil if the annotation is empty or cannot be parsed.
func ReadNodes(annotation string) *NodePlacement {
	out := &NodePlacement{}
	if annotation == "" || json.Unmarshal([]byte(annotation), out) != nil {
		return nil
	}
	return out
}
