package v1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A PlatformStatus reports which releases of this product run in the cluster. The controller writes it.
type PlatformStatus struct {
	// ControllerRelease is the release of the running controller, such as v0.1.0.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ControllerRelease string `json:"controllerRelease,omitempty"`
	// FunctionRelease is the release of the function that Crossplane has installed. Empty if the controller cannot
	// determine it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	FunctionRelease string `json:"functionRelease,omitempty"`
	// Conditions of the Platform. Ready is True if the releases of the function and the controller are compatible.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReady of a Platform is true if the releases are compatible.
const ConditionReady = "Ready"

// Reasons of ConditionReady.
const (
	ReasonReleasesFit    = "ReleasesFit"
	ReasonReleasesDiffer = "ReleasesDiffer"
	// ReasonFunctionUnknown means that the controller cannot determine the release of the function.
	ReasonFunctionUnknown = "FunctionUnknown"
)

// SetReleases sets the releases of the controller and the function, and returns the resulting condition. If function
// is empty, its release is unknown, and why explains the cause.
func (s *PlatformStatus) SetReleases(controller, function, why string) metav1.Condition {
	s.ControllerRelease, s.FunctionRelease = controller, function
	switch {
	case function == "":
		return metav1.Condition{Type: ConditionReady, Status: metav1.ConditionUnknown, Reason: ReasonFunctionUnknown,
			Message: why}
	case !ReleasesFit(function, controller):
		return metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse, Reason: ReasonReleasesDiffer,
			Message: fmt.Sprintf("The function has release %s, but the controller has release %s. Their APIs may differ. "+
				"Install the same release of both", function, controller)}
	}
	return metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonReleasesFit}
}
