package agent

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// requests of a container that runs beside others for a while, with this much memory.
func requests(memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
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
// asks for more, and keeps that.
func setResources(containers []corev1.Container, to *corev1.ResourceRequirements) {
	for i := range containers {
		if c := &containers[i]; to != nil && c.Resources.Requests.Memory().String() == Memory {
			c.Resources = *to.DeepCopy()
		}
	}
}
