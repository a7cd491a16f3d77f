package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits for every quantity that the product parses. The schema of an Amount has the same limits. The Kubernetes
// library calculates with the complete number: 1e-9999999 takes seconds, and one more digit takes minutes and
// gigabytes. Without the limits, ten bytes in one claim would stop all instances.
const (
	QuantityPattern   = `^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`
	MaxQuantityLength = 32
)

var quantityPattern = regexp.MustCompile(QuantityPattern)

// ParseQuantity parses a quantity from a claim, a composite resource, a BackupRecord or a Composition. All code must
// use it, because it refuses extreme quantities before it calculates with them.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > MaxQuantityLength || !quantityPattern.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf(
			"%.40q is not a quantity, or is too large or too precise: use a number with a unit, such as 1Gi or 0.5", text)
	}
	q, err := resource.ParseQuantity(text) //nolint:forbidigo // This function is the guard that all other code must use.
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%q is not a quantity: use a number with a unit, such as 1Gi or 0.5", text)
	}
	return q, nil
}

// StorageOf returns the capacity of a volume, or the request of a PersistentVolumeClaim. It returns false for an
// extreme quantity, because users can set one in a PersistentVolumeClaim and the API server stores it.
func StorageOf(l corev1.ResourceList) (resource.Quantity, bool) {
	q, ok := l[corev1.ResourceStorage]
	if _, whole := q.AsInt64(); whole || !ok {
		return q, ok // A quantity that fits into a number of bytes is never extreme.
	}
	q, err := ParseQuantity(q.String())
	return q, err == nil
}

// An Amount is a quantity of a resource as it was written: a number, or a string such as 1Gi. Only ParseQuantity parses
// it.
type Amount string

// UnmarshalJSON stores the amount unchanged. If it is not a quantity, ParseQuantity reports an error later.
func (a *Amount) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(a))
	}
	*a = Amount(b)
	return nil
}

// Resources are the compute resources of a container, as they were written.
type Resources struct {
	// Limits are the maximum resources that the container can use, such as memory: 1Gi. See
	// https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=20
	Limits map[corev1.ResourceName]Amount `json:"limits,omitempty"`

	// Requests are the minimum resources that the container needs. If unset, they equal the limits.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=20
	Requests map[corev1.ResourceName]Amount `json:"requests,omitempty"`

	// Claims of resources are not supported.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Claims []corev1.ResourceClaim `json:"claims,omitempty"`
}
