// Package nsrules knows what a namespace lets pods ask for: its LimitRanges, its ResourceQuotas and its level of Pod Security. What the controller
// runs there is fitted to them as far as it can be, and what they refuse is said while there is time to change it.
package nsrules

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Rules of a namespace.
type Rules struct {
	Namespace *corev1.Namespace
	Ranges    []corev1.LimitRange
	Quotas    []corev1.ResourceQuota
	// Server is the pod of the instance's server, which has stopped when the final backup runs; nil where there is none.
	Server *corev1.PodSpec
}

// computed are the resources of which a LimitRange has defaults.
var computed = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// Fit what the containers of a pod ask for to the LimitRanges: a limit that would be set by default below what is requested is set here, a request
// that is too small is raised, and a limit that is too large is lowered as far as the request.
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

// items of a type of the LimitRanges.
func (r *Rules) items(of corev1.LimitType) []corev1.LimitRangeItem {
	var out []corev1.LimitRangeItem
	for i := range r.Ranges {
		for _, item := range r.Ranges[i].Spec.Limits {
			if item.Type == of {
				out = append(out, item)
			}
		}
	}
	return out
}

// containers of a pod, those that run before others first.
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

func fit(of *corev1.ResourceRequirements, name corev1.ResourceName, item *corev1.LimitRangeItem) {
	request, asks := of.Requests[name]
	limit, isLimited := of.Limits[name]
	if !asks && !isLimited {
		return // Both are set by default, and agree.
	}
	if least, has := item.Min[name]; has && asks && request.Cmp(least) < 0 {
		request = least
	}
	if usual, has := usualLimit(item, name); has && !isLimited && usual.Cmp(request) < 0 {
		limit, isLimited = request.DeepCopy(), true
		limit.Mul(moreThanRequested(name))
	}
	if most, has := item.Max[name]; has && isLimited && limit.Cmp(most) > 0 && request.Cmp(most) <= 0 {
		limit = most
	}
	if isLimited && limit.Cmp(request) < 0 {
		limit = request
	}
	if ratio, has := item.MaxLimitRequestRatio[name]; has && asks {
		if usual, has := usualLimit(item, name); has && !isLimited {
			limit, isLimited = usual, true
		}
		request = raisedTo(request, limit, ratio, name)
		if !isLimited {
			limit, isLimited = request, true // It has to have one.
		}
	}
	if asks {
		of.Requests = with(of.Requests, name, request)
	}
	if isLimited {
		of.Limits = with(of.Limits, name, limit)
	}
}

// moreThanRequested is how many times its request a container may take. One with too few processors takes long, and one with too little memory fails.
func moreThanRequested(name corev1.ResourceName) int64 {
	if name == corev1.ResourceCPU {
		return 10
	}
	return 2
}

// raisedTo what a limit allows to be requested at least.
func raisedTo(request, limit, ratio resource.Quantity, name corev1.ResourceName) resource.Quantity {
	if ratio.MilliValue() <= 0 || limit.IsZero() {
		return request
	}
	if name == corev1.ResourceCPU {
		if least := resource.NewMilliQuantity((limit.MilliValue()*1000+ratio.MilliValue()-1)/ratio.MilliValue(), request.Format); request.Cmp(*least) < 0 {
			return *least
		}
		return request
	}
	// Divided first: a thousand times some memory is more than a number holds.
	if least := resource.NewQuantity(limit.Value()/ratio.MilliValue()*1000+1000, resource.BinarySI); request.Cmp(*least) < 0 {
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

// usualLimit of a container that has none: the default, or the maximum where there is no default (SetDefaults_LimitRangeItem of Kubernetes).
func usualLimit(item *corev1.LimitRangeItem, name corev1.ResourceName) (resource.Quantity, bool) {
	if usual, has := item.Default[name]; has {
		return usual, true
	}
	most, has := item.Max[name]
	return most, has
}

// usualRequest of a container that has none.
func usualRequest(item *corev1.LimitRangeItem, name corev1.ResourceName) (resource.Quantity, bool) {
	if usual, has := item.DefaultRequest[name]; has {
		return usual, true
	}
	if usual, has := usualLimit(item, name); has {
		return usual, true
	}
	least, has := item.Min[name]
	return least, has
}

// with an amount of a resource. The list of others is left as it is.
func with(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, list)
	out[name] = amount
	return out
}

// admitted is a pod with what the API server sets by default in this namespace.
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

func setUsual(of *corev1.ResourceRequirements, name corev1.ResourceName, item *corev1.LimitRangeItem) {
	if usual, has := usualLimit(item, name); has {
		if _, isLimited := of.Limits[name]; !isLimited {
			of.Limits = with(of.Limits, name, usual)
		}
	}
	if usual, has := usualRequest(item, name); has {
		if _, asks := of.Requests[name]; !asks {
			of.Requests = with(of.Requests, name, usual)
		}
	}
}

// sums of a pod: what its containers ask for together, or one that runs before them alone.
func sums(pod *corev1.PodSpec, of func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := range pod.Containers {
		for name, q := range of(&pod.Containers[i].Resources) {
			sum := out[name]
			sum.Add(q)
			out[name] = sum
		}
	}
	for i := range pod.InitContainers {
		for name, q := range of(&pod.InitContainers[i].Resources) {
			if sum := out[name]; sum.Cmp(q) < 0 {
				out[name] = q
			}
		}
	}
	return out
}

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

// lacks is the first container that does not say how much of a resource it takes; empty if all do.
func lacks(pod *corev1.PodSpec, name corev1.ResourceName, of func(*corev1.ResourceRequirements) corev1.ResourceList) string {
	all := containers(pod)
	i := slices.IndexFunc(all, func(c *corev1.Container) bool { _, says := of(&c.Resources)[name]; return !says })
	if i < 0 {
		return ""
	}
	return all[i].Name
}
