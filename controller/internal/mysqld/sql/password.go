package sql

import (
	"fmt"
	"io"
)

// A Password is printed and marshaled as [password], so that a struct with a password in an exported field can be
// logged.
type Password string

const redacted = "[password]"

// Format implements fmt.Formatter for all verbs.
func (Password) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText implements encoding.TextMarshaler, for JSON, YAML and slog.
func (Password) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalLog implements logr.Marshaler.
func (Password) MarshalLog() any { return redacted }
