package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
)

// MaxSealed is the maximum size in bytes of a signed object, including its signature.
const MaxSealed = 64 << 10

// errBroken is the error for an invalid signature.
var errBroken = errors.New("its signature is not valid: it was written, moved or changed without the signing key " +
	"of the store")

// A SealKey signs objects and verifies signatures. A user who only has write access to the bucket does not have the
// key.
type SealKey [32]byte

// NewSealKey returns a random key.
func NewSealKey() SealKey {
	var k SealKey
	_, _ = rand.Read(k[:]) // It never fails.
	return k
}

// ParseSealKey parses a key in the format of Text.
func ParseSealKey(s string) (SealKey, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(raw) != len(SealKey{}) {
		return SealKey{}, fmt.Errorf("the signing key is not %d bytes in Base64", len(SealKey{}))
	}
	return SealKey(raw), nil
}

// Text returns the key in Base64 for its Secret.
func (k SealKey) Text() string { return base64.StdEncoding.EncodeToString(k[:]) }

// Format prints [redacted] for all formatting verbs.
func (SealKey) Format(s fmt.State, verb rune) { redact.All{}.Format(s, verb) }

// MarshalText returns [redacted]. Keys are never stored as JSON.
func (SealKey) MarshalText() ([]byte, error) { return redact.All{}.MarshalText() }

// MarshalLog returns [redacted] to loggers.
func (SealKey) MarshalLog() any { return redact.All{}.MarshalLog() }

// sealed is the format of a signed object.
type sealed struct {
	// Content is the signed content, byte for byte.
	Content json.RawMessage `json:"content"`
	// HMAC is computed with SHA-256 over the object's key, a line feed and the compacted content.
	HMAC []byte `json:"hmacSha256"`
}

// Seal returns signed JSON for the object with this key. The signature is not valid under a different key.
func (k SealKey) Seal(key string, content any) ([]byte, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(sealed{Content: raw, HMAC: k.sum(key, raw)}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// Open verifies and decodes the signed object with this key.
func (k SealKey) Open(key string, raw []byte, content any) error {
	var s sealed
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("the object %q cannot be read: %w", key, err)
	}
	var compact bytes.Buffer // The same JSON may be formatted differently.
	if err := json.Compact(&compact, s.Content); err != nil {
		return fmt.Errorf("the object %q cannot be read: %w", key, err)
	}
	if !hmac.Equal(s.HMAC, k.sum(key, compact.Bytes())) {
		return fmt.Errorf("the object %q is not trusted: %w", key, errBroken)
	}
	if err := json.Unmarshal(s.Content, content); err != nil {
		return fmt.Errorf("the object %q cannot be read: %w", key, err)
	}
	return nil
}

// ParseTrusted decodes a signed object without the signing key. The caller must have verified its checksum.
func ParseTrusted(raw []byte, content any) error {
	var s sealed
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	return json.Unmarshal(s.Content, content)
}

func (k SealKey) sum(key string, content []byte) []byte {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte(key + "\n"))
	m.Write(content)
	return m.Sum(nil)
}
