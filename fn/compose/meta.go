package compose

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// qualifiedName returns the name of an object with its namespace.
func qualifiedName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// meta returns the metadata of a composed object.
func (f *facts) meta(name string, extra map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.instance.Namespace, Name: name, Labels: f.labels(extra)}
}

// labels returns the labels of a composed object.
func (f *facts) labels(extra map[string]string) map[string]string {
	l := f.instance.Labels()
	maps.Copy(l, extra)
	return l
}
