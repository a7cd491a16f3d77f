package compose

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
)

// schedulingOf an instance: that of its claim, or the platform's; never nil.
func schedulingOf(s *serverInput) *v1.Scheduling {
	return cmp.Or(s.wish.Scheduling, s.defaultScheduling, &v1.Scheduling{})
}

// schedule a pod that may be the first to use the data volume, which is made where that runs: the
// server's, and that of the restore before it. The Job that backs the volume up mounts the
// backups', too, so that it has to be where that can be used.
func schedule(s *serverInput, pod *corev1.PodSpec) {
	where := schedulingOf(s)
	pod.NodeSelector, pod.Tolerations, pod.PriorityClassName = where.NodeSelector, where.Tolerations, where.PriorityClassName
	for _, of := range where.TopologySpreadConstraints {
		pod.TopologySpreadConstraints = append(pod.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			TopologyKey: of.TopologyKey, MaxSkew: max(of.MaxSkew, 1), WhenUnsatisfiable: orAnyway(of.WhenUnsatisfiable),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelManagedBy: v1.ManagedBy, v1.LabelComponent: s.instance.ServerSelector()[v1.LabelComponent]}},
		})
	}
	affinity := corev1.Affinity{
		NodeAffinity: where.NodeAffinity, PodAffinity: podAffinity(where.PodAffinity, nil), PodAntiAffinity: (*corev1.PodAntiAffinity)(podAffinity(where.PodAntiAffinity, notJobs())),
	}
	if !s.ephemeral {
		affinity.NodeAffinity = within(affinity.NodeAffinity, s.backupNodes)
	}
	if affinity != (corev1.Affinity{}) {
		pod.Affinity = &affinity
	}
}

// nodesOfJobs that the controller makes, for the status; nil where the scheduler may choose. They are those on which the server last
// ran: where it finds none, as somebody asks for nodes that its volume is not on, its data can be backed up all the same.
func nodesOfJobs(r *resolved, of revision) *v1.NodePlacement {
	d := r.Observed.Deployment
	switch {
	case r.ephemeral:
		return nil
	case !r.started || r.XR.Status.UID == "": // It is the first to run there, or the status was lost.
	case of.observed || of.seen == "" || !deploymentReady(d) || d.Spec.Replicas == nil || *d.Spec.Replicas == 0:
		return r.XR.Status.Nodes
	}
	return schedulingOf(r.serverInput).OfJobs()
}

func orAnyway(of corev1.UnsatisfiableConstraintAction) corev1.UnsatisfiableConstraintAction {
	if of == "" {
		return corev1.ScheduleAnyway
	}
	return of
}

// notJobs are pods that are none of the product's Jobs. A server keeps from its node whom it has to be apart from, and those that back it up
// have to come there.
func notJobs() []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{{Key: v1.LabelComponent, Operator: metav1.LabelSelectorOpNotIn, Values: v1.JobComponents()}}
}

// podAffinity to, or from, what terms say, of those who are this as well; nil where there is none.
func podAffinity(terms []v1.PodTerm, who []metav1.LabelSelectorRequirement) *corev1.PodAffinity {
	if len(terms) == 0 {
		return nil
	}
	out := &corev1.PodAffinity{}
	for _, t := range terms {
		term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: t.MatchLabels, MatchExpressions: who}, TopologyKey: t.TopologyKey}
		if t.Weight == nil {
			out.RequiredDuringSchedulingIgnoredDuringExecution = append(out.RequiredDuringSchedulingIgnoredDuringExecution, term)
		} else {
			out.PreferredDuringSchedulingIgnoredDuringExecution = append(out.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: *t.Weight, PodAffinityTerm: term})
		}
	}
	return out
}

// within nodes: an affinity that is to them, too. One of the terms of a selector has to hold, so that each goes with each.
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

// checkScheduling refuses what the API server would refuse of the Deployment, for ever.
func checkScheduling(s *v1.Scheduling, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))
	errs = append(errs, checkNodeAffinity(s.NodeAffinity, path.Child("nodeAffinity"))...)
	for i, t := range s.Tolerations {
		errs = append(errs, checkToleration(t, path.Child("tolerations").Index(i))...)
	}
	for i, t := range s.PodAffinity {
		errs = append(errs, checkPodTerm(t, path.Child("podAffinity").Index(i))...)
	}
	for i, t := range s.PodAntiAffinity {
		errs = append(errs, checkPodTerm(t, path.Child("podAntiAffinity").Index(i))...)
	}
	if n := len(s.Annotation()); n > longestNodes {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("its nodes take %d bytes, of at most %d: say them by fewer labels", n, longestNodes)))
	}
	errs = append(errs, checkSpread(s.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	if c := s.PriorityClassName; c != "" && len(validation.IsDNS1123Subdomain(c)) > 0 {
		errs = append(errs, field.Invalid(path.Child("priorityClassName"), clipText(c), "is not the name of a PriorityClass"))
	}
	return clipped(errs)
}

// longestNodes as JSON: they stand in annotations of volumes, once for each backup.
const longestNodes = 2048

// clipped values of errors that Kubernetes has made.
func clipped(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		if text, ok := e.BadValue.(string); ok {
			e.BadValue = clipText(text)
		}
	}
	return errs
}

func checkPodTerm(t v1.PodTerm, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.MatchLabels, path.Child("matchLabels"))
	if len(t.MatchLabels) == 0 {
		errs = append(errs, field.Required(path.Child("matchLabels"), "say which pods"))
	}
	errs = append(errs, checkTopologyKey(t.TopologyKey, path)...)
	if w := t.Weight; w != nil && (*w < 1 || *w > 100) {
		errs = append(errs, field.Invalid(path.Child("weight"), *w, "must be from 1 to 100"))
	}
	return errs
}

func checkTopologyKey(key string, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelName(key, path.Child("topologyKey"))
}

func checkSpread(constraints []v1.TopologySpread, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type pair struct{ key, what string }
	seen := map[pair]bool{}
	for i, of := range constraints {
		at := path.Index(i)
		errs = append(errs, checkTopologyKey(of.TopologyKey, at)...)
		if of.MaxSkew < 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), of.MaxSkew, "must be 1 or more"))
		}
		when := orAnyway(of.WhenUnsatisfiable)
		if when != corev1.ScheduleAnyway && when != corev1.DoNotSchedule {
			errs = append(errs, field.NotSupported(at.Child("whenUnsatisfiable"), corev1.UnsatisfiableConstraintAction(clipText(string(when))), []corev1.UnsatisfiableConstraintAction{corev1.ScheduleAnyway, corev1.DoNotSchedule}))
		}
		if p := (pair{of.TopologyKey, string(when)}); seen[p] {
			errs = append(errs, field.Duplicate(at.Child("topologyKey"), clipText(of.TopologyKey)))
		} else {
			seen[p] = true
		}
	}
	return errs
}

// checkToleration as the API server does, and that it has a key: the Jobs that read the data are
// made with it, too, and are to be on no node that nobody named.
func checkToleration(t corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case t.Key == "":
		errs = append(errs, field.Required(path.Child("key"), "name the taint"))
	case v1.IsOfControlPlane(t.Key):
		errs = append(errs, field.Forbidden(path.Child("key"), "is a taint of the control plane, which is for no database"))
	default:
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator { //nolint:exhaustive // Those that compare numbers are behind a feature gate.
	case corev1.TolerationOpEqual, "":
		if len(validation.IsValidLabelValue(t.Value)) > 0 {
			errs = append(errs, field.Invalid(path.Child("value"), clipText(t.Value), "is not the value of a taint"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Forbidden(path.Child("value"), "has no meaning with operator Exists"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), corev1.TolerationOperator(clipText(string(t.Operator))), []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	if !slices.Contains(effects, t.Effect) {
		errs = append(errs, field.NotSupported(path.Child("effect"), corev1.TaintEffect(clipText(string(t.Effect))), effects[1:]))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Forbidden(path.Child("tolerationSeconds"), "has a meaning with effect NoExecute only"))
	}
	return errs
}

func checkNodeAffinity(a *corev1.NodeAffinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if s := a.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		at := path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(s.NodeSelectorTerms) == 0 {
			errs = append(errs, field.Required(at, "say which nodes"))
		}
		for i, t := range s.NodeSelectorTerms {
			if len(t.MatchExpressions)+len(t.MatchFields) == 0 { // Kubernetes takes it for no node, and beside another one it would be each.
				errs = append(errs, field.Required(at.Index(i), "say which nodes"))
			}
			errs = append(errs, checkNodeTerm(t, at.Index(i))...)
		}
	}
	for i, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		if p.Weight < 1 || p.Weight > 100 {
			errs = append(errs, field.Invalid(at.Child("weight"), p.Weight, "must be from 1 to 100"))
		}
		errs = append(errs, checkNodeTerm(p.Preference, at.Child("preference"))...)
	}
	return errs
}

func checkNodeTerm(t corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range t.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(e.Key, at.Child("key"))...)
		errs = append(errs, checkNodeValues(e, at)...)
	}
	for i, e := range t.MatchFields {
		at := path.Child("matchFields").Index(i)
		if e.Key != metav1.ObjectNameField {
			errs = append(errs, field.NotSupported(at.Child("key"), clipText(e.Key), []string{metav1.ObjectNameField}))
		}
		if e.Operator != corev1.NodeSelectorOpIn && e.Operator != corev1.NodeSelectorOpNotIn {
			errs = append(errs, field.NotSupported(at.Child("operator"), corev1.NodeSelectorOperator(clipText(string(e.Operator))), []corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}))
		}
		if len(e.Values) != 1 || len(validation.IsDNS1123Subdomain(e.Values[0])) > 0 {
			errs = append(errs, field.Required(at.Child("values"), "name one node"))
		}
	}
	return errs
}

func checkNodeValues(e corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch e.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(e.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), "with operator "+string(e.Operator)))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(e.Values) > 0 {
			errs = append(errs, field.Forbidden(at.Child("values"), "have no meaning with operator "+string(e.Operator)))
		}
		return errs
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			return append(errs, field.Required(at.Child("values"), "one number with operator "+string(e.Operator)))
		}
		if _, err := strconv.ParseInt(e.Values[0], 10, 64); err != nil {
			errs = append(errs, field.Invalid(at.Child("values"), clipText(e.Values[0]), "is not a whole number"))
		}
	default:
		return append(errs, field.NotSupported(at.Child("operator"), corev1.NodeSelectorOperator(clipText(string(e.Operator))), []corev1.NodeSelectorOperator{
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
		}))
	}
	for i, v := range e.Values {
		if len(validation.IsValidLabelValue(v)) > 0 {
			errs = append(errs, field.Invalid(at.Child("values").Index(i), clipText(v), "is not the value of a label"))
		}
	}
	return errs
}
