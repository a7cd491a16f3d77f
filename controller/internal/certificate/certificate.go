// Package certificate creates certificates for servers in the cluster, and decides when to renew them. The keys are
// P-256 keys, which all TLS 1.2 clients support.
package certificate

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	// AuthorityLifetime is the lifetime of a certificate authority.
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	// Instance is the lifetime of a server's certificate. The controller renews the certificate after two thirds of
	// this time.
	Instance = 90 * 24 * time.Hour
	// Slack is the maximum difference between clocks. The validity of a certificate begins this long before its
	// creation.
	Slack = time.Hour
)

// A Pair is a certificate with its private key, both as PEM.
type Pair struct {
	Certificate []byte
	Key         PrivateKey
}

// Names are the host names and IP addresses of a server.
type Names struct {
	DNS []string
	IPs []net.IP
}

// All returns all names as strings.
func (n Names) All() []string {
	out := slices.Clone(n.DNS)
	for _, ip := range n.IPs {
		out = append(out, ip.String())
	}
	return out
}

// NewAuthority returns a self-signed certificate authority. The name is only informative.
func NewAuthority(now time.Time, name string) (Pair, error) {
	return newPair(now, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: now.Add(AuthorityLifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, MaxPathLenZero: true,
	}, nil)
}

// Sign returns a new server certificate with its key. It expires no later than its certificate authority.
func (p Pair) Sign(now time.Time, names Names) (Pair, error) {
	authority, _, err := p.parse()
	if err != nil {
		return Pair{}, err
	}
	c := &x509.Certificate{
		NotAfter: now.Add(Instance), DNSNames: names.DNS, IPAddresses: names.IPs,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if authority.NotAfter.Before(c.NotAfter) {
		c.NotAfter = authority.NotAfter
	}
	return newPair(now, c, &p)
}

// newPair returns a certificate with a new key. It is self-signed if there is no issuer.
func newPair(now time.Time, c *x509.Certificate, issuer *Pair) (Pair, error) {
	made, err := NewPrivateKey()
	if err != nil {
		return Pair{}, err
	}
	key, err := made.parse()
	if err != nil {
		return Pair{}, err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return Pair{}, err
	}
	c.NotBefore = now.Add(-Slack)
	parent, signer := c, key
	if issuer != nil {
		if parent, signer, err = issuer.parse(); err != nil {
			return Pair{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: encode(der), Key: made}, nil
}

// Check checks that the key belongs to the certificate.
func (p Pair) Check() error {
	_, _, err := p.parse()
	return err
}

// Parse returns the first certificate in a PEM text.
func Parse(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("the certificate is not PEM")
	}
	return parseDER(block.Bytes)
}

// maxRSA is the maximum size in bits of an RSA key that verifies a certificate. crypto/tls limits the key of the
// server, but not the keys of its issuers. Verification with a key of a million bits would use a CPU for minutes,
// regardless of any deadline.
const maxRSA = 8192

func parseDER(raw []byte) (*x509.Certificate, error) {
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
		return nil, fmt.Errorf("its RSA key has %d bits, but at most %d are accepted", key.N.BitLen(), maxRSA)
	}
	return c, nil
}

// WhyRenew returns the reason why the certificate of a server with these names must be renewed, or "".
func (p Pair) WhyRenew(issuer Pair, now time.Time, names Names) string {
	authority, _, err := p.parse()
	if err != nil {
		return err.Error()
	}
	c, _, err := issuer.parse()
	switch {
	case err != nil:
		return err.Error()
	case c.CheckSignatureFrom(authority) != nil:
		return "it is signed by a different certificate authority"
	case now.Before(c.NotBefore):
		return fmt.Sprintf("it is not valid before %s: the clock of its issuer was ahead", c.NotBefore)
	case now.After(c.NotBefore.Add(Slack).Add(Instance / 3 * 2)):
		return fmt.Sprintf("it expires at %s", c.NotAfter)
	case !sameNames(c.DNSNames, c.IPAddresses, names):
		return "it is for other host names"
	}
	return ""
}

func (p Pair) parse() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	c, err := Parse(p.Certificate)
	if err != nil {
		return nil, nil, err
	}
	key, err := p.Key.parse()
	if err != nil {
		return nil, nil, err
	}
	if !key.PublicKey.Equal(c.PublicKey) {
		return nil, nil, errors.New("the key does not match the certificate")
	}
	return c, key, nil
}

// sameNames reports whether a certificate has exactly these names, in this order.
func sameNames(dns []string, ips []net.IP, names Names) bool {
	return slices.Equal(dns, names.DNS) && slices.EqualFunc(ips, names.IPs, net.IP.Equal)
}
