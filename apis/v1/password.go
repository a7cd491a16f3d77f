package v1

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPasswordLength is the longest password that MySQL's caching_sha2_password accepts, in bytes (MAX_PLAINTEXT_LENGTH
// in its source).
const MaxPasswordLength = 256

// Password validates the password of root, and returns it as it is set in the server. It removes one trailing
// newline, because editors and echo add it. Errors never contain the password.
func Password(raw string) (string, error) {
	p := strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
	switch {
	case p == "":
		return "", errors.New("the password is empty, but root must have a password")
	case len(p) > MaxPasswordLength:
		return "", fmt.Errorf("the password is longer than %d bytes, the maximum in MySQL", MaxPasswordLength)
	case !utf8.ValidString(p):
		return "", errors.New("the password is not valid UTF-8")
	case strings.ContainsFunc(p, unicode.IsControl):
		return "", errors.New("the password contains a control character, such as a newline. Remove it")
	}
	return p, nil
}
