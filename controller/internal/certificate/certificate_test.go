package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"math/big"
	"testing"
	"time"
)

// TestLargeKeys checks that a certificate is ignored if verification with its key would take minutes of CPU time.
func TestLargeKeys(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificateOf := func(bits uint) []byte {
		n := new(big.Int).Lsh(big.NewInt(1), bits-1)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
			BasicConstraintsValid: true}
		raw, err := x509.CreateCertificate(rand.Reader, template, template,
			&rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}, key)
		if err != nil {
			t.Fatal(err)
		}
		return encode(raw)
	}
	good, bad := certificateOf(8192), certificateOf(8193)
	if _, err := Parse(good); err != nil {
		t.Errorf("8192 bits: %v", err)
	}
	if _, err := Parse(bad); err == nil {
		t.Error("8193 bits are taken")
	}
	if got := ParseAll(append(append(append([]byte{}, bad...), good...), bad...)); len(got) != 1 {
		t.Errorf("of three of them %d are taken", len(got))
	}
}

// TestFutureIsRenewed checks that a certificate is renewed if it was created while the clock was ahead. A valid new
// certificate is not renewed.
func TestFutureIsRenewed(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	ca, err := NewAuthority(now, "authority")
	if err != nil {
		t.Fatal(err)
	}
	names := Names{DNS: []string{"db.shop.svc"}}
	for days, renewed := range map[int]bool{-61: true, -59: false, 0: false, 1: true, 31: true, 60: true, 1000: true} {
		made, err := ca.Sign(now.AddDate(0, 0, days), names)
		if err != nil {
			t.Fatal(err)
		}
		if reason := ca.WhyRenew(made, now, names); (reason != "") != renewed {
			t.Errorf("made by a clock %d days ahead: want it renewed %t, got %q", days, renewed, reason)
		}
	}
}
