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

// resolveResources of the server: those of the spec, or the platform's where it has
// none.
func resolveResources(r *v1.Resources, defaults *corev1.ResourceRequirements, path *field.Path) (corev1.ResourceRequirements, field.ErrorList) {
	switch {
	case r == nil && defaults == nil:
		return corev1.ResourceRequirements{}, nil
	case r == nil:
		return *defaults, nil
	}
	out, errs := quantities(path, r)
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("claims"), "resource claims are not supported: remove them"))
	}
	errs = append(errs, checkAmounts(path.Child("limits"), out.Limits)...)
	errs = append(errs, checkAmounts(path.Child("requests"), out.Requests)...)
	for _, name := range sortedNames(out.Requests) {
		request := out.Requests[name]
		if limit, ok := out.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), request.String(), "is more than the limit of "+limit.String()))
		}
	}
	return out, errs
}

// maxResources reads what the platform allows at most.
func maxResources(most map[corev1.ResourceName]v1.Amount) (corev1.ResourceList, error) {
	out, wrong := readAmounts(field.NewPath("spec", "maxResources"), most)
	if len(wrong) > 0 {
		return nil, newRefusal(v1.ReasonInvalid, "%s %s: %v", v1.KindMySQLPlatform, v1.PlatformName, wrong.ToAggregate())
	}
	return out, nil
}

// limitResources of a server to what the platform allows, and say what is more. What has no
// limit gets that one.
func limitResources(of corev1.ResourceRequirements, allowed corev1.ResourceList, path *field.Path) (corev1.ResourceRequirements, field.ErrorList) {
	errs := make(field.ErrorList, 0, len(allowed))
	out := *of.DeepCopy()
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

func checkLimit(path *field.Path, amounts corev1.ResourceList, name corev1.ResourceName, limit resource.Quantity) field.ErrorList {
	if amount, ok := amounts[name]; ok && amount.Cmp(limit) > 0 {
		return field.ErrorList{field.Forbidden(path.Key(string(name)), amount.String()+" is more than the platform allows: "+limit.String())}
	}
	return nil
}

// platformResources are those of a field of the Composition's input; nil where it has none.
func platformResources(name string, r *v1.Resources) (*corev1.ResourceRequirements, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // There are none, and that is no error.
	}
	out, errs := quantities(field.NewPath(name), r)
	if len(errs) > 0 {
		return nil, newRefusal(v1.ReasonInvalid, "the Composition's input: %v", errs.ToAggregate())
	}
	return &out, nil
}

// quantities of the amounts that a container asks for.
func quantities(path *field.Path, r *v1.Resources) (corev1.ResourceRequirements, field.ErrorList) {
	limits, errs := readAmounts(path.Child("limits"), r.Limits)
	requests, more := readAmounts(path.Child("requests"), r.Requests)
	return corev1.ResourceRequirements{Limits: limits, Requests: requests, Claims: r.Claims}, append(errs, more...)
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
			errs = append(errs, field.Invalid(path, clipText(string(name)), "is not the name of a resource, such as memory"))
		} else if !ordinary(name) {
			errs = append(errs, field.Forbidden(path.Key(clipText(string(name))), "may be a device of the node, which no database needs: use cpu, memory, ephemeral-storage or hugepages-2Mi"))
		}
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(clipText(string(name))), amount.String(), "is below zero"))
		}
	}
	return errs
}

// ordinary resources are those of every node. Others give a container what a
// device plugin has, such as /dev/kvm.
func ordinary(name corev1.ResourceName) bool {
	everywhere := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	return slices.Contains(everywhere, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func sortedNames(l corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(l))
}
