// Package issuertest signs certificate signing requests like an issuer of cert-manager.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
)

// An Issuer signs certificate signing requests. The certificates have the names in the requests.
type Issuer struct {
	// Instance is the lifetime of the certificates.
	Instance time.Duration

	root  *x509.Certificate
	chain []*x509.Certificate // From the signing CA to the root, without the root.
	key   *ecdsa.PrivateKey
}

// New returns an issuer with a self-signed CA.
func New(t *testing.T, name string, now time.Time) *Issuer {
	t.Helper()
	i := &Issuer{Instance: 30 * 24 * time.Hour, key: newKey(t)}
	c := authority(name, now)
	i.root = sign(t, c, c, i.key, i.key.Public())
	return i
}

// Below returns an issuer with an intermediate CA that this issuer has signed.
func (i *Issuer) Below(t *testing.T, name string, now time.Time) *Issuer {
	t.Helper()
	out := &Issuer{Instance: i.Instance, root: i.root, key: newKey(t)}
	out.chain = append([]*x509.Certificate{sign(t, authority(name, now), i.signer(), i.key, out.key.Public())}, i.chain...)
	return out
}

// CA returns the root CA for clients as PEM.
func (i *Issuer) CA() []byte { return certificate.Encode([]*x509.Certificate{i.root}) }

// Answer returns the certificate for a request and its intermediate certificates as PEM.
func (i *Issuer) Answer(t *testing.T, csr []byte, now time.Time) []byte {
	t.Helper()
	block, _ := pem.Decode(csr)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	leaf := sign(t, &x509.Certificate{
		Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, NotBefore: now,
		NotAfter:    now.Add(i.Instance),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, i.signer(), i.key, asked.PublicKey)
	return certificate.Encode(append([]*x509.Certificate{leaf}, i.chain...))
}

func (i *Issuer) signer() *x509.Certificate {
	if len(i.chain) > 0 {
		return i.chain[0]
	}
	return i.root
}

func authority(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now, NotAfter: now.AddDate(20, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, c, parent *x509.Certificate, key *ecdsa.PrivateKey, public any) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
