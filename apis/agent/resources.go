package agent

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// requests of a container that runs beside others for a while, with this much memory. It may take twice as much: without a limit it would get the
// default one of a LimitRange, and a pod whose limit is below its request is refused.
func requests(memory string) corev1.ResourceRequirements {
	limit := resource.MustParse(memory)
	limit.Mul(2)
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: limit},
	}
}

// ReadResources that a platform wrote down, or the first thing that is wrong with them; nil
// where it wrote none.
func ReadResources(r *v1.Resources) (*corev1.ResourceRequirements, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // There are none, and that is no error.
	}
	limits, wrong := ReadAmounts(r.Limits)
	if len(wrong) > 0 {
		return nil, fmt.Errorf("limits[%s]: %w", wrong[0].Name, wrong[0].Err)
	}
	requests, wrong := ReadAmounts(r.Requests)
	if len(wrong) > 0 {
		return nil, fmt.Errorf("requests[%s]: %w", wrong[0].Name, wrong[0].Err)
	}
	return &corev1.ResourceRequirements{Limits: limits, Requests: requests, Claims: r.Claims}, nil
}

// A WrongAmount is no quantity.
type WrongAmount struct {
	Name corev1.ResourceName
	Err  error
}

// ReadAmounts by the names of their resources, and those that are none, in the order of
// their names.
func ReadAmounts(amounts map[corev1.ResourceName]v1.Amount) (corev1.ResourceList, []WrongAmount) {
	var wrong []WrongAmount
	out := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		q, err := v1.ParseQuantity(string(amounts[name]))
		if err != nil {
			wrong = append(wrong, WrongAmount{name, err})
			continue
		}
		out[name] = q
	}
	return out, wrong
}

// setResources of the containers that ask for what is usual in a Job. One that runs a server
// needs more memory, and keeps that; its processors are the platform's to say. Where that limits memory, as the quota of a namespace
// may want of each container, it is limited, too.
func setResources(containers []corev1.Container, to *corev1.ResourceRequirements) {
	for i := range containers {
		c := &containers[i]
		switch {
		case to == nil:
		case c.Resources.Requests.Memory().String() == Memory:
			c.Resources = *to.DeepCopy()
		default:
			setProcessors(&c.Resources, to)
			limitMemory(&c.Resources, to)
		}
	}
}

// limitMemory of a container that runs a server to what the platform says of all, or twice what it asks for, if that is more.
func limitMemory(of, to *corev1.ResourceRequirements) {
	limit, isLimited := to.Limits[corev1.ResourceMemory]
	if !isLimited {
		return
	}
	least := of.Requests.Memory().DeepCopy()
	if least.Mul(2); least.Cmp(limit) > 0 {
		limit = least
	}
	if own := of.Limits.Memory(); own.Cmp(limit) > 0 {
		limit = *own
	}
	of.Limits = withAmount(of.Limits, corev1.ResourceMemory, limit)
}

// setProcessors of a container, whatever else it has. One that is kept to a limit asks for as much, if nothing else is said, as
// the API server has it.
func setProcessors(of, to *corev1.ResourceRequirements) {
	limit, isLimited := to.Limits[corev1.ResourceCPU]
	request, isSaid := to.Requests[corev1.ResourceCPU]
	if isLimited {
		of.Limits = withAmount(of.Limits, corev1.ResourceCPU, limit)
		delete(of.Requests, corev1.ResourceCPU)
	}
	if isSaid {
		of.Requests = withAmount(of.Requests, corev1.ResourceCPU, request)
	}
}

// withAmount of a resource; the list may be nil.
func withAmount(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = amount
	return list
}
