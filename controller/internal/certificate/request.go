package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
)

// A PrivateKey is a private key as PEM.
type PrivateKey []byte

// NewPrivateKey returns a new P-256 key.
func NewPrivateKey() (PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// Format prints [redacted] for all formatting verbs.
func (PrivateKey) Format(s fmt.State, verb rune) { redact.All{}.Format(s, verb) }

// MarshalText returns [redacted]. Keys are never stored as JSON.
func (PrivateKey) MarshalText() ([]byte, error) { return redact.All{}.MarshalText() }

// MarshalLog returns [redacted] to loggers.
func (PrivateKey) MarshalLog() any { return redact.All{}.MarshalLog() }

// Check returns an error if the key is not of the type that the controller creates.
func (k PrivateKey) Check() error {
	_, err := k.parse()
	return err
}

// Request returns a certificate signing request for the key, as PEM (PKCS #10).
func (k PrivateKey) Request(names Names) ([]byte, error) {
	key, err := k.parse()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: commonName(names)}, DNSNames: names.DNS, IPAddresses: names.IPs,
	}, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// commonName returns the first name of a server, because some certificate authorities require a common name. It
// returns "" if that name is too long (RFC 5280, ub-common-name).
func commonName(names Names) string {
	if len(names.DNS) == 0 || len(names.DNS[0]) > 64 {
		return ""
	}
	return names.DNS[0]
}

// Asks reports whether a certificate signing request is for this key and exactly these names.
func (k PrivateKey) Asks(csr []byte, names Names) bool {
	key, err := k.parse()
	block, _ := pem.Decode(csr)
	if err != nil || block == nil {
		return false
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && key.PublicKey.Equal(r.PublicKey) && sameNames(r.DNSNames, r.IPAddresses, names)
}

func (k PrivateKey) parse() (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(k)
	if block == nil {
		return nil, errors.New("the key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key has a type that the controller does not create")
	}
	return key, nil
}

// ParseAll returns all certificates in a PEM text. It skips unreadable ones.
func ParseAll(raw []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			return out
		}
		if c, err := parseDER(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
}

// Encode returns certificates as PEM.
func Encode(certificates []*x509.Certificate) []byte {
	out := &bytes.Buffer{}
	for _, c := range certificates {
		out.Write(encode(c.Raw))
	}
	return out.Bytes()
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Verify returns an error unless the first certificate of the chain is valid for all names. The other certificates of
// the chain are intermediate certificates up to a certificate authority.
func Verify(chain, authorities []*x509.Certificate, now time.Time, names ...string) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range authorities {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	for _, name := range names {
		if err := chain[0].VerifyHostname(name); err != nil {
			return err
		}
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}
