package sql

import (
	"crypto/rand"
	"fmt"
	"io"
)

// A Password prints and marshals as [password], whatever the verb: what has one
// in an exported field can be logged.
type Password string

// NewPassword that means nothing to anybody, nor to a shell or an option file, and that the usual
// rules for passwords accept (validate_password).
func NewPassword() Password { return Password(rand.Text() + "_Aa1") }

const redacted = "[password]"

// Format implements fmt.Formatter for all verbs.
func (Password) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText implements encoding.TextMarshaler, for JSON, YAML and slog.
func (Password) MarshalText() ([]byte, error) { return []byte(redacted), nil }
