package compose

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkResources refuses what no container may ask for.
func checkResources(path *field.Path, r *corev1.ResourceRequirements) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("claims"), "resource claims are not supported: remove them"))
	}
	errs = append(errs, checkAmounts(path.Child("limits"), r.Limits)...)
	errs = append(errs, checkAmounts(path.Child("requests"), r.Requests)...)
	for _, name := range sortedNames(r.Requests) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), request.String(), "is more than the limit of "+limit.String()))
		}
	}
	return errs
}

func checkAmounts(path *field.Path, amounts corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(amounts) {
		amount := amounts[name]
		if len(validation.IsQualifiedName(string(name))) > 0 {
			errs = append(errs, field.Invalid(path, clip(string(name)), "is not the name of a resource, such as memory"))
		} else if !ordinary(name) {
			errs = append(errs, field.Forbidden(path.Key(clip(string(name))), "may be a device of the node, which no database needs: use cpu, memory, ephemeral-storage or hugepages-2Mi"))
		}
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(clip(string(name))), amount.String(), "is below zero"))
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
