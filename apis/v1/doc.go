// Package v1 is the contract between the composition function, the controller and their users. It contains the API
// types of crossplane-mysql.io/v1alpha1, otus.homework/v1 and zalando.org/v1. It also contains the names, labels and
// annotations of the objects of an instance, and the conditions that report on it.
//
// +groupName=crossplane-mysql.io
// +versionName=v1alpha1
// +kubebuilder:object:generate=true
package v1
