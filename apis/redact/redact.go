// Package redact keeps secrets out of logs and messages. A struct that contains a secret embeds a type of this
// package.
//
// Package fmt does not call the methods of values in unexported fields. A struct with a secret in an unexported field
// must therefore embed a type of this package as well. TestNoSecretIsPrinted finds structs that do not.
package redact

import (
	"fmt"
	"io"
	"log/slog"
)

const text = "[redacted]"

// All is embedded in a struct that must be printed, logged and marshaled as [redacted].
type All struct{}

// Format implements fmt.Formatter for all verbs.
func (All) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, text) }

// MarshalText implements encoding.TextMarshaler, for JSON, YAML and slog.
func (All) MarshalText() ([]byte, error) { return []byte(text), nil }

// MarshalLog implements logr.Marshaler.
func (All) MarshalLog() any { return text }

// Logs is embedded in a struct that must be printed and logged as [redacted]. Its JSON contains all fields, because
// the struct is stored as JSON.
type Logs struct{}

// Format implements fmt.Formatter for all verbs.
func (Logs) Format(s fmt.State, verb rune) { All{}.Format(s, verb) }

// MarshalLog implements logr.Marshaler.
func (Logs) MarshalLog() any { return text }

// LogValue implements slog.LogValuer.
func (Logs) LogValue() slog.Value { return slog.StringValue(text) }
