// Package fieldcheck validates values of a claim that several packages of the function have in common.
package fieldcheck

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxText is the maximum length of a value in an error message, in characters.
const maxText = 80

// ClipText shortens a value from a claim for an error message.
func ClipText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r := []rune(s); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return s
}

// ClipErrors shortens the values in validation errors of Kubernetes.
func ClipErrors(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		if text, ok := e.BadValue.(string); ok {
			e.BadValue = ClipText(text)
		}
	}
	return errs
}

// Enum refuses a value that is not supported.
func Enum[T ~string](fldPath *field.Path, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(fldPath, T(ClipText(string(value))), supported)}
}

// ObjectName returns an error if a name is not a valid object name. The message contains the kind.
func ObjectName(fldPath *field.Path, name, kind string) field.ErrorList {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, ClipText(name), "is not a valid "+kind+" name")}
}

// Selector validates a selector as the API server does. A missing selector is valid.
func Selector(s *metav1.LabelSelector, fldPath *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, fldPath)
}
