package v1

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPasswordLength in bytes is what MySQL's caching_sha2_password accepts
// (MAX_PLAINTEXT_LENGTH in its source).
const MaxPasswordLength = 256

// Password is the password of root as the server gets it: without one trailing
// newline, which editors and echo leave behind. Errors never hold the value.
func Password(raw string) (string, error) {
	p := strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
	switch {
	case p == "":
		return "", errors.New("the password is empty; root needs one")
	case len(p) > MaxPasswordLength:
		return "", fmt.Errorf("the password has more than %d bytes, which MySQL does not accept", MaxPasswordLength)
	case !utf8.ValidString(p):
		return "", errors.New("the password is not UTF-8")
	case strings.ContainsFunc(p, unicode.IsControl):
		return "", errors.New("the password has a control character, such as a newline; remove it")
	}
	return p, nil
}
