package v1

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A StorageAutogrow specifies when the data volume grows by itself.
type StorageAutogrow struct {
	// Below is the free space at which the volume grows, in percent of its file system, from 1% to 90%. The default is
	// 15%.
	//
	// +optional
	// +kubebuilder:default="15%"
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9]|[1-8][0-9]|90)%$')",message="below must be a percentage from 1% to 90%, such as 15%"
	Below string `json:"below,omitempty"`

	// By is the size by which the volume grows each time. It is a percentage of the volume, from 1% to 100%, or a
	// quantity such as 10Gi. The new size is rounded up to whole Gi. The default is 20%.
	//
	// +optional
	// +kubebuilder:default="20%"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9]|[1-9][0-9]|100)%$') || self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="by must be a percentage from 1% to 100%, or a quantity from 1Mi to 1Ei, such as 10Gi"
	By string `json:"by,omitempty"`

	// To is the size up to which the volume grows, such as 100Gi. It must be at least storageSize. The platform can set a
	// lower maximum (maxStorageSize).
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="to must be a quantity from 1Mi to 1Ei, such as 100Gi"
	To string `json:"to"`
}

// Defaults of a StorageAutogrow. The schema has the same defaults.
const (
	DefaultGrowBelow = "15%"
	DefaultGrowBy    = "20%"
)

// WithDefaults returns a copy with defaults for the fields that are not set.
func (g *StorageAutogrow) WithDefaults() StorageAutogrow {
	out := *g
	out.Below, out.By = cmp.Or(g.Below, DefaultGrowBelow), cmp.Or(g.By, DefaultGrowBy)
	return out
}

// A GrowthRule is a validated StorageAutogrow.
//
// +kubebuilder:object:generate=false
type GrowthRule struct {
	// Below is the free space at which the volume grows, in percent.
	Below int64
	// ByPercent is the size by which the volume grows at a time, in percent of its size. It is 0 if By is set.
	ByPercent int64
	// By is the size by which the volume grows at a time, and To is its maximum size, both in bytes.
	By, To int64
}

// percentPattern matches a percentage. The schema has stricter patterns.
var percentPattern = regexp.MustCompile(`^[1-9][0-9]{0,2}%$`)

// parsePercent parses a percentage from 1% to the maximum.
func parsePercent(text string, most int64) (int64, bool) {
	if !percentPattern.MatchString(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	return n, err == nil && n <= most
}

// Limits of the percentages in a StorageAutogrow.
const (
	mostGrowBelow = 90
	mostGrowBy    = 100
)

// ParseBelow returns the free space at which the volume grows, in percent.
func (g *StorageAutogrow) ParseBelow() (int64, error) {
	n, ok := parsePercent(g.WithDefaults().Below, mostGrowBelow)
	if !ok {
		return 0, fmt.Errorf("must be a percentage from 1%% to %d%%, such as %s", mostGrowBelow, DefaultGrowBelow)
	}
	return n, nil
}

// ParseBy returns the size by which the volume grows at a time, in percent of the volume or in bytes. One of them is 0.
func (g *StorageAutogrow) ParseBy() (percent, bytes int64, err error) {
	text := g.WithDefaults().By
	if n, ok := parsePercent(text, mostGrowBy); ok {
		return n, 0, nil
	}
	q, err := ParseSize(text)
	if err != nil {
		return 0, 0, fmt.Errorf("must be a percentage from 1%% to %d%%, or a quantity from %s to %s, such as 10Gi", mostGrowBy,
			MinStorageSize, MaxStorageSize)
	}
	return 0, q.Value(), nil
}

// Parse returns the rule, or an error that names the first invalid field.
func (g *StorageAutogrow) Parse() (GrowthRule, error) {
	below, err := g.ParseBelow()
	if err != nil {
		return GrowthRule{}, fmt.Errorf("below %w", err)
	}
	out := GrowthRule{Below: below}
	if out.ByPercent, out.By, err = g.ParseBy(); err != nil {
		return GrowthRule{}, fmt.Errorf("by %w", err)
	}
	limit, err := ParseSize(g.To)
	if err != nil {
		return GrowthRule{}, fmt.Errorf("to: %w", err)
	}
	out.To = limit.Value()
	return out, nil
}

// gibi is the number of bytes in 1Gi.
const gibi = 1 << 30

// NextSize returns the size in bytes to which a volume grows in one step. It is larger than the current size, rounded
// up to whole Gi, and at most the limit. It is 0 if the volume already has the limit.
func (r GrowthRule) NextSize(current, limit int64) int64 {
	if current >= limit {
		return 0
	}
	step := r.By
	if r.ByPercent > 0 {
		step = max(current/100*r.ByPercent, 1)
	}
	if step > math.MaxInt64-gibi-current {
		return limit
	}
	return min((current+step+gibi-1)/gibi*gibi, limit)
}

// LargerSize returns the larger of two sizes of a data volume. It ignores a size that cannot be read.
func LargerSize(a, b string) string {
	first, errA := ParseSize(a)
	second, errB := ParseSize(b)
	if errB == nil && (errA != nil || second.Cmp(first) > 0) {
		return b
	}
	return a
}

// GrownSize returns the size to which the controller has grown the data volume, or zero.
func (s *InternalStatus) GrownSize() resource.Quantity {
	if s.StorageGrowth == nil {
		return resource.Quantity{}
	}
	q, _ := ParseSize(s.StorageGrowth.Size) // A size that cannot be read is ignored.
	return q
}

// VolumeSize returns the size that the data volume must have: the size in the spec, or the size to which the controller
// has grown it if that is larger.
func (s *InternalStatus) VolumeSize(spec *MySQLSpec) string {
	size, _ := spec.Size()
	if s.StorageGrowth == nil {
		return size
	}
	return LargerSize(size, s.StorageGrowth.Size)
}
