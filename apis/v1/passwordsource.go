package v1

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// A PasswordSource specifies where the requested password of root is stored: in the spec, or in a Secret in the claim's
// namespace.
type PasswordSource struct {
	// Stated is the password, in clear text. It is nil if a Secret contains the password.
	Stated *string
	// Secret is the key of a Secret that contains the password. It is nil if Stated is set.
	Secret *SecretKeySelector
	// Generated is true if the controller generates the password and creates the Secret.
	Generated bool
}

// PasswordSource returns the source of the password of an instance. It is empty if the spec is invalid.
func (s *PlatformSpec) PasswordSource(i Instance, spec *MySQLSpec) PasswordSource {
	switch {
	case spec.PasswordSecretRef != nil:
		return PasswordSource{Secret: spec.PasswordSecretRef}
	case spec.Password != nil:
		return PasswordSource{Stated: spec.Password}
	case !i.mayGeneratePassword():
		return PasswordSource{}
	case isDatabase(i.Kind) && s.LegacyPassword == LegacyPasswordAllow:
		return PasswordSource{Stated: new(LegacyDatabasePassword)}
	}
	return PasswordSource{Secret: &SecretKeySelector{Name: i.GeneratedSecretName(), Key: PasswordKey}, Generated: true}
}

// CheckPassword checks a password, as Password returns it, and the labels of its Secret against the platform policy. An
// error describes what to do, and never contains the password.
func (s *PlatformSpec) CheckPassword(source PasswordSource, password string, labels map[string]string) error {
	switch {
	case source.Generated:
		return nil
	case source.Secret == nil && s.RequirePasswordSecret:
		return errors.New("the platform does not allow a password in the spec. Store it in a Secret, and set " +
			"passwordSecretRef")
	case source.Secret != nil && s.RequirePasswordLabel && labels[LabelPassword] != "true":
		return fmt.Errorf("the platform requires the label %s=true on this Secret. With the label, the owner of the "+
			"Secret allows claims to use it", LabelPassword)
	case utf8.RuneCountInString(password) < int(s.MinPasswordLength):
		return fmt.Errorf("the password is shorter than the platform requires. Use "+
			"at least %d characters", s.MinPasswordLength)
	}
	return nil
}
