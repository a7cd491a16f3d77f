package compose

import v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"

// resolvePassword that is wanted: that of the spec, or of the Secret that it names;
// empty while that is not known. A server that has started does not need it any
// more.
func resolvePassword(r *resolved) (string, error) {
	ref := r.spec.PasswordSecretRef
	if ref == nil || !r.Required.Password.Known {
		return r.statedPassword, nil
	}
	where := qualifiedName(r.instance.Namespace, ref.Name)
	s := r.Required.Password.firstItem()
	if s == nil || s.Namespace != r.instance.Namespace || s.Name != ref.Name {
		return "", newRefusal(v1.ReasonInvalid, "spec.passwordSecretRef.name: Secret %s does not exist: create it", where)
	}
	value, ok := s.Data[ref.Key]
	if !ok {
		return "", newRefusal(v1.ReasonInvalid, "spec.passwordSecretRef.key: Secret %s has no key %q: add it, or name the key that holds the password", where, ref.Key)
	}
	clean, err := v1.Password(string(value))
	if err != nil {
		return "", newRefusal(v1.ReasonInvalid, "spec.passwordSecretRef: key %q of Secret %s: %v", ref.Key, where, err)
	}
	return clean, nil
}
