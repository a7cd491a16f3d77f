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
func (p *plan) meta(name string, extra map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.instance.Namespace, Name: name, Labels: p.labels(extra)}
}

// labels of a composed object.
func (p *plan) labels(extra map[string]string) map[string]string {
	l := p.instance.Labels()
	maps.Copy(l, extra)
	return l
}

// claimAnnotations say whose data an object holds or handles.
func (p *plan) claimAnnotations() map[string]string {
	return map[string]string{
		v1.AnnotationClaimKind:      p.instance.Kind,
		v1.AnnotationClaimNamespace: p.instance.Namespace,
		v1.AnnotationClaimName:      p.instance.Name,
	}
}
