package compose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// resolvePassword returns the requested password, from the spec or a Secret. It returns "" while the password is
// unknown or not generated yet. A server that has started no longer needs it.
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

// passwordOf returns the password in a Secret that the spec names.
func passwordOf(r *resolved, ref *v1.SecretKeySelector) (string, error) {
	place := qualifiedName(r.instance.Namespace, ref.Name)
	if err := checkOwnSecret(r, "spec.passwordSecretRef.name", ref.Name); err != nil {
		return "", err
	}
	s := requiredSecret(r, ref.Name)
	if s == nil {
		return "", newRefusal(v1.ReasonInvalid, "spec.passwordSecretRef.name: Secret %s does not exist. Create it", place)
	}
	value, ok := s.Data[ref.Key]
	if !ok {
		return "", newRefusal(v1.ReasonInvalid,
			"spec.passwordSecretRef.key: Secret %s has no key %q. Add the key, or set the name of the "+
				"key with the password", place,
			ref.Key)
	}
	path := fmt.Sprintf("spec.passwordSecretRef: key %q of Secret %s", ref.Key, place)
	clean, err := v1.Password(string(value))
	if err != nil {
		return "", newRefusal(v1.ReasonInvalid, "%s: %v", path, err)
	}
	return allowedPassword(r, path, clean, s.Labels)
}

// passwordVersion returns the resourceVersion of the Secret that the spec names, or "" if Crossplane does not watch
// that Secret. The resourceVersion reveals nothing about the content.
func passwordVersion(r *resolved) string {
	ref := r.spec.PasswordSecretRef
	if ref == nil || !r.Watched {
		return ""
	}
	if s := requiredSecret(r, ref.Name); s != nil {
		return s.ResourceVersion
	}
	return ""
}

// generatedPassword returns the password that the controller has created for this instance, or "".
func generatedPassword(r *resolved) (string, error) {
	s, place := requiredSecret(r, r.password.Secret.Name), qualifiedName(r.instance.Namespace, r.password.Secret.Name)
	switch {
	case s == nil:
		return "", nil
	case s.Labels[v1.LabelXR] != string(r.instance.XR):
		return "", newRefusal(v1.ReasonNameTaken,
			"Secret %s does not belong to this instance, but the controller stores the password in a Secret with this name. "+
				"Delete it, or set spec.passwordSecretRef to the Secret with the password", place)
	}
	clean, err := v1.Password(string(s.Data[r.password.Secret.Key]))
	if err != nil {
		return "", newRefusal(v1.ReasonInvalid, "Secret %s: %v. Delete it, and the controller creates it again", place, err)
	}
	return clean, nil
}

// requiredSecret returns the Secret with the password if Crossplane sent it.
func requiredSecret(r *resolved, name string) *corev1.Secret {
	s := r.Required.Password.firstItem()
	if s == nil || s.Namespace != r.instance.Namespace || s.Name != name {
		return nil
	}
	return s
}

// allowedPassword returns the password, or an error if the Platform forbids the password or its source. labels are the
// labels of the Secret that contains it.
func allowedPassword(r *resolved, path, password string, labels map[string]string) (string, error) {
	if !r.Required.Platform.Known || !r.engine.password {
		return password, nil
	}
	if err := r.platform.CheckPassword(r.password, password, labels); err != nil {
		return "", newRefusal(v1.ReasonNotAllowed, "%s: %v", path, err)
	}
	return password, nil
}
