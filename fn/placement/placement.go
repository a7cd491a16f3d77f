// Package placement translates the scheduling of a claim to the scheduling fields of a pod, and validates it.
package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/fieldcheck"
)

// A Preference describes where the pods of an instance may run.
type Preference struct {
	// Scheduling is the scheduling of the claim, or the platform's default. It may be nil.
	Scheduling *v1.Scheduling
	// Component is the label of the instance's server. It selects the servers of a namespace among which a constraint
	// without a selector spreads this server.
	Component string
	// Nodes restricts the nodes. It is nil if every node is suitable.
	Nodes *corev1.NodeSelector
}

// Apply sets the scheduling fields of a server's or a Job's pod to this preference.
func (w Preference) Apply(pod *corev1.PodSpec) {
	scheduling := cmp.Or(w.Scheduling, &v1.Scheduling{})
	pod.NodeSelector, pod.Tolerations, pod.PriorityClassName =
		scheduling.NodeSelector, scheduling.Tolerations, scheduling.PriorityClassName
	pod.TopologySpreadConstraints = w.spread(scheduling.TopologySpreadConstraints)
	affinity := cmp.Or(scheduling.Affinity, &corev1.Affinity{}).DeepCopy()
	sparesJobs(affinity.PodAntiAffinity)
	affinity.NodeAffinity = within(affinity.NodeAffinity, w.Nodes)
	if *affinity != (corev1.Affinity{}) {
		pod.Affinity = affinity
	}
}

// spread returns the topology spread constraints of the server's pod. A constraint without a selector spreads all
// servers of the namespace.
func (w Preference) spread(constraints []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	out := slices.Clone(constraints)
	for i := range out {
		if out[i].LabelSelector == nil {
			out[i].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelManagedBy: v1.ManagedBy,
				v1.LabelComponent: w.Component}}
		}
	}
	return out
}

// sparesJobs excludes the pods of the product's Jobs from the anti-affinity terms, so that a server does not keep its
// own backup Jobs away from its node.
func sparesJobs(a *corev1.PodAntiAffinity) {
	if a == nil {
		return
	}
	spare := func(t *corev1.PodAffinityTerm) {
		if t.LabelSelector == nil { // It selects no pods.
			return
		}
		t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: v1.LabelComponent, Operator: metav1.LabelSelectorOpNotIn, Values: v1.JobComponents()})
	}
	for i := range a.RequiredDuringSchedulingIgnoredDuringExecution {
		spare(&a.RequiredDuringSchedulingIgnoredDuringExecution[i])
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		spare(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
	}
}

// within restricts a node affinity to the nodes of a selector. The terms of a selector are alternatives, so each term
// of one selector is combined with each term of the other.
func within(a *corev1.NodeAffinity, nodes *corev1.NodeSelector) *corev1.NodeAffinity {
	if nodes == nil {
		return a
	}
	out := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: nodes}
	if a == nil {
		return out
	}
	out.PreferredDuringSchedulingIgnoredDuringExecution = a.PreferredDuringSchedulingIgnoredDuringExecution
	if wanted := a.RequiredDuringSchedulingIgnoredDuringExecution; wanted != nil {
		both := &corev1.NodeSelector{}
		for _, one := range wanted.NodeSelectorTerms {
			for _, other := range nodes.NodeSelectorTerms {
				both.NodeSelectorTerms = append(both.NodeSelectorTerms, corev1.NodeSelectorTerm{
					MatchExpressions: slices.Concat(one.MatchExpressions, other.MatchExpressions),
					MatchFields:      slices.Concat(one.MatchFields, other.MatchFields),
				})
			}
		}
		out.RequiredDuringSchedulingIgnoredDuringExecution = both
	}
	return out
}

// Check refuses scheduling that the API server would always refuse in the Deployment.
func Check(s *v1.Scheduling, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))
	for i, t := range s.Tolerations {
		errs = append(errs, checkToleration(t, path.Child("tolerations").Index(i))...)
	}
	errs = append(errs, checkAffinity(s.Affinity, path.Child("affinity"))...)
	if n := len(s.NodePlacement().Annotation()); n > longestNodes {
		errs = append(errs, field.Forbidden(path,
			fmt.Sprintf("nodeSelector, nodeAffinity and tolerations are %d bytes long as JSON, but the maximum is %d bytes. "+
				"Use fewer or shorter labels to select the nodes", n, longestNodes)))
	}
	errs = append(errs, checkSpread(s.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	if s.PriorityClassName != "" {
		errs = append(errs, fieldcheck.ObjectName(path.Child("priorityClassName"), s.PriorityClassName, "PriorityClass")...)
	}
	return fieldcheck.ClipErrors(errs)
}

// longestNodes is the maximum length of a node placement as JSON, in bytes. It limits the annotations of a volume,
// which contain the placement once for each backup.
const longestNodes = 2048

func checkAffinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	errs := checkNodeAffinity(a.NodeAffinity, path.Child("nodeAffinity"))
	if p := a.PodAffinity; p != nil {
		errs = append(errs, checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

func checkPodTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm,
	path *field.Path) field.ErrorList {
	errs := make(field.ErrorList, 0, len(required)+len(preferred))
	for i := range required {
		errs = append(errs, checkPodTerm(&required[i],
			path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		fldPath := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, checkWeight(preferred[i].Weight, fldPath)...)
		errs = append(errs, checkPodTerm(&preferred[i].PodAffinityTerm, fldPath.Child("podAffinityTerm"))...)
	}
	return errs
}

// checkPodTerm validates a pod affinity term as the API server does. It also refuses terms about pods of other
// namespaces, because anti-affinity would keep those pods away from a node, too.
func checkPodTerm(t *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	errs := fieldcheck.Selector(t.LabelSelector, path.Child("labelSelector"))
	if t.LabelSelector == nil || len(t.LabelSelector.MatchLabels)+len(t.LabelSelector.MatchExpressions) == 0 {
		errs = append(errs, field.Required(path.Child("labelSelector"), "set the labels that select the pods"))
	}
	for name, refused := range map[string]bool{"namespaces": len(t.Namespaces) > 0,
		"namespaceSelector": t.NamespaceSelector != nil} {
		if refused {
			errs = append(errs, field.Forbidden(path.Child(name), "only pods in the claim's namespace can be selected. "+
				"Remove it"))
		}
	}
	for name, keys := range map[string][]string{"matchLabelKeys": t.MatchLabelKeys,
		"mismatchLabelKeys": t.MismatchLabelKeys} {
		if len(keys) > 0 {
			errs = append(errs, field.Forbidden(path.Child(name), "is not supported. Remove it"))
		}
	}
	return append(errs, checkTopologyKey(t.TopologyKey, path)...)
}

func checkWeight(weight int32, path *field.Path) field.ErrorList {
	if weight >= 1 && weight <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("weight"), weight, "must be from 1 to 100")}
}

func checkTopologyKey(key string, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelName(key, path.Child("topologyKey"))
}

func checkSpread(constraints []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type pair struct{ key, value string }
	seen := map[pair]bool{}
	for i := range constraints {
		c, fldPath := &constraints[i], path.Index(i)
		errs = append(errs, checkTopologyKey(c.TopologyKey, fldPath)...)
		errs = append(errs, fieldcheck.Selector(c.LabelSelector, fldPath.Child("labelSelector"))...)
		if c.MaxSkew < 1 {
			errs = append(errs, field.Invalid(fldPath.Child("maxSkew"), c.MaxSkew, "must be 1 or more"))
		}
		errs = append(errs, fieldcheck.Enum(fldPath.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.ScheduleAnyway,
			corev1.DoNotSchedule)...)
		if m := c.MinDomains; m != nil && (*m < 1 || c.WhenUnsatisfiable != corev1.DoNotSchedule) {
			errs = append(errs, field.Invalid(fldPath.Child("minDomains"), *m,
				"must be 1 or more, and is supported only with whenUnsatisfiable DoNotSchedule"))
		}
		errs = append(errs, checkInclusion(c.NodeAffinityPolicy, fldPath.Child("nodeAffinityPolicy"))...)
		errs = append(errs, checkInclusion(c.NodeTaintsPolicy, fldPath.Child("nodeTaintsPolicy"))...)
		if len(c.MatchLabelKeys) > 0 {
			errs = append(errs, field.Forbidden(fldPath.Child("matchLabelKeys"), "is not supported. Remove it"))
		}
		if p := (pair{c.TopologyKey, string(c.WhenUnsatisfiable)}); seen[p] {
			errs = append(errs, field.Duplicate(fldPath.Child("topologyKey"), fieldcheck.ClipText(c.TopologyKey)))
		} else {
			seen[p] = true
		}
	}
	return errs
}

func checkInclusion(p *corev1.NodeInclusionPolicy, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	return fieldcheck.Enum(path, *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
}

// checkToleration validates a toleration as the API server does. It also requires a key, because Jobs that read the
// data get the toleration, too, and must not run on arbitrary nodes.
func checkToleration(t corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case t.Key == "":
		errs = append(errs, field.Required(path.Child("key"), "set the key of the taint"))
	case v1.IsOfControlPlane(t.Key):
		errs = append(errs, field.Forbidden(path.Child("key"), "is a taint of control plane nodes, on which no database "+
			"may run. Remove the toleration"))
	default:
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator { //nolint:exhaustive // The operators that compare numbers are behind a feature gate.
	case corev1.TolerationOpEqual, "":
		if len(validation.IsValidLabelValue(t.Value)) > 0 {
			errs = append(errs, field.Invalid(path.Child("value"), fieldcheck.ClipText(t.Value), "is not a valid taint value"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Forbidden(path.Child("value"), "must be empty with operator Exists"))
		}
	default:
		errs = append(errs, fieldcheck.Enum(path.Child("operator"), t.Operator, corev1.TolerationOpEqual,
			corev1.TolerationOpExists)...)
	}
	if t.Effect != "" {
		errs = append(errs, fieldcheck.Enum(path.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule,
			corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Forbidden(path.Child("tolerationSeconds"), "is supported only with effect NoExecute"))
	}
	return errs
}

func checkNodeAffinity(a *corev1.NodeAffinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if s := a.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		fldPath := path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(s.NodeSelectorTerms) == 0 {
			errs = append(errs, field.Required(fldPath, "set a term that selects nodes"))
		}
		for i, t := range s.NodeSelectorTerms {
			// In Kubernetes, an empty term matches no node. Combined with a term of another selector by within, it would match
			// every node that the other term matches.
			if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
				errs = append(errs, field.Required(fldPath.Index(i), "set matchExpressions or matchFields"))
			}
			errs = append(errs, checkNodeTerm(t, fldPath.Index(i))...)
		}
	}
	for i, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		fldPath := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, checkWeight(p.Weight, fldPath)...)
		errs = append(errs, checkNodeTerm(p.Preference, fldPath.Child("preference"))...)
	}
	return errs
}

func checkNodeTerm(t corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range t.MatchExpressions {
		fldPath := path.Child("matchExpressions").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(e.Key, fldPath.Child("key"))...)
		errs = append(errs, checkNodeValues(e, fldPath)...)
	}
	for i, e := range t.MatchFields {
		fldPath := path.Child("matchFields").Index(i)
		errs = append(errs, fieldcheck.Enum(fldPath.Child("key"), e.Key, metav1.ObjectNameField)...)
		errs = append(errs, fieldcheck.Enum(fldPath.Child("operator"), e.Operator, corev1.NodeSelectorOpIn,
			corev1.NodeSelectorOpNotIn)...)
		if len(e.Values) != 1 || len(validation.IsDNS1123Subdomain(e.Values[0])) > 0 {
			errs = append(errs, field.Required(fldPath.Child("values"), "set the name of one node"))
		}
	}
	return errs
}

func checkNodeValues(e corev1.NodeSelectorRequirement, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch e.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(e.Values) == 0 {
			errs = append(errs, field.Required(fldPath.Child("values"), "set a value for operator "+string(e.Operator)))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(e.Values) > 0 {
			errs = append(errs, field.Forbidden(fldPath.Child("values"), "must be empty with operator "+string(e.Operator)))
		}
		return errs
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			return append(errs, field.Required(fldPath.Child("values"), "set one number for operator "+string(e.Operator)))
		}
		if _, err := strconv.ParseInt(e.Values[0], 10, 64); err != nil {
			errs = append(errs, field.Invalid(fldPath.Child("values"), fieldcheck.ClipText(e.Values[0]), "must be a whole number"))
		}
	default:
		return append(errs, fieldcheck.Enum(fldPath.Child("operator"), e.Operator,
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)...)
	}
	for i, v := range e.Values {
		if len(validation.IsValidLabelValue(v)) > 0 {
			errs = append(errs, field.Invalid(fldPath.Child("values").Index(i), fieldcheck.ClipText(v), "is not a valid label value"))
		}
	}
	return errs
}
