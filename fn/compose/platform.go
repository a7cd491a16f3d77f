package compose

import (
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

// checkAllowed refuses what the platform does not allow. What a started instance has already
// it keeps, and says so.
func checkAllowed(r *resolved) (kept, err error) {
	if !r.Required.Platform.Known {
		return nil, nil
	}
	var has, wants field.ErrorList
	forbid := func(e *field.Error, is bool) {
		if r.started && is {
			has = append(has, e)
		} else {
			wants = append(wants, e)
		}
	}
	spec := field.NewPath("spec")
	if !r.platform.AllowsImage(r.wantedImage) {
		forbid(notAllowed(spec.Child("image"), r.wantedImage, *r.platform.AllowedImages), r.wantedImage == r.XR.Status.Image)
	}
	for _, e := range r.tooMuch {
		forbid(e, isAsMade(r))
	}
	if e := r.storeRefused; e != nil {
		forbid(e, r.started)
	}
	service, observed := spec.Child("service"), r.Observed.Service
	if t := r.spec.Service.Type; !r.platform.AllowsServiceType(t) {
		forbid(notAllowed(service.Child("type"), string(t), textsOf(r.platform.AllowedServiceTypes)), t == serviceType(observed))
	}
	for _, key := range slices.Sorted(maps.Keys(r.spec.Service.Annotations)) {
		if r.platform.AllowsServiceAnnotation(key) {
			continue
		}
		value, is := annotationOf(observed, key)
		forbid(field.Forbidden(service.Child("annotations").Key(clipText(key)),
			fmt.Sprintf("is not among those that the platform allows: remove it, or ask the platform team to add it to allowedServiceAnnotations of %s %s", v1.KindMySQLPlatform, v1.PlatformName)),
			is && value == r.spec.Service.Annotations[key])
	}
	for _, e := range schedulingNotAllowed(r, spec.Child("scheduling")) {
		forbid(e, isAsMade(r))
	}
	return refusalOf(has), refusalOf(wants)
}

// schedulingNotAllowed is what a claim asks for and the platform does not allow. It may say what it wants of
// nodes that take everybody, and of its own namespace's pods.
func schedulingNotAllowed(r *resolved, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	s := r.spec.Scheduling
	if s == nil {
		return nil
	}
	for i, t := range s.Tolerations {
		if !r.platform.AllowsToleration(t.Key) {
			errs = append(errs, notAllowed(path.Child("tolerations").Index(i).Child("key"), t.Key, r.platform.AllowedTolerations))
		}
	}
	if c := s.PriorityClassName; c != "" && !slices.Contains(r.platform.AllowedPriorityClasses, c) {
		errs = append(errs, notAllowed(path.Child("priorityClassName"), c, r.platform.AllowedPriorityClasses))
	}
	return errs
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
