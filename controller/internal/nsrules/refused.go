package nsrules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// enforceLabel of a namespace is its level of Pod Security (https://k8s.io/docs/concepts/security/pod-security-standards).
const enforceLabel = "pod-security.kubernetes.io/enforce"

// WhyRefused says what of the namespace would refuse the pod of a Job now, and what to change; empty if nothing does. What the server takes is free
// then, if it has stopped.
func (r *Rules) WhyRefused(pod *corev1.PodSpec, serverStops bool) string {
	admitted := r.admitted(pod)
	for i := range r.Ranges {
		for j := range r.Ranges[i].Spec.Limits {
			if why := refusedBy(&r.Ranges[i].Spec.Limits[j], admitted); why != "" {
				return fmt.Sprintf("LimitRange %s %s", r.Ranges[i].Name, why)
			}
		}
	}
	for i := range r.Quotas {
		if why := r.overQuota(&r.Quotas[i], admitted, serverStops); why != "" {
			return fmt.Sprintf("ResourceQuota %s %s", r.Quotas[i].Name, why)
		}
	}
	return r.insecure(admitted)
}

func refusedBy(item *corev1.LimitRangeItem, pod *corev1.PodSpec) string {
	switch item.Type {
	case corev1.LimitTypeContainer:
		for _, c := range containers(pod) {
			if why := outOfRange(item, "container "+c.Name, c.Resources.Requests, c.Resources.Limits); why != "" {
				return why
			}
		}
	case corev1.LimitTypePod:
		return outOfRange(item, "the pod", sums(pod, requestsOf), sums(pod, limitsOf))
	case corev1.LimitTypePersistentVolumeClaim:
		for _, asks := range volumes(pod) {
			if why := outOfRange(item, "a PersistentVolumeClaim", asks, asks); why != "" {
				return why
			}
		}
	}
	return ""
}

// volumes are the requests of those that are made for the pod alone.
func volumes(pod *corev1.PodSpec) []corev1.ResourceList {
	var out []corev1.ResourceList
	for i := range pod.Volumes {
		if e := pod.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			out = append(out, e.VolumeClaimTemplate.Spec.Resources.Requests)
		}
	}
	return out
}

func outOfRange(item *corev1.LimitRangeItem, who string, requests, limits corev1.ResourceList) string {
	for _, name := range append([]corev1.ResourceName{corev1.ResourceStorage}, computed...) {
		request, asks := requests[name]
		limit, isLimited := limits[name]
		most, hasMost := item.Max[name]
		least, hasLeast := item.Min[name]
		switch {
		case hasMost && (!isLimited && item.Type != corev1.LimitTypePersistentVolumeClaim || limit.Cmp(most) > 0):
			return fmt.Sprintf("allows at most %s of %s, and %s needs %s: raise its max", most.String(), name, who, atLeast(request, limit))
		case hasLeast && (!asks || request.Cmp(least) < 0):
			return fmt.Sprintf("requires at least %s of %s, and %s requests %s: lower its min", least.String(), name, who, request.String())
		case asks && isLimited && request.Cmp(limit) > 0:
			return fmt.Sprintf("limits %s of %s to %s, and it requests %s: raise its default", name, who, limit.String(), request.String())
		case exceeds(item.MaxLimitRequestRatio, name, request, limit):
			return fmt.Sprintf("allows a limit of %s at most %s times the request, and %s requests %s with a limit of %s: raise its maxLimitRequestRatio",
				name, new(item.MaxLimitRequestRatio[name]).String(), who, request.String(), limit.String())
		}
	}
	return ""
}

func atLeast(request, limit resource.Quantity) string {
	if limit.IsZero() {
		return request.String()
	}
	return limit.String()
}

func exceeds(ratios corev1.ResourceList, name corev1.ResourceName, request, limit resource.Quantity) bool {
	ratio, has := ratios[name]
	if !has {
		return false
	}
	return request.IsZero() || limit.IsZero() || limit.AsApproximateFloat64()/request.AsApproximateFloat64() > ratio.AsApproximateFloat64()*1.0001
}

// overQuota says what of a quota is too little; empty if it is enough.
func (r *Rules) overQuota(q *corev1.ResourceQuota, pod *corev1.PodSpec, serverStops bool) string {
	if !counts(q) {
		return ""
	}
	needs, free := needsOf(pod), corev1.ResourceList{}
	if serverStops && r.Server != nil {
		free = needsOf(r.admitted(r.Server))
		delete(free, "count/jobs.batch")
	}
	for name, hard := range q.Spec.Hard {
		if who := unsaid(pod, name); who != "" {
			return fmt.Sprintf("counts %s, and container %s does not say how much it takes: set jobResources of the platform, or a LimitRange with defaults", name, who)
		}
		need, isCounted := needs[name]
		if !isCounted || need.IsZero() {
			continue
		}
		used := q.Status.Used[name].DeepCopy()
		used.Sub(free[name])
		if used.Sign() < 0 {
			used = resource.Quantity{}
		}
		sum := used.DeepCopy()
		if sum.Add(need); sum.Cmp(hard) > 0 {
			return fmt.Sprintf("allows %s of %s, of which %s is taken by others, and %s more is needed: raise it", hard.String(), name, used.String(), need.String())
		}
	}
	return ""
}

// counts reports whether a quota is for all pods, or for those of Jobs without a deadline. Others are for priority classes and the like.
func counts(q *corev1.ResourceQuota) bool {
	for _, scope := range q.Spec.Scopes {
		if scope != corev1.ResourceQuotaScopeNotTerminating && scope != corev1.ResourceQuotaScopeNotBestEffort {
			return false
		}
	}
	return q.Spec.ScopeSelector == nil
}

// needsOf a pod and its Job, by the names of quotas.
func needsOf(pod *corev1.PodSpec) corev1.ResourceList {
	one := resource.MustParse("1")
	out := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one, "count/jobs.batch": one}
	for name, q := range sums(pod, requestsOf) {
		out[name], out[corev1.DefaultResourceRequestsPrefix+name] = q, q
	}
	for name, q := range sums(pod, limitsOf) {
		out["limits."+name] = q
	}
	for _, asks := range volumes(pod) {
		for name, q := range map[corev1.ResourceName]resource.Quantity{corev1.ResourcePersistentVolumeClaims: one, "count/persistentvolumeclaims": one, corev1.ResourceRequestsStorage: asks[corev1.ResourceStorage]} {
			sum := out[name]
			sum.Add(q)
			out[name] = sum
		}
	}
	return out
}

// unsaid is a container that says nothing of what a quota counts, which each has to (pkg/quota/v1/evaluator/core/pods.go); empty if all do.
func unsaid(pod *corev1.PodSpec, counted corev1.ResourceName) string {
	text := string(counted)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		switch text {
		case string(name), "requests." + string(name):
			return lacks(pod, name, requestsOf)
		case "limits." + string(name):
			return lacks(pod, name, limitsOf)
		}
	}
	return ""
}

// insecure says that the namespace takes no pod with root, as those are which handle a folder of a node.
func (r *Rules) insecure(pod *corev1.PodSpec) string {
	if r.Namespace == nil || !strings.EqualFold(r.Namespace.Labels[enforceLabel], "restricted") {
		return ""
	}
	if s := pod.SecurityContext; s != nil && s.RunAsNonRoot != nil && *s.RunAsNonRoot {
		return ""
	}
	return fmt.Sprintf("the label %s of the namespace is restricted, and data in a folder of a node is backed up by root: set it to baseline", enforceLabel)
}
