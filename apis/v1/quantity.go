package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What every quantity that we read is held against, as the schema of an Amount
// does too. The library calculates with the whole number: 1e-9999999 takes it
// seconds, one more digit minutes and gigabytes, and ten bytes in a claim would
// stop everybody's.
const (
	QuantityPattern   = `^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`
	MaxQuantityLength = 32
)

var quantityPattern = regexp.MustCompile(QuantityPattern)

// ParseQuantity is the one way to read a quantity that stands in a claim, an XR,
// a record or a Composition. One out of all proportion is an error before
// anything is calculated with it.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > MaxQuantityLength || !quantityPattern.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%.40q is not a quantity, or one out of all proportion: use a number with a unit, such as 1Gi or 0.5", text)
	}
	q, err := resource.ParseQuantity(text) //nolint:forbidigo // This is the guard that the others are sent to.
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%q is not a quantity: use a number with a unit, such as 1Gi or 0.5", text)
	}
	return q, nil
}

// StorageOf a volume's capacity or of what a PVC for one requests. One out of
// all proportion is none: whoever may edit a claim writes it, and the API server
// keeps it as it is.
func StorageOf(l corev1.ResourceList) (resource.Quantity, bool) {
	q, ok := l[corev1.ResourceStorage]
	if _, whole := q.AsInt64(); whole || !ok {
		return q, ok // A number of bytes needs no second look.
	}
	q, err := ParseQuantity(q.String())
	return q, err == nil
}

// An Amount of something that a node has, as it is written: a number, or a text
// such as 1Gi. Only ParseQuantity reads it.
type Amount string

// UnmarshalJSON keeps the text. What is neither a number nor a text is not a
// quantity, as who reads it says.
func (a *Amount) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(a))
	}
	*a = Amount(b)
	return nil
}

// Resources of a container, as they were written.
type Resources struct {
	// Limits are the most that the container gets, such as memory: 1Gi.
	// https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=20
	Limits map[corev1.ResourceName]Amount `json:"limits,omitempty"`

	// Requests are the least that the container gets. Without them they are the
	// limits.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=20
	Requests map[corev1.ResourceName]Amount `json:"requests,omitempty"`

	// Claims of resources. They are not supported.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Claims []corev1.ResourceClaim `json:"claims,omitempty"`
}
