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

// MaxSealed in bytes of what is sealed, with its seal.
const MaxSealed = 64 << 10

// errBroken is a seal that does not hold.
var errBroken = errors.New("its seal does not hold: it was written, moved or changed by who does not have the store's key")

// A SealKey says who wrote an object, to who has the key, too. Whoever can write to the bucket has it not.
type SealKey [32]byte

// NewSealKey that nobody else has.
func NewSealKey() SealKey {
	var k SealKey
	_, _ = rand.Read(k[:]) // It never fails.
	return k
}

// ParseSealKey reads what Text returned.
func ParseSealKey(s string) (SealKey, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(raw) != len(SealKey{}) {
		return SealKey{}, fmt.Errorf("the seal key is not %d bytes in Base64", len(SealKey{}))
	}
	return SealKey(raw), nil
}

// Text is the key in Base64, for the Secret that it is stored in.
func (k SealKey) Text() string { return base64.StdEncoding.EncodeToString(k[:]) }

// Format prints [redacted], whatever the verb.
func (SealKey) Format(s fmt.State, verb rune) { redact.All{}.Format(s, verb) }

// MarshalText returns [redacted]: no key is stored as JSON.
func (SealKey) MarshalText() ([]byte, error) { return redact.All{}.MarshalText() }

// MarshalLog returns [redacted] to loggers.
func (SealKey) MarshalLog() any { return redact.All{}.MarshalLog() }

// sealed is how an object with a seal looks.
type sealed struct {
	// Content as it was sealed, byte by byte.
	Content json.RawMessage `json:"content"`
	// HMAC is that of the object's key, a line feed and the compacted content, with SHA-256.
	HMAC []byte `json:"hmacSha256"`
}

// Seal JSON for the object of a key: it holds there, and nowhere else.
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

// Open what was sealed for the object of a key.
func (k SealKey) Open(key string, raw []byte, content any) error {
	var s sealed
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("the object %q cannot be read: %w", key, err)
	}
	var compact bytes.Buffer // People reformat JSON, and that says nothing else.
	if err := json.Compact(&compact, s.Content); err != nil {
		return fmt.Errorf("the object %q cannot be read: %w", key, err)
	}
	if !hmac.Equal(s.HMAC, k.sum(key, compact.Bytes())) {
		return fmt.Errorf("the object %q is not believed: %w", key, errBroken)
	}
	if err := json.Unmarshal(s.Content, content); err != nil {
		return fmt.Errorf("the object %q cannot be read: %w", key, err)
	}
	return nil
}

func (k SealKey) sum(key string, content []byte) []byte {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte(key + "\n"))
	m.Write(content)
	return m.Sum(nil)
}
