package nsrules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// enforceLabel is the label with the namespace's Pod Security level
// (https://k8s.io/docs/concepts/security/pod-security-standards).
const enforceLabel = "pod-security.kubernetes.io/enforce"

// WhyRefused returns why the namespace would currently refuse a Job's pod, and how to fix it, or "". If the server
// stops first, its resources are treated as free.
func (r *Rules) WhyRefused(pod *corev1.PodSpec, serverStops bool) string {
	admitted := r.admitted(pod)
	for i := range r.Ranges {
		for j := range r.Ranges[i].Spec.Limits {
			if reason := refusedBy(&r.Ranges[i].Spec.Limits[j], admitted); reason != "" {
				return fmt.Sprintf("LimitRange %s %s", r.Ranges[i].Name, reason)
			}
		}
	}
	for i := range r.Quotas {
		if reason := r.overQuota(&r.Quotas[i], admitted, serverStops); reason != "" {
			return fmt.Sprintf("ResourceQuota %s %s", r.Quotas[i].Name, reason)
		}
	}
	return r.insecure(admitted)
}

func refusedBy(item *corev1.LimitRangeItem, pod *corev1.PodSpec) string {
	switch item.Type {
	case corev1.LimitTypeContainer:
		for _, c := range containers(pod) {
			if reason := outOfRange(item, "container "+c.Name, c.Resources.Requests, c.Resources.Limits); reason != "" {
				return reason
			}
		}
	case corev1.LimitTypePod:
		return outOfRange(item, "the pod", sums(pod, requestsOf), sums(pod, limitsOf))
	case corev1.LimitTypePersistentVolumeClaim:
		for _, asks := range volumes(pod) {
			if reason := outOfRange(item, "a PersistentVolumeClaim", asks, asks); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// volumes returns the storage requests of the PVCs that the pod's generic ephemeral volumes create.
func volumes(pod *corev1.PodSpec) []corev1.ResourceList {
	var out []corev1.ResourceList
	for i := range pod.Volumes {
		if e := pod.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			out = append(out, e.VolumeClaimTemplate.Spec.Resources.Requests)
		}
	}
	return out
}

func outOfRange(item *corev1.LimitRangeItem, subject string, requests, limits corev1.ResourceList) string {
	for _, name := range append([]corev1.ResourceName{corev1.ResourceStorage}, computed...) {
		request, asks := requests[name]
		limit, isLimited := limits[name]
		most, hasMost := item.Max[name]
		least, hasLeast := item.Min[name]
		switch {
		case hasMost && (!isLimited && item.Type != corev1.LimitTypePersistentVolumeClaim || limit.Cmp(most) > 0):
			return fmt.Sprintf("allows at most %s of %s, but %s needs %s: raise its max", most.String(), name, subject,
				atLeast(request, limit))
		case hasLeast && (!asks || request.Cmp(least) < 0):
			return fmt.Sprintf("requires at least %s of %s, but %s requests %s: lower its min", least.String(), name, subject,
				request.String())
		case asks && isLimited && request.Cmp(limit) > 0:
			return fmt.Sprintf("limits %s of %s to %s, but it requests %s: raise its default", name, subject, limit.String(),
				request.String())
		case exceeds(item.MaxLimitRequestRatio, name, request, limit):
			return fmt.Sprintf("allows a limit of %s of at most %s times the request, but %s requests %s with a limit of "+
				"%s: raise its maxLimitRequestRatio",
				name, new(item.MaxLimitRequestRatio[name]).String(), subject, request.String(), limit.String())
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
	ratio, ok := ratios[name]
	if !ok {
		return false
	}
	return request.IsZero() || limit.IsZero() ||
		limit.AsApproximateFloat64()/request.AsApproximateFloat64() > ratio.AsApproximateFloat64()*1.0001
}

// overQuota returns which resource of the pod exceeds the quota, or "" if none does.
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
		if subject := unsaid(pod, name); subject != "" {
			return fmt.Sprintf("limits %s, but container %s does not set it: set jobResources of the platform, or "+
				"create a LimitRange with defaults", name, subject)
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
			return fmt.Sprintf("allows %s of %s, of which %s is used, but %s more is needed: raise it", hard.String(),
				name, used.String(), need.String())
		}
	}
	return ""
}

// counts reports whether a quota applies to the pods of Jobs: it has no scope, or only scopes that include pods
// without a deadline. Other quotas have scopes such as priority classes.
func counts(q *corev1.ResourceQuota) bool {
	for _, scope := range q.Spec.Scopes {
		if scope != corev1.ResourceQuotaScopeNotTerminating && scope != corev1.ResourceQuotaScopeNotBestEffort {
			return false
		}
	}
	return q.Spec.ScopeSelector == nil
}

// needsOf returns the resources of a pod and its Job, under the names that quotas use.
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
		for name, q := range map[corev1.ResourceName]resource.Quantity{corev1.ResourcePersistentVolumeClaims: one,
			"count/persistentvolumeclaims": one, corev1.ResourceRequestsStorage: asks[corev1.ResourceStorage]} {
			sum := out[name]
			sum.Add(q)
			out[name] = sum
		}
	}
	return out
}

// unsaid returns the first container that does not set a resource that a quota limits, or "". Each container must set
// it (pkg/quota/v1/evaluator/core/pods.go).
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

// insecure returns why the namespace refuses a pod that runs as root, or "". A pod runs as root if it accesses a
// directory on a node.
func (r *Rules) insecure(pod *corev1.PodSpec) string {
	if r.Namespace == nil || !strings.EqualFold(r.Namespace.Labels[enforceLabel], "restricted") {
		return ""
	}
	if s := pod.SecurityContext; s != nil && s.RunAsNonRoot != nil && *s.RunAsNonRoot {
		return ""
	}
	return fmt.Sprintf("the label %s of the namespace is set to restricted, but hostPath data is backed up as "+
		"root: set it to baseline", enforceLabel)
}
