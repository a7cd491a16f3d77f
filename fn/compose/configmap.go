package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// configMap returns the ConfigMap with the my.cnf of the revision. It can also contain the last my.cnf that worked.
func configMap(s *serverInput, rev revision) *corev1.ConfigMap {
	data := map[string]string{v1.ConfigKey: rev.config}
	if rev.served != "" {
		data[v1.ServedConfigKey] = rev.served
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: s.meta(s.instance.ConfigMapName(), nil),
		Data:       data,
	}
}
