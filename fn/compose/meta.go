package compose

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// qualifiedName of an object.
func qualifiedName(namespace, name string) string {
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
