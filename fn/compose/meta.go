package compose

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// qualified name of an object.
func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// meta of a composed object.
func (r *resolved) meta(name string, extra map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.instance.Namespace, Name: name, Labels: r.labels(extra)}
}

// labels of a composed object.
func (r *resolved) labels(extra map[string]string) map[string]string {
	l := r.instance.Labels()
	maps.Copy(l, extra)
	return l
}

// claimAnnotations say whose data an object holds or handles.
func claimAnnotations(i v1.Instance) map[string]string {
	return map[string]string{
		v1.AnnotationClaimKind:      i.Kind,
		v1.AnnotationClaimNamespace: i.Namespace,
		v1.AnnotationClaimName:      i.Name,
	}
}
