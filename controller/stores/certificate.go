package stores

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	// authorityLife is how long the gateway's authority is there, and certificateLife how long a certificate of it. Who is older than two
	// thirds of that gets a new one: Jobs know the authority, so that they need not see it.
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 90 * 24 * time.Hour
	// clockSlack is how much clocks may differ.
	clockSlack = time.Hour
)

// A pair is a certificate with its key, as PEM.
type pair struct{ certificate, key []byte }

// newAuthority that signs the gateway's certificates.
func newAuthority(now time.Time) (pair, error) {
	return makeCertificate(now, &x509.Certificate{
		Subject: pkix.Name{CommonName: "crossplane-mysql gateway authority"}, NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, MaxPathLenZero: true,
	}, nil)
}

// newCertificate of the gateway, by its name and its address.
func (p pair) newCertificate(now time.Time, host string, ip net.IP) (pair, error) {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, NotAfter: now.Add(certificateLife), DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip != nil {
		c.IPAddresses = []net.IP{ip}
	}
	return makeCertificate(now, c, &p)
}

// makeCertificate that an authority signs, or itself.
func makeCertificate(now time.Time, c *x509.Certificate, by *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return pair{}, err
	}
	c.NotBefore = now.Add(-clockSlack)
	parent, signer := c, key
	if by != nil {
		if parent, signer, err = by.parse(); err != nil {
			return pair{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		return pair{}, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}, nil
}

func (p pair) parse() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	c, err := parseCertificate(p.certificate)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(p.key)
	if block == nil {
		return nil, nil, errors.New("the key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(c.PublicKey) {
		return nil, nil, errors.New("the key is not that of the certificate")
	}
	return c, key, nil
}

func parseCertificate(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("the certificate is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// whyRenew a certificate of the gateway; empty where it is good for a while.
func (p pair) whyRenew(of pair, now time.Time, host string, ip net.IP) string {
	authority, _, err := p.parse()
	if err != nil {
		return err.Error()
	}
	c, _, err := of.parse()
	switch {
	case err != nil:
		return err.Error()
	case c.CheckSignatureFrom(authority) != nil:
		return "another authority has signed it"
	case now.After(c.NotAfter.Add(-certificateLife / 3)):
		return fmt.Sprintf("it ends at %s", c.NotAfter)
	case !slices.Contains(c.DNSNames, host), ip != nil && !slices.ContainsFunc(c.IPAddresses, ip.Equal):
		return "the gateway has another name, or another address"
	}
	return ""
}
