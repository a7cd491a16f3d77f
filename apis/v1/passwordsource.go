package v1

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// A PasswordSource is where the wanted password of root is: in the spec, or in a Secret of
// the claim's namespace.
type PasswordSource struct {
	// Stated in the spec; nil where a Secret has it.
	Stated *string
	// Secret that has it; nil where the spec does.
	Secret *SecretKeySelector
	// Generated is true if that Secret is the controller's to make.
	Generated bool
}

// PasswordSource of an instance with such a spec. It is empty for a spec that nobody accepts.
func (s *MySQLPlatformSpec) PasswordSource(i Instance, of *MySQLSpec) PasswordSource {
	switch {
	case of.PasswordSecretRef != nil:
		return PasswordSource{Secret: of.PasswordSecretRef}
	case of.Password != nil:
		return PasswordSource{Stated: of.Password}
	case !isDatabase(i.Kind):
		return PasswordSource{}
	case s.LegacyPassword == LegacyPasswordAllow:
		return PasswordSource{Stated: new(LegacyDatabasePassword)}
	}
	return PasswordSource{Secret: &SecretKeySelector{Name: i.GeneratedSecretName(), Key: PasswordKey}, Generated: true}
}

// CheckPassword that is wanted, as Password returns it, and with the labels of the Secret
// that has it. An error says what to do, and never holds the value.
func (s *MySQLPlatformSpec) CheckPassword(source PasswordSource, password string, labels map[string]string) error {
	switch {
	case source.Generated:
		return nil
	case source.Secret == nil && s.RequirePasswordSecret:
		return errors.New("the platform wants it in a Secret: name that in passwordSecretRef")
	case source.Secret != nil && s.RequirePasswordLabel && labels[LabelPassword] != "true":
		return fmt.Errorf("the platform wants such a Secret to have the label %s=true, by which its owner says that claims may use it", LabelPassword)
	case utf8.RuneCountInString(password) < int(s.MinPasswordLength):
		return fmt.Errorf("the password is shorter than the platform wants: use %d characters or more", s.MinPasswordLength)
	}
	return nil
}
