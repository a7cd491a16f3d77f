// Package redact keeps secrets out of logs and messages. A struct that holds a secret embeds one of its types.
//
// A field that is not exported needs more care: package fmt calls no method of its value. So the struct that has the
// field embeds a type of this package as well (TestNoSecretIsPrinted finds the structs that need it).
package redact

import (
	"fmt"
	"io"
	"log/slog"
)

const text = "[redacted]"

// All makes the struct that embeds it print, log and marshal as [redacted].
type All struct{}

// Format implements fmt.Formatter for all verbs.
func (All) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, text) }

// MarshalText implements encoding.TextMarshaler, for JSON, YAML and slog.
func (All) MarshalText() ([]byte, error) { return []byte(text), nil }

// MarshalLog implements logr.Marshaler.
func (All) MarshalLog() any { return text }

// Logs makes the struct that embeds it print and log as [redacted]. Its JSON has all fields, because that is how it is
// stored.
type Logs struct{}

// Format implements fmt.Formatter for all verbs.
func (Logs) Format(s fmt.State, verb rune) { All{}.Format(s, verb) }

// MarshalLog implements logr.Marshaler.
func (Logs) MarshalLog() any { return text }

// LogValue implements slog.LogValuer.
func (Logs) LogValue() slog.Value { return slog.StringValue(text) }
