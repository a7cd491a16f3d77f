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

// resolvePlatform returns the platform policy. Until the policy is known, nothing is created or deleted.
func resolvePlatform(in Input) (v1.PlatformSpec, error) {
	if !in.Required.Platform.Known {
		return v1.PlatformSpec{}, nil
	}
	p := in.Required.Platform.firstItem()
	if p == nil {
		return v1.PlatformSpec{}, newRefusal(v1.ReasonNoPlatform,
			"%s %s does not exist. It contains the policy for claims. Ask the platform team to apply "+
				"controller/deploy/platform",
			v1.KindPlatform, v1.PlatformName)
	}
	out := p.Spec
	if out.AgentImage == "" && !v1.IsRelease(in.Release) {
		return v1.PlatformSpec{}, newRefusal(v1.ReasonNoPlatform,
			"%s %s has no spec.agentImage, and version %q of this function has no default for it. Set spec.agentImage to the "+
				"image of this product", v1.KindPlatform, v1.PlatformName, clipText(in.Release))
	}
	out.AgentImage = cmp.Or(out.AgentImage, v1.AgentImage(in.Release))
	out.ExporterImage = cmp.Or(out.ExporterImage, v1.DefaultExporterImage)
	return out, nil
}

// checkAllowed refuses values that the platform does not allow. A started instance keeps the values that it already
// uses, with a warning.
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
	// ask reports a value that is not on the platform's allow-list: as a warning if the instance already uses it, or
	// else as a refusal.
	ask := func(path *field.Path, value string, allowed bool, list []string, inUse bool) {
		if !allowed {
			forbid(notAllowed(path, value, list), inUse)
		}
	}
	// A value that determines the server's pod is in use if the pod was created with it.
	spec, p, asMade := field.NewPath("spec"), &r.platform, isAsMade(r)
	ask(spec.Child("image"), r.wantedImage, p.AllowsImage(r.wantedImage), *cmp.Or(p.AllowedImages, &[]string{}),
		r.wantedImage == r.XR.Status.Image)
	for _, e := range r.tooMuch {
		forbid(e, asMade)
	}
	if e := r.storeRefused; e != nil {
		forbid(e, r.started)
	}
	large, grows, err := checkStorageLimit(r, spec)
	if err != nil {
		return nil, newRefusal(v1.ReasonNoPlatform, "%v", err)
	}
	if large != nil {
		forbid(large, !asksForMore(r))
	}
	if grows != nil { // This is only a warning, because the controller does not grow a volume beyond the limit.
		forbid(grows, true)
	}
	service, observed, t := spec.Child("service"), r.Observed.Service, r.spec.Service.Type
	ask(service.Child("type"), string(t), p.AllowsServiceType(t), textsOf(p.AllowedServiceTypes),
		t == serviceType(observed))
	for _, key := range slices.Sorted(maps.Keys(r.spec.Service.Annotations)) {
		if p.AllowsServiceAnnotation(key) {
			continue
		}
		value, ok := annotationOf(observed, key)
		forbid(field.Forbidden(service.Child("annotations").Key(clipText(key)),
			fmt.Sprintf("is not allowed by the platform. Remove it, or ask the platform team to add it to "+
				"allowedServiceAnnotations of %s %s", v1.KindPlatform, v1.PlatformName)),
			ok && value == r.spec.Service.Annotations[key])
	}
	scheduling, s := spec.Child("scheduling"), cmp.Or(r.templateInput.Scheduling, &v1.Scheduling{})
	for i, t := range s.Tolerations {
		ask(scheduling.Child("tolerations").Index(i).Child("key"), t.Key, p.AllowsToleration(t.Key), p.AllowedTolerations,
			asMade)
	}
	class := s.PriorityClassName
	ask(scheduling.Child("priorityClassName"), class, class == "" || slices.Contains(p.AllowedPriorityClasses, class),
		p.AllowedPriorityClasses, asMade)
	return refusalOf(warnings), refusalOf(refusals)
}

// refusalOf returns the errors as a Refusal, or nil.
func refusalOf(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return &Refusal{Reason: v1.ReasonNotAllowed, Err: errs.ToAggregate()}
}

// notAllowed returns the error for a value that is not on the platform's list.
func notAllowed(path *field.Path, value string, list []string) *field.Error {
	allowed := "none"
	if len(list) > 0 {
		allowed = clipText(strings.Join(list, ", "))
	}
	return field.Forbidden(path, fmt.Sprintf("%s is not allowed by the platform. Allowed: %s", clipText(value),
		allowed))
}

// serviceType returns the type of an observed Service, or "" if there is none.
func serviceType(s *corev1.Service) v1.ServiceType {
	if s == nil {
		return ""
	}
	return v1.ServiceType(s.Spec.Type)
}

// annotationOf returns an annotation of an observed Service.
func annotationOf(s *corev1.Service, key string) (string, bool) {
	if s == nil {
		return "", false
	}
	value, ok := s.Annotations[key]
	return value, ok
}

func textsOf[T ~string](list []T) []string {
	out := make([]string, 0, len(list))
	for _, t := range list {
		out = append(out, string(t))
	}
	return out
}
