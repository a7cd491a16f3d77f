package compose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// resolvePlatform is what the platform lets claims ask for. Before it is known nothing is
// made, and nothing is taken away.
func resolvePlatform(in Input) (v1.MySQLPlatformSpec, error) {
	if !in.Required.Platform.Known {
		return v1.MySQLPlatformSpec{}, nil
	}
	p := in.Required.Platform.firstItem()
	if p == nil {
		return v1.MySQLPlatformSpec{}, newRefusal(v1.ReasonNoPlatform, "there is no %s %s, which says what claims may ask for: the platform team applies controller/deploy/platform", v1.KindMySQLPlatform, v1.PlatformName)
	}
	if p.Spec.AgentImage == "" {
		return v1.MySQLPlatformSpec{}, newRefusal(v1.ReasonNoPlatform, "%s %s: spec.agentImage is empty: name the image of this product", v1.KindMySQLPlatform, v1.PlatformName)
	}
	return p.Spec, nil
}

// checkAllowed refuses what the platform does not allow. A started instance keeps what it has already, with a warning.
func checkAllowed(r *resolved) (kept, err error) {
	if !r.Required.Platform.Known {
		return nil, nil
	}
	var warnings, refusals field.ErrorList
	forbid := func(e *field.Error, inUse bool) {
		if r.started && inUse {
			warnings = append(warnings, e)
		} else {
			refusals = append(refusals, e)
		}
	}
	// ask for a value that one of the platform's lists must allow.
	ask := func(path *field.Path, value string, allowed bool, list []string, inUse bool) {
		if !allowed {
			forbid(notAllowed(path, value, list), inUse)
		}
	}
	// A field of the wish is in use if the server's pod was made with this wish.
	spec, p, asMade := field.NewPath("spec"), &r.platform, isAsMade(r)
	ask(spec.Child("image"), r.wantedImage, p.AllowsImage(r.wantedImage), *cmp.Or(p.AllowedImages, &[]string{}), r.wantedImage == r.XR.Status.Image)
	for _, e := range r.tooMuch {
		forbid(e, asMade)
	}
	if e := r.storeRefused; e != nil {
		forbid(e, r.started)
	}
	service, observed, t := spec.Child("service"), r.Observed.Service, r.spec.Service.Type
	ask(service.Child("type"), string(t), p.AllowsServiceType(t), textsOf(p.AllowedServiceTypes), t == serviceType(observed))
	for _, key := range slices.Sorted(maps.Keys(r.spec.Service.Annotations)) {
		if p.AllowsServiceAnnotation(key) {
			continue
		}
		value, is := annotationOf(observed, key)
		forbid(field.Forbidden(service.Child("annotations").Key(clipText(key)),
			fmt.Sprintf("is not among those that the platform allows: remove it, or ask the platform team to add it to allowedServiceAnnotations of %s %s", v1.KindMySQLPlatform, v1.PlatformName)),
			is && value == r.spec.Service.Annotations[key])
	}
	scheduling, s := spec.Child("scheduling"), cmp.Or(r.wish.Scheduling, &v1.Scheduling{})
	for i, t := range s.Tolerations {
		ask(scheduling.Child("tolerations").Index(i).Child("key"), t.Key, p.AllowsToleration(t.Key), p.AllowedTolerations, asMade)
	}
	class := s.PriorityClassName
	ask(scheduling.Child("priorityClassName"), class, class == "" || slices.Contains(p.AllowedPriorityClasses, class), p.AllowedPriorityClasses, asMade)
	return refusalOf(warnings), refusalOf(refusals)
}

// refusalOf errors; nil where there is none.
func refusalOf(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return &Refusal{Reason: v1.ReasonNotAllowed, Err: errs.ToAggregate()}
}

// notAllowed is a value that the platform's list has not.
func notAllowed(path *field.Path, value string, list []string) *field.Error {
	allowed := "none"
	if len(list) > 0 {
		allowed = clipText(strings.Join(list, ", "))
	}
	return field.Forbidden(path, fmt.Sprintf("%s is not among those that the platform allows: %s", clipText(value), allowed))
}

// serviceType of an observed Service, in the words of a claim.
func serviceType(s *corev1.Service) v1.ServiceType {
	switch {
	case s == nil:
		return ""
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return v1.ServiceHeadless
	}
	return v1.ServiceType(s.Spec.Type)
}

// annotationOf an observed Service.
func annotationOf(s *corev1.Service, key string) (string, bool) {
	if s == nil {
		return "", false
	}
	value, is := s.Annotations[key]
	return value, is
}

func textsOf[T ~string](list []T) []string {
	out := make([]string, 0, len(list))
	for _, t := range list {
		out = append(out, string(t))
	}
	return out
}
