// Package secrets reads the Secrets of instances and checks their owners.
package secrets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A ForeignError reports that a Secret with the name of an instance's Secret has a different owner.
type ForeignError struct {
	text string
	// Goes is true if Kubernetes will delete the Secret, because the composite resource that owned it was deleted.
	Goes bool
}

// Error returns the message with the next step.
func (e *ForeignError) Error() string { return e.text }

// A KubeError is an error of the API server, as opposed to an error of the database server.
type KubeError struct{ error }

// Unwrap returns the cause.
func (e *KubeError) Unwrap() error { return e.error }

// A NotLetInError means that the controller has no permission to read the Secrets of a namespace. In some
// installations, the platform team opts in each namespace (controller/deploy/opted-in).
type NotLetInError struct{ Namespace string }

// Error returns the message with the command that opts in the namespace.
func (e *NotLetInError) Error() string {
	return fmt.Sprintf("The controller may not read Secrets in namespace %q. Ask the platform team to opt the "+
		"namespace in (kubectl create rolebinding crossplane-mysql --namespace %s --clusterrole "+
		"crossplane-mysql-contents --serviceaccount crossplane-mysql-system:crossplane-mysql)", e.Namespace, e.Namespace)
}

// Read returns a Secret, or nil if it does not exist.
func Read(ctx context.Context, kube client.Reader, namespace, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	switch err := kube.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, s); {
	case kerrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // A missing Secret is no error.
	case kerrors.IsForbidden(err):
		return nil, &NotLetInError{namespace}
	case err != nil:
		return nil, Failed(err, "read", namespace, name)
	}
	return s, nil
}

// Failed wraps the error of an operation on a Secret.
func Failed(err error, doing, namespace, name string) error {
	return &KubeError{fmt.Errorf("cannot %s Secret %s/%s: %w", doing, namespace, name, err)}
}

// Own returns the Secret of this instance, or nil if it does not exist. It returns an error if the Secret has a
// different owner or belongs to a previous instance.
func Own(ctx context.Context, kube client.Reader, i v1.Instance, name string) (*corev1.Secret, error) {
	s, err := Read(ctx, kube, i.Namespace, name)
	if err != nil || s == nil {
		return nil, err
	}
	switch owner := s.Labels[v1.LabelXR]; {
	case owner == string(i.XR):
		return s, nil
	case owner != "" && s.Labels[v1.LabelInstance] == i.Key() && len(s.OwnerReferences) > 0:
		return nil, &ForeignError{Goes: true,
			text: fmt.Sprintf("Secret %s/%s belongs to a previous %s with this name. Waiting until Kubernetes has deleted it",
				i.Namespace, name, i.Kind)}
	}
	return nil, &ForeignError{text: fmt.Sprintf(
		"Secret %s/%s exists and does not belong to this %s: rename or delete it (kubectl delete secret -n %s %s)",
		i.Namespace, name, i.Kind, i.Namespace, name)}
}

// Meta returns the metadata of a Secret of an instance. The XR owns the Secret, so that it is deleted with the XR.
// The XR is not its controller, because Crossplane does not compose the Secret. An XR in a namespace cannot own a
// Secret in another one, because the garbage collector would delete the Secret immediately. The controller deletes
// such a Secret by its name when the instance is deleted.
func Meta(i v1.Instance, xr metav1.OwnerReference, namespace, name string) metav1.ObjectMeta {
	if i.IsNamespaced() && namespace != i.Namespace {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: i.Labels()}
	}
	xr.Controller, xr.BlockOwnerDeletion = nil, nil
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: i.Labels(),
		OwnerReferences: []metav1.OwnerReference{xr}}
}
