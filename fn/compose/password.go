package compose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// resolvePassword that is wanted: that of the spec, or of a Secret; empty while that is not
// known, or not made. A server that has started does not need it any more.
func resolvePassword(r *resolved) (string, error) {
	switch {
	case r.password.Secret == nil:
		path := "spec.password"
		if r.database {
			path = "spec.passwordSecretRef"
		}
		return allowedPassword(r, path, r.statedPassword, nil)
	case !r.Required.Password.Known:
		return "", nil
	case r.password.Generated:
		return generatedPassword(r)
	}
	return passwordOf(r, r.password.Secret)
}

// passwordOf a Secret that the spec names.
func passwordOf(r *resolved, ref *v1.SecretKeySelector) (string, error) {
	where := qualifiedName(r.instance.Namespace, ref.Name)
	if err := checkOwnSecret(r, "spec.passwordSecretRef.name", ref.Name); err != nil {
		return "", err
	}
	s := requiredSecret(r, ref.Name)
	if s == nil {
		return "", newRefusal(v1.ReasonInvalid, "spec.passwordSecretRef.name: Secret %s does not exist: create it", where)
	}
	value, ok := s.Data[ref.Key]
	if !ok {
		return "", newRefusal(v1.ReasonInvalid, "spec.passwordSecretRef.key: Secret %s has no key %q: add it, or name the key that holds the password", where, ref.Key)
	}
	path := fmt.Sprintf("spec.passwordSecretRef: key %q of Secret %s", ref.Key, where)
	clean, err := v1.Password(string(value))
	if err != nil {
		return "", newRefusal(v1.ReasonInvalid, "%s: %v", path, err)
	}
	return allowedPassword(r, path, clean, s.Labels)
}

// passwordVersion is the resourceVersion of the Secret that the spec names, where Crossplane watches that; empty where it does not.
// It says nothing of what is in it.
func passwordVersion(r *resolved) string {
	ref := r.spec.PasswordSecretRef
	if ref == nil || !r.platform.CoreWatches {
		return ""
	}
	if s := requiredSecret(r, ref.Name); s != nil {
		return s.ResourceVersion
	}
	return ""
}

// generatedPassword that the controller has made for this instance, or "".
func generatedPassword(r *resolved) (string, error) {
	s, where := requiredSecret(r, r.password.Secret.Name), qualifiedName(r.instance.Namespace, r.password.Secret.Name)
	switch {
	case s == nil:
		return "", nil
	case s.Labels[v1.LabelXR] != string(r.instance.XR):
		return "", newRefusal(v1.ReasonNameTaken, "Secret %s, in which the controller keeps the password of this instance, is not of this instance: rename or delete it, or name the Secret that has the password in spec.passwordSecretRef", where)
	}
	clean, err := v1.Password(string(s.Data[r.password.Secret.Key]))
	if err != nil {
		return "", newRefusal(v1.ReasonInvalid, "Secret %s: %v: delete it, and the controller makes another", where, err)
	}
	return clean, nil
}

// requiredSecret with the password, if that is what Crossplane sent.
func requiredSecret(r *resolved, name string) *corev1.Secret {
	s := r.Required.Password.firstItem()
	if s == nil || s.Namespace != r.instance.Namespace || s.Name != name {
		return nil
	}
	return s
}

// allowedPassword is the password if the platform allows it.
func allowedPassword(r *resolved, path, password string, labels map[string]string) (string, error) {
	if !r.Required.Platform.Known || !r.engine.password {
		return password, nil
	}
	if err := r.platform.CheckPassword(r.password, password, labels); err != nil {
		return "", newRefusal(v1.ReasonNotAllowed, "%s: %v", path, err)
	}
	return password, nil
}
