package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// rootPassword is what the first start brings into the server, and whether there may
// be one. It is ignored later.
// What it was started with stays, so that somebody always knows what the server
// was given: the controller brings later changes into the running server. Where
// the data goes with the pod, the next pod's start is a first one again.
func rootPassword(r *resolved, begin start, wanted string) *corev1.Secret {
	password := []byte(wanted)
	if o := r.Observed.RootPassword; o != nil && len(o.Data[v1.PasswordKey]) > 0 && (r.started && !r.ephemeral || wanted == "") {
		password = o.Data[v1.PasswordKey]
	}
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: r.meta(r.instance.RootSecretName(), nil),
		Data:       map[string][]byte{v1.PasswordKey: password},
		Type:       corev1.SecretTypeOpaque,
	}
	if mayInitialize(r, begin.restore) && (begin.replicas > 0 || r.started) { // Whoever scales a Deployment that waits makes no database.
		s.Data[v1.InitializeKey] = []byte("true")
	}
	return s
}
