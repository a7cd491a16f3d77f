package compose

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// usualResources returns the default resources of a server. With a memory request, the server is not among the first
// pods that are evicted when the node runs out of memory. With a limit, it cannot use the memory of other pods. An
// idle MySQL 9.7 needs 360 MiB in addition to its buffer pool. mongod's cache is half of the limit minus 1 GiB, but at
// least 256 MiB.
func usualResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"),
			corev1.ResourceMemory: resource.MustParse("512Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
}

// defaultResources returns the resources of a server whose claim sets none. They come from the Composition, the
// Platform, or else the product's defaults. The product's defaults are reduced to the Platform's maximum, so that a
// claim without resources is not refused.
func defaultResources(ofComposition, ofPlatform *v1.Resources, most corev1.ResourceList) (corev1.ResourceRequirements,
	error) {
	out, err := platformResources("the Composition's input", "defaultResources", ofComposition)
	if out == nil && err == nil {
		out, err = platformResources(v1.KindPlatform+" "+v1.PlatformName, "spec.defaultResources", ofPlatform)
	}
	if out != nil || err != nil {
		return valueOrZero(out), err
	}
	usual := usualResources()
	for _, amounts := range []corev1.ResourceList{usual.Requests, usual.Limits} {
		for name, amount := range amounts {
			if limit, ok := most[name]; ok && amount.Cmp(limit) > 0 {
				amounts[name] = limit
			}
		}
	}
	return usual, nil
}

func valueOrZero[T any](p *T) (out T) {
	if p != nil {
		out = *p
	}
	return out
}

// noResourceClaims is the error message if a spec contains resource claims.
const noResourceClaims = "resource claims are not supported. Remove them"

// resolveResources returns the resources in the spec, or the defaults if the spec has none.
func resolveResources(r *v1.Resources, defaults corev1.ResourceRequirements,
	path *field.Path) (corev1.ResourceRequirements, field.ErrorList) {
	if r == nil {
		return defaults, nil
	}
	out, errs := quantities(path, r)
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("claims"), noResourceClaims))
	}
	errs = append(errs, checkAmounts(path.Child("limits"), out.Limits)...)
	errs = append(errs, checkAmounts(path.Child("requests"), out.Requests)...)
	for _, name := range sortedNames(out.Requests) {
		request := out.Requests[name]
		if limit, ok := out.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), request.String(),
				"must not exceed the limit of "+limit.String()))
		}
	}
	return out, errs
}

// maxResources parses the maximum resources that the platform allows.
func maxResources(most map[corev1.ResourceName]v1.Amount) (corev1.ResourceList, error) {
	out, wrong := readAmounts(field.NewPath("spec", "maxResources"), most)
	if len(wrong) > 0 {
		return nil, newRefusal(v1.ReasonInvalid, "%s %s: %v", v1.KindPlatform, v1.PlatformName, wrong.ToAggregate())
	}
	return out, nil
}

// limitResources checks the resources of a server against the platform's maximum, and returns an error for each
// resource that exceeds it. A resource without a limit gets the maximum as its limit.
func limitResources(resources corev1.ResourceRequirements, allowed corev1.ResourceList,
	path *field.Path) (corev1.ResourceRequirements, field.ErrorList) {
	errs := make(field.ErrorList, 0, len(allowed))
	out := *resources.DeepCopy()
	if out.Limits == nil && len(allowed) > 0 {
		out.Limits = corev1.ResourceList{}
	}
	for _, name := range sortedNames(allowed) {
		limit := allowed[name]
		errs = append(errs, checkLimit(path.Child("limits"), out.Limits, name, limit)...)
		errs = append(errs, checkLimit(path.Child("requests"), out.Requests, name, limit)...)
		if _, ok := out.Limits[name]; !ok {
			out.Limits[name] = limit
		}
	}
	return out, errs
}

func checkLimit(path *field.Path, amounts corev1.ResourceList, name corev1.ResourceName,
	limit resource.Quantity) field.ErrorList {
	if amount, ok := amounts[name]; ok && amount.Cmp(limit) > 0 {
		return field.ErrorList{field.Forbidden(path.Key(string(name)),
			amount.String()+" exceeds the platform's maximum of "+limit.String())}
	}
	return nil
}

// platformResources parses resources that the platform team has set. It returns nil if the field is not set.
func platformResources(place, name string, r *v1.Resources) (*corev1.ResourceRequirements, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // There are none, and that is no error.
	}
	path := field.NewPath(name)
	out, errs := quantities(path, r)
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("claims"), noResourceClaims))
	}
	if len(errs) > 0 {
		return nil, newRefusal(v1.ReasonInvalid, "%s: %v", place, errs.ToAggregate())
	}
	return &out, nil
}

// quantities parses the resources of a container.
func quantities(path *field.Path, r *v1.Resources) (corev1.ResourceRequirements, field.ErrorList) {
	limits, errs := readAmounts(path.Child("limits"), r.Limits)
	requests, extra := readAmounts(path.Child("requests"), r.Requests)
	return corev1.ResourceRequirements{Limits: limits, Requests: requests, Claims: r.Claims}, append(errs, extra...)
}

func readAmounts(path *field.Path, amounts map[corev1.ResourceName]v1.Amount) (corev1.ResourceList, field.ErrorList) {
	out, wrong := agent.ReadAmounts(amounts)
	errs := make(field.ErrorList, 0, len(wrong))
	for _, w := range wrong {
		errs = append(errs, field.Forbidden(path.Key(clipText(string(w.Name))), clipText(w.Err.Error())))
	}
	return out, errs
}

func checkAmounts(path *field.Path, amounts corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(amounts) {
		amount := amounts[name]
		if len(validation.IsQualifiedName(string(name))) > 0 {
			errs = append(errs, field.Invalid(path, clipText(string(name)), "is not a valid resource name. "+
				"An example is memory"))
		} else if !ordinary(name) {
			errs = append(errs, field.Forbidden(path.Key(clipText(string(name))),
				"is not supported, because it may be a device of the node. Use cpu, memory, ephemeral-storage or hugepages-2Mi"))
		}
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(clipText(string(name))), amount.String(), "must not be negative"))
		}
	}
	return errs
}

// ordinary reports whether every node provides a resource, such as CPU or memory. Any other resource gives a
// container access to a device, such as /dev/kvm, through a device plugin.
func ordinary(name corev1.ResourceName) bool {
	everywhere := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	return slices.Contains(everywhere, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func sortedNames(l corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(l))
}
