// Package issuertest signs requests for certificates, as an issuer of cert-manager does.
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

// An Issuer signs what it is asked for, with what the request has.
type Issuer struct {
	// Life of what it signs.
	Life time.Duration

	root  *x509.Certificate
	chain []*x509.Certificate // From the one that signs up to the root, without it.
	key   *ecdsa.PrivateKey
}

// New issuer of a CA that has signed itself.
func New(t *testing.T, name string, now time.Time) *Issuer {
	t.Helper()
	i := &Issuer{Life: 30 * 24 * time.Hour, key: newKey(t)}
	c := authority(name, now)
	i.root = sign(t, c, c, i.key, i.key.Public())
	return i
}

// Below the CA of an issuer is one that signs with a CA of its own.
func (i *Issuer) Below(t *testing.T, name string, now time.Time) *Issuer {
	t.Helper()
	out := &Issuer{Life: i.Life, root: i.root, key: newKey(t)}
	out.chain = append([]*x509.Certificate{sign(t, authority(name, now), i.signer(), i.key, out.key.Public())}, i.chain...)
	return out
}

// CA that clients have to know, as PEM.
func (i *Issuer) CA() []byte { return certificate.Encode([]*x509.Certificate{i.root}) }

// Answer a request: the certificate, and those between it and the CA, as PEM.
func (i *Issuer) Answer(t *testing.T, csr []byte, now time.Time) []byte {
	t.Helper()
	block, _ := pem.Decode(csr)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	leaf := sign(t, &x509.Certificate{
		Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, NotBefore: now, NotAfter: now.Add(i.Life),
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

func sign(t *testing.T, c, parent *x509.Certificate, by *ecdsa.PrivateKey, public any) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
