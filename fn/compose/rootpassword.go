package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// rootPassword returns the Secret that a server reads at its first start. It contains the password, and whether a
// database may be initialized. Later starts ignore it. The Secret keeps this password, so that the server's initial
// password is always known. The controller sets later passwords in the running server. If the data is deleted with
// the pod, each pod initializes a new database.
func rootPassword(r *resolved, begin start, wanted string) *corev1.Secret {
	password := []byte(wanted)
	if o := r.Observed.RootPassword; o != nil && len(o.Data[v1.PasswordKey]) > 0 &&
		(r.started && !r.ephemeral || wanted == "") {
		password = o.Data[v1.PasswordKey]
	}
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: r.meta(r.instance.RootSecretName(), nil),
		Data:       map[string][]byte{v1.PasswordKey: password},
		Type:       corev1.SecretTypeOpaque,
	}
	// If a user scales up a Deployment that must wait, the server must not initialize a database.
	if mayInitialize(r, begin.restore) && (begin.replicas > 0 || r.started) {
		s.Data[v1.InitializeKey] = []byte("true")
	}
	return s
}
