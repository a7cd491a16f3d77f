// Package nsrules checks pods against the rules of a namespace: its LimitRanges, its ResourceQuotas and its Pod
// Security level. It adapts the controller's pods as far as possible. If a pod would still be refused, it reports
// this early, while the user can still change the rules.
package nsrules

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Rules are the LimitRanges, the ResourceQuotas and the Pod Security level of a namespace.
type Rules struct {
	Namespace *corev1.Namespace
	Ranges    []corev1.LimitRange
	Quotas    []corev1.ResourceQuota
	// Server is the pod of the instance's server, which is stopped during the final backup. It is nil if there is no
	// server.
	Server *corev1.PodSpec
}

// computed are the resources for which a LimitRange can have defaults.
var computed = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// Fit adapts the resources of a pod's containers to the LimitRanges. It sets a limit if the default would be lower
// than the request. It raises a request that is too low. It lowers a limit that is too high, but not below the
// request.
func (r *Rules) Fit(pod *corev1.PodSpec) {
	if r == nil {
		return
	}
	for _, item := range r.items(corev1.LimitTypeContainer) {
		for _, c := range containers(pod) {
			for _, name := range computed {
				fit(&c.Resources, name, &item)
			}
		}
	}
}

// items returns the items of a type in all LimitRanges.
func (r *Rules) items(limitType corev1.LimitType) []corev1.LimitRangeItem {
	var out []corev1.LimitRangeItem
	for i := range r.Ranges {
		for _, item := range r.Ranges[i].Spec.Limits {
			if item.Type == limitType {
				out = append(out, item)
			}
		}
	}
	return out
}

// containers returns the containers of a pod, init containers first.
func containers(pod *corev1.PodSpec) []*corev1.Container {
	out := make([]*corev1.Container, 0, len(pod.InitContainers)+len(pod.Containers))
	for i := range pod.InitContainers {
		out = append(out, &pod.InitContainers[i])
	}
	for i := range pod.Containers {
		out = append(out, &pod.Containers[i])
	}
	return out
}

func fit(resources *corev1.ResourceRequirements, name corev1.ResourceName, item *corev1.LimitRangeItem) {
	request, asks := resources.Requests[name]
	limit, isLimited := resources.Limits[name]
	if !asks && !isLimited {
		return // The LimitRange sets consistent defaults for both.
	}
	if least, ok := item.Min[name]; ok && asks && request.Cmp(least) < 0 {
		request = least
	}
	if usual, ok := usualLimit(item, name); ok && !isLimited && usual.Cmp(request) < 0 {
		limit, isLimited = request.DeepCopy(), true
		limit.Mul(moreThanRequested(name))
	}
	if most, ok := item.Max[name]; ok && isLimited && limit.Cmp(most) > 0 && request.Cmp(most) <= 0 {
		limit = most
	}
	if isLimited && limit.Cmp(request) < 0 {
		limit = request
	}
	if ratio, ok := item.MaxLimitRequestRatio[name]; ok && asks {
		if usual, ok := usualLimit(item, name); ok && !isLimited {
			limit, isLimited = usual, true
		}
		request = raisedTo(request, limit, ratio, name)
		if !isLimited {
			limit, isLimited = request, true // If the LimitRange has a maximum ratio, it requires a limit.
		}
	}
	if asks {
		resources.Requests = with(resources.Requests, name, request)
	}
	if isLimited {
		resources.Limits = with(resources.Limits, name, limit)
	}
}

// moreThanRequested returns the ratio of a container's limit to its request. It is high for CPU, because a container
// with too little CPU is only slow. A container with too little memory fails.
func moreThanRequested(name corev1.ResourceName) int64 {
	if name == corev1.ResourceCPU {
		return 10
	}
	return 2
}

// raisedTo returns the request, raised to the minimum that the ratio requires for this limit.
func raisedTo(request, limit, ratio resource.Quantity, name corev1.ResourceName) resource.Quantity {
	if ratio.MilliValue() <= 0 || limit.IsZero() {
		return request
	}
	if name == corev1.ResourceCPU {
		if least := resource.NewMilliQuantity((limit.MilliValue()*1000+ratio.MilliValue()-1)/ratio.MilliValue(),
			request.Format); request.Cmp(*least) < 0 {
			return *least
		}
		return request
	}
	// The division comes first, because the product could overflow.
	if least := resource.NewQuantity(limit.Value()/ratio.MilliValue()*1000+1000,
		resource.BinarySI); request.Cmp(*least) < 0 {
		return minOf(*least, limit)
	}
	return request
}

func minOf(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// usualLimit returns the limit that the API server sets for a container without one: the default, or the maximum if
// there is no default (SetDefaults_LimitRangeItem of Kubernetes).
func usualLimit(item *corev1.LimitRangeItem, name corev1.ResourceName) (resource.Quantity, bool) {
	if usual, ok := item.Default[name]; ok {
		return usual, true
	}
	most, ok := item.Max[name]
	return most, ok
}

// usualRequest returns the request that the API server sets for a container without one.
func usualRequest(item *corev1.LimitRangeItem, name corev1.ResourceName) (resource.Quantity, bool) {
	if usual, ok := item.DefaultRequest[name]; ok {
		return usual, true
	}
	if usual, ok := usualLimit(item, name); ok {
		return usual, true
	}
	least, ok := item.Min[name]
	return least, ok
}

// with returns a copy of a resource list in which the given resource has the given amount.
func with(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, list)
	out[name] = amount
	return out
}

// admitted returns a pod with the defaults that the API server would set in this namespace.
func (r *Rules) admitted(pod *corev1.PodSpec) *corev1.PodSpec {
	out := pod.DeepCopy()
	for _, c := range containers(out) {
		for name, limit := range c.Resources.Limits {
			if _, asks := c.Resources.Requests[name]; !asks {
				c.Resources.Requests = with(c.Resources.Requests, name, limit)
			}
		}
		for _, item := range r.items(corev1.LimitTypeContainer) {
			for _, name := range computed {
				setUsual(&c.Resources, name, &item)
			}
		}
	}
	return out
}

func setUsual(resources *corev1.ResourceRequirements, name corev1.ResourceName, item *corev1.LimitRangeItem) {
	if usual, ok := usualLimit(item, name); ok {
		if _, isLimited := resources.Limits[name]; !isLimited {
			resources.Limits = with(resources.Limits, name, usual)
		}
	}
	if usual, ok := usualRequest(item, name); ok {
		if _, asks := resources.Requests[name]; !asks {
			resources.Requests = with(resources.Requests, name, usual)
		}
	}
}

// sums returns the resources of a pod: the sum of its containers, or the largest init container if that is more.
func sums(pod *corev1.PodSpec, amounts func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := range pod.Containers {
		for name, q := range amounts(&pod.Containers[i].Resources) {
			sum := out[name]
			sum.Add(q)
			out[name] = sum
		}
	}
	for i := range pod.InitContainers {
		for name, q := range amounts(&pod.InitContainers[i].Resources) {
			if sum := out[name]; sum.Cmp(q) < 0 {
				out[name] = q
			}
		}
	}
	return out
}

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

// lacks returns the name of the first container that does not set a resource, or "".
func lacks(pod *corev1.PodSpec, name corev1.ResourceName,
	amounts func(*corev1.ResourceRequirements) corev1.ResourceList) string {
	all := containers(pod)
	i := slices.IndexFunc(all, func(c *corev1.Container) bool { _, says := amounts(&c.Resources)[name]; return !says })
	if i < 0 {
		return ""
	}
	return all[i].Name
}
