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

// MaxSigned is the maximum size in bytes of a signed object, including its signature.
const MaxSigned = 64 << 10

// errBroken is the error for an invalid signature.
var errBroken = errors.New("its signature is not valid: it was written, moved or changed without the signing key " +
	"of the store")

// A SigningKey signs objects and verifies signatures. A user who only has write access to the bucket does not have the
// key.
type SigningKey [32]byte

// NewSigningKey returns a random key.
func NewSigningKey() SigningKey {
	var k SigningKey
	_, _ = rand.Read(k[:]) // It never fails.
	return k
}

// ParseSigningKey parses a key in the format of Text.
func ParseSigningKey(s string) (SigningKey, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(raw) != len(SigningKey{}) {
		return SigningKey{}, fmt.Errorf("the signing key is not %d bytes in Base64", len(SigningKey{}))
	}
	return SigningKey(raw), nil
}

// Text returns the key in Base64 for its Secret.
func (k SigningKey) Text() string { return base64.StdEncoding.EncodeToString(k[:]) }

// Format prints [redacted] for all formatting verbs.
func (SigningKey) Format(s fmt.State, verb rune) { redact.All{}.Format(s, verb) }

// MarshalText returns [redacted]. Keys are never stored as JSON.
func (SigningKey) MarshalText() ([]byte, error) { return redact.All{}.MarshalText() }

// MarshalLog returns [redacted] to loggers.
func (SigningKey) MarshalLog() any { return redact.All{}.MarshalLog() }

// signedObject is the format of a signed object.
type signedObject struct {
	// Content is the signed content, byte for byte.
	Content json.RawMessage `json:"content"`
	// HMAC is computed with SHA-256 over the object's key, a line feed and the compacted content.
	HMAC []byte `json:"hmacSha256"`
}

// Sign returns signed JSON for the object with this key. The signature is not valid under a different key.
func (k SigningKey) Sign(key string, content any) ([]byte, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(signedObject{Content: raw, HMAC: k.sum(key, raw)}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// Open verifies and decodes the signed object with this key.
func (k SigningKey) Open(key string, raw []byte, content any) error {
	var s signedObject
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
	var s signedObject
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	return json.Unmarshal(s.Content, content)
}

func (k SigningKey) sum(key string, content []byte) []byte {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte(key + "\n"))
	m.Write(content)
	return m.Sum(nil)
}
