// Package v1 is the contract between the composition function, the controller
// and their users: the API types of otus.homework/v1 and zalando.org/v1, the names, labels and
// annotations of everything that is made for an instance, and the conditions
// that report on it.
//
// +groupName=otus.homework
// +versionName=v1
// +kubebuilder:object:generate=true
package v1
