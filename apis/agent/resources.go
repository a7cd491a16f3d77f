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

// ReadResources that a platform wrote down; nil where it wrote none.
func ReadResources(r *v1.Resources) (*corev1.ResourceRequirements, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // There are none, and that is no error.
	}
	limits, err := readAmounts("limits", r.Limits)
	if err != nil {
		return nil, err
	}
	requests, err := readAmounts("requests", r.Requests)
	if err != nil {
		return nil, err
	}
	return &corev1.ResourceRequirements{Limits: limits, Requests: requests, Claims: r.Claims}, nil
}

func readAmounts(of string, amounts map[corev1.ResourceName]v1.Amount) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(amounts)) { // The first that is wrong is always the same.
		q, err := v1.ParseQuantity(string(amounts[name]))
		if err != nil {
			return nil, fmt.Errorf("%s[%s]: %w", of, name, err)
		}
		out[name] = q
	}
	return out, nil
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
