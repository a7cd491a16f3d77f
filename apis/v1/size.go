package v1

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Size limits of a data volume, as quantities. The schema has the same.
const (
	MinStorageSize = "1Mi"
	MaxStorageSize = "1Ei"
)

// sizePattern of a size; the schema has the same.
var sizePattern = regexp.MustCompile(`^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$`)

// ParseSize of a data volume.
func ParseSize(text string) (resource.Quantity, error) {
	q, err := ParseQuantity(text)
	if err != nil || !sizePattern.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%.40q is not a quantity: use a number with a unit, such as 1Gi", text)
	}
	if q.Cmp(resource.MustParse(MinStorageSize)) < 0 || q.Cmp(resource.MustParse(MaxStorageSize)) > 0 {
		return resource.Quantity{}, fmt.Errorf("%s is not from %s to %s", text, MinStorageSize, MaxStorageSize)
	}
	return q, nil
}
