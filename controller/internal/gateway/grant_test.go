package gateway

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func TestGrants(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	good := Grant{Store: "s", Prefix: "v1/n/x/r"}
	sign := func(k ed25519.PrivateKey, g Grant, until time.Time) string {
		token, err := Signer(k).Sign(g, until)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	whole := sign(private, good, now.Add(time.Minute))
	none := jwt.NewWithClaims(jwt.SigningMethodNone,
		claims{Grant: good, RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, Audience: jwt.ClaimStrings{audience},
			ExpiresAt: jwt.NewNumericDate(now.Add(time.Minute))}})
	unsigned, err := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	// The public key is not secret. A token must be refused if the public key was used as an HMAC key to sign it.
	hmac, err := jwt.NewWithClaims(jwt.SigningMethodHS256, none.Claims).SignedString([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	signed := func(c claims) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c).SignedString(private)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	in := jwt.NewNumericDate(now.Add(time.Minute))
	parts := strings.Split(whole, ".")
	other := base64.RawURLEncoding.EncodeToString(
		[]byte(
			`{"iss":"crossplane-mysql","aud":["crossplane-mysql-gateway"],"exp":9999999999,"store":"s","folder":"v1/n/other/r"}`))
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"Good":  {whole, true},
		"Ended": {sign(private, good, now.Add(-time.Second)), false},
		"NoEnd": {signed(claims{Grant: good,
			RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, Audience: jwt.ClaimStrings{audience}}}), false},
		"Stranger": {sign(stranger, good, now.Add(time.Minute)), false},
		"Unsigned": {unsigned, false},
		"HMAC":     {hmac, false},
		"Changed":  {parts[0] + "." + other + "." + parts[2], false},
		"ForOthers": {signed(claims{Grant: good,
			RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, Audience: jwt.ClaimStrings{"other"}, ExpiresAt: in}}), false},
		"OfOthers": {signed(claims{Grant: good,
			RegisteredClaims: jwt.RegisteredClaims{Issuer: "other", Audience: jwt.ClaimStrings{audience},
				ExpiresAt: in}}), false},
		"ForNothing": {signed(claims{Grant: Grant{Store: "s"},
			RegisteredClaims: jwt.RegisteredClaims{Issuer: issuer, Audience: jwt.ClaimStrings{audience},
				ExpiresAt: in}}), false},
		"OfOldSigner":  {whole, true},
		"Empty":        {"", false},
		"NotAToken":    {"a.b.c", false},
		"TwiceAsLarge": {whole + whole, false},
	} {
		t.Run(name, func(t *testing.T) {
			keys := []ed25519.PublicKey{public}
			if name == "OfOldSigner" {
				keys = []ed25519.PublicKey{stranger.Public().(ed25519.PublicKey), public}
			}
			g, err := readGrant(c.token, keys, func() time.Time { return now })
			if (err == nil) != c.want || c.want && g != good {
				t.Errorf("want %t, got %+v, %v", c.want, g, err)
			}
		})
	}
}

func TestMay(t *testing.T) {
	writes, reads := Grant{Store: "s", Prefix: "v1/n/x/r"}, Grant{Store: "s", Object: "v1/n/x/r/1.tar.zst.age"}
	for key, want := range map[string]struct{ write, read, readOne bool }{
		"v1/n/x/r/1.tar.zst.age":           {true, true, true},
		"v1/n/x/r/1.tar.zst":               {true, true, false},
		"v1/n/x/r/manifest.json":           {false, false, false},
		"v1/n/x/r/deep/1.tar.zst":          {false, false, false},
		"v1/n/x/r2/1.tar.zst":              {false, false, false},
		"v1/n/x/r/../r2/1.tar.zst":         {false, false, false},
		"v1/n/x/r//1.tar.zst":              {false, false, false},
		"/v1/n/x/r/1.tar.zst":              {false, false, false},
		"v1/n/x/r/%2e%2e/r2/1.tar.zst":     {false, false, false},
		"v1/n/x/r/1.tar.zst.age?x":         {false, false, false},
		"v1/n/x/r/../r/1.tar.zst.age":      {false, false, false},
		"v1/n/x/r/.tar.zst":                {true, true, false},
		"":                                 {false, false, false},
		"..":                               {false, false, false},
		`v1/n/x/r\..\1.tar.zst`:            {false, false, false},
		"v1/n/x/r/1.tar.zst.age\x00.tar.z": {false, false, false},
	} {
		if writes.mayWrite(key) != want.write || writes.mayRead(key) != want.read || reads.mayRead(key) != want.readOne ||
			reads.mayWrite(key) {
			t.Errorf("%q: want %+v, got %t, %t, %t, and %t where nothing may be written", key, want, writes.mayWrite(key),
				writes.mayRead(key), reads.mayRead(key), reads.mayWrite(key))
		}
	}
	for _, g := range []Grant{{}, {Store: "s"}, {Prefix: "f"}, {Store: "s", Prefix: "f", Object: "o"},
		{Store: "s", Prefix: "../f"}, {Store: "s", Prefix: "f/"}, {Store: "s", Object: "/o"}} {
		if _, err := (Signer(make(ed25519.PrivateKey, ed25519.PrivateKeySize))).Sign(g, time.Now()); err == nil {
			t.Errorf("%+v is signed", g)
		}
	}
}
