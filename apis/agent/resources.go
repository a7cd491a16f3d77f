package agent

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// requests returns the resources of a temporary container with the given memory request. The limit is twice the
// request. Without a limit, the container would get the default limit of a LimitRange. The API server refuses a
// container whose limit is lower than its request.
func requests(memory string) corev1.ResourceRequirements {
	limit := resource.MustParse(memory)
	limit.Mul(2)
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)},
		Limits: corev1.ResourceList{corev1.ResourceMemory: limit},
	}
}

// ReadResources parses the resources that the platform sets. It returns nil if none are set, and an error for the
// first invalid amount.
func ReadResources(r *v1.Resources) (*corev1.ResourceRequirements, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // No resources are no error.
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

// A WrongAmount is an amount that is not a quantity.
type WrongAmount struct {
	Name corev1.ResourceName
	Err  error
}

// ReadAmounts parses the amounts of resources. It returns the valid amounts, and the invalid amounts sorted by name.
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

// setResources sets the platform's resources on the containers of a Job. A container that runs a server needs more
// memory. It therefore keeps its memory request, and gets only the platform's CPU. If the platform limits memory, it
// also gets a memory limit, because a quota may require one for each container.
func setResources(containers []corev1.Container, target *corev1.ResourceRequirements) {
	for i := range containers {
		c := &containers[i]
		switch {
		case target == nil:
		case c.Resources.Requests.Memory().String() == Memory:
			c.Resources = *target.DeepCopy()
		default:
			setProcessors(&c.Resources, target)
			limitMemory(&c.Resources, target)
		}
	}
}

// limitMemory sets the memory limit of a container that runs a server: the platform's limit, or twice the
// container's request if that is more.
func limitMemory(source, target *corev1.ResourceRequirements) {
	limit, isLimited := target.Limits[corev1.ResourceMemory]
	if !isLimited {
		return
	}
	least := source.Requests.Memory().DeepCopy()
	if least.Mul(2); least.Cmp(limit) > 0 {
		limit = least
	}
	if own := source.Limits.Memory(); own.Cmp(limit) > 0 {
		limit = *own
	}
	source.Limits = withAmount(source.Limits, corev1.ResourceMemory, limit)
}

// setProcessors sets the CPU of a container. If the platform sets only a limit, the request is removed, so that the
// API server sets it to the limit.
func setProcessors(source, target *corev1.ResourceRequirements) {
	limit, isLimited := target.Limits[corev1.ResourceCPU]
	request, isSaid := target.Requests[corev1.ResourceCPU]
	if isLimited {
		source.Limits = withAmount(source.Limits, corev1.ResourceCPU, limit)
		delete(source.Requests, corev1.ResourceCPU)
	}
	if isSaid {
		source.Requests = withAmount(source.Requests, corev1.ResourceCPU, request)
	}
}

// withAmount sets the amount of a resource in a list and returns the list. The list may be nil.
func withAmount(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = amount
	return list
}
