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

// A Grant is what a Job may do with a store.
type Grant struct {
	// Store is the name of the BackupStore.
	Store string `json:"store"`
	// Folder that new objects may be written into, and read again.
	Folder string `json:"folder,omitempty"`
	// Object that may be read, and its file key.
	Object string `json:"object,omitempty"`
}

// A Signer makes tokens of grants. The gateway has its public half only.
type Signer ed25519.PrivateKey

// Format prints [redacted], whatever the verb.
func (Signer) Format(s fmt.State, verb rune) { redact.All{}.Format(s, verb) }

// MarshalText returns [redacted]: no key is stored as JSON.
func (Signer) MarshalText() ([]byte, error) { return redact.All{}.MarshalText() }

// MarshalLog returns [redacted] to loggers.
func (Signer) MarshalLog() any { return redact.All{}.MarshalLog() }

// issuer of tokens, and for whom they are.
const (
	issuer   = "crossplane-mysql"
	audience = "crossplane-mysql-gateway"
)

type claims struct {
	jwt.RegisteredClaims
	Grant
}

// Sign a grant that ends at some time.
func (s Signer) Sign(g Grant, until time.Time) (string, error) {
	if err := g.check(); err != nil {
		return "", err
	}
	c := claims{Grant: g, RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, Audience: jwt.ClaimStrings{audience}, ExpiresAt: jwt.NewNumericDate(until)}}
	return jwt.NewWithClaims(jwt.SigningMethodEdDSA, c).SignedString(ed25519.PrivateKey(s))
}

// check that it is for one thing, and by a name that means nothing else elsewhere.
func (g Grant) check() error {
	switch {
	case g.Store == "":
		return errors.New("the grant is for no store")
	case (g.Folder == "") == (g.Object == ""):
		return errors.New("the grant is for a folder or for an object")
	case !isPlain(g.Folder + g.Object):
		return fmt.Errorf("%.200q is no object's name", g.Folder+g.Object)
	}
	return nil
}

// isPlain is true of a key that is what it says, in a bucket and in a path.
func isPlain(key string) bool {
	return key != "" && key == path.Clean(key) && !strings.HasPrefix(key, "/") && !strings.HasPrefix(key, "..") && !strings.ContainsAny(key, "\\\x00%?#")
}

// isUploadID is true of what a store may have called an upload. One that keeps it in a file system makes a path of it (versitygw 1.8,
// backend/posix/posix.go, joins it to the folder of the object's uploads, and removes what it comes to): it must not lead out of there.
func isUploadID(id string) bool { return id != "." && len(id) <= maxUploadID && isPlain(id) }

// maxUploadID in bytes: those of Amazon S3 have less than 200.
const maxUploadID = 1024

// readGrant of a token, if one of the keys has signed it and its time has not ended.
func readGrant(token string, keys []ed25519.PublicKey, now func() time.Time) (Grant, error) {
	var c claims
	set := jwt.VerificationKeySet{}
	for _, k := range keys {
		set.Keys = append(set.Keys, k)
	}
	_, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return set, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithExpirationRequired(), jwt.WithTimeFunc(now))
	if err != nil {
		return Grant{}, err
	}
	return c.Grant, c.check()
}

// mayWrite is true of an object that lies in the folder itself.
func (g Grant) mayWrite(key string) bool {
	return g.Folder != "" && isPlain(key) && path.Dir(key) == g.Folder && isArchive(key)
}

func (g Grant) mayRead(key string) bool {
	return g.mayWrite(key) || g.Object != "" && key == g.Object && isPlain(key)
}

// isArchive is true of a name that an archive may have: nothing else is written by Jobs.
func isArchive(key string) bool {
	return strings.HasSuffix(key, ".tar.zst") || strings.HasSuffix(key, ".tar.zst.age")
}
