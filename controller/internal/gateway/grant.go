package gateway

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
)

// A Grant is a Job's permission to use a store.
type Grant struct {
	// Store is the name of the BackupStore.
	Store string `json:"store"`
	// Prefix is the prefix below which new objects may be written and read back.
	Prefix string `json:"folder,omitempty"`
	// Object is the object that may be read. The grant also gives access to its file key.
	Object string `json:"object,omitempty"`
	// Log is the prefix of an archived binary log whose objects may be read, in addition to Object.
	Log string `json:"log,omitempty"`
}

// A Signer signs grants. The gateway has only its public key.
type Signer ed25519.PrivateKey

// Format prints [redacted] for all formatting verbs.
func (Signer) Format(s fmt.State, verb rune) { redact.All{}.Format(s, verb) }

// MarshalText returns [redacted]. Keys are never stored as JSON.
func (Signer) MarshalText() ([]byte, error) { return redact.All{}.MarshalText() }

// MarshalLog returns [redacted] to loggers.
func (Signer) MarshalLog() any { return redact.All{}.MarshalLog() }

// issuer and audience are claims that each token must contain.
const (
	issuer   = "crossplane-mysql"
	audience = "crossplane-mysql-gateway"
)

type claims struct {
	jwt.RegisteredClaims
	Grant
}

// Sign returns a token for a grant. The token expires at the given time.
func (s Signer) Sign(g Grant, until time.Time) (string, error) {
	if err := g.check(); err != nil {
		return "", err
	}
	c := claims{Grant: g, RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, Audience: jwt.ClaimStrings{audience},
		ExpiresAt: jwt.NewNumericDate(until)}}
	return jwt.NewWithClaims(jwt.SigningMethodEdDSA, c).SignedString(ed25519.PrivateKey(s))
}

// check returns an error unless the grant is for one prefix or one object with an unambiguous name.
func (g Grant) check() error {
	switch {
	case g.Store == "":
		return errors.New("the token does not specify a store")
	case (g.Prefix == "") == (g.Object == ""):
		return errors.New("the token must be for either a prefix or an object")
	case g.Log != "" && (g.Object == "" || !isPlain(g.Log)):
		return fmt.Errorf("%.200q is not the prefix of a binary log for a recovery", g.Log)
	case !isPlain(g.Prefix + g.Object):
		return fmt.Errorf("%.200q is not the name of an object", g.Prefix+g.Object)
	}
	return nil
}

// isPlain reports whether a key identifies the same object in a URL, in a path and in a store. It contains no
// characters to escape and no path elements to clean.
func isPlain(key string) bool {
	return key != "" && key == path.Clean(key) && !strings.HasPrefix(key, "/") && !strings.HasPrefix(key, "..") &&
		!strings.ContainsAny(key, "\\\x00%?#")
}

// isUploadID reports whether a string can be an upload ID. A store with a file system may use the ID in a path, which
// must not point outside. For example, versitygw 1.8 appends the ID to the directory of the object's uploads and
// removes the result (backend/posix/posix.go).
func isUploadID(id string) bool { return id != "." && len(id) <= maxUploadID && isPlain(id) }

// maxUploadID is the maximum length of an upload ID in bytes. IDs of Amazon S3 are shorter than 200 bytes.
const maxUploadID = 1024

// readGrant verifies and decodes a token. A key in keys must have signed the token, and the token must not have expired.
func readGrant(token string, keys []ed25519.PublicKey, now func() time.Time) (Grant, error) {
	var c claims
	set := jwt.VerificationKeySet{}
	for _, k := range keys {
		set.Keys = append(set.Keys, k)
	}
	_, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return set, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(issuer), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(now))
	if err != nil {
		return Grant{}, err
	}
	return c.Grant, c.check()
}

// mayWrite reports whether an object is directly below the grant's prefix.
func (g Grant) mayWrite(key string) bool {
	return g.Prefix != "" && isPlain(key) && path.Dir(key) == g.Prefix && isArchive(key)
}

func (g Grant) mayRead(key string) bool {
	return isPlain(key) && (g.mayWrite(key) || g.Object != "" && key == g.Object || g.Log != "" && path.Dir(key) == g.Log)
}

// isArchive reports whether a name has the suffix of an archive. Jobs may not write other objects.
func isArchive(key string) bool {
	return strings.HasSuffix(key, ".tar.zst") || strings.HasSuffix(key, ".tar.zst.age")
}
