package v1

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits for the size of a data volume, as quantities. The schema has the same limits.
const (
	MinStorageSize = "1Mi"
	MaxStorageSize = "1Ei"
)

// sizePattern matches a size. The schema has the same pattern.
var sizePattern = regexp.MustCompile(`^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$`)

// ParseSize parses the size of a data volume.
func ParseSize(text string) (resource.Quantity, error) {
	q, err := ParseQuantity(text)
	if err != nil || !sizePattern.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%.40q is not a quantity: use a number with a unit, such as 1Gi", text)
	}
	if q.Cmp(resource.MustParse(MinStorageSize)) < 0 || q.Cmp(resource.MustParse(MaxStorageSize)) > 0 {
		return resource.Quantity{}, fmt.Errorf("%s is outside the range from %s to %s", text, MinStorageSize, MaxStorageSize)
	}
	return q, nil
}

// SizeText returns a number of bytes as a quantity for users. It rounds up to whole Mi, or to whole Gi for sizes of
// 10Gi or more.
func SizeText(bytes int64) string {
	const mebi = 1 << 20
	inMebi := (bytes + mebi - 1) / mebi
	if inMebi < 10<<10 {
		return fmt.Sprintf("%dMi", inMebi)
	}
	return fmt.Sprintf("%dGi", (inMebi+1023)>>10)
}

// RoundedSize returns a quantity as SizeText does. A text that is not a quantity is returned unchanged.
func RoundedSize(text string) string {
	q, err := ParseQuantity(text)
	if err != nil {
		return text
	}
	return SizeText(q.Value())
}
