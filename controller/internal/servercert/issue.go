package servercert

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
)

// nextKey is the key in the server's Secret for the private key of a requested certificate. The server does not mount
// it.
const nextKey = "next.key"

// retryIssuer is the delay after which a failed request is replaced by a new one. cert-manager does not retry a
// failed request.
const retryIssuer = time.Hour

// A Request is a request to an issuer of cert-manager.
type Request struct {
	// Issuer is the requested issuer, CSR is the certificate signing request as PEM, and MadeAt is the time of the
	// request.
	Issuer v1.IssuerReference
	CSR    []byte
	MadeAt time.Time
	// Certificate is the certificate with its intermediate certificates. CA is the CA that signed it. Both are PEM,
	// and empty until the issuer has signed.
	Certificate, CA []byte
	// Refused is true if the issuer will not sign. Message is cert-manager's message.
	Refused bool
	Message string
}

// nextIssued plans the certificate of a server that uses an issuer.
//
// A valid certificate is used until it is due for renewal, regardless of its issuer. If the new certificate is signed
// by a CA that clients do not know yet, this CA is published immediately. The server presents the new certificate
// only after half of the remaining time, so that clients have time to read the new CA.
func nextIssued(s *State) (*Plan, error) {
	now := s.current()
	// The plan contains only certificates that current has verified. Users can write anything to the server's Secret,
	// but clients and the controller verify the server with the published certificates.
	out := &Plan{Certificate: now.leaf, Issuer: s.signedBy(now), Published: certificate.Encode(now.published)}
	switch {
	case s.isSettled():
		return out, nil
	case s.Unreachable != "":
		out.Message = s.Unreachable
		return out, nil
	}
	pending, err := s.pendingKey(out)
	if err != nil {
		return nil, err
	}
	if r := s.Request; r != nil && pending.Asks(r.CSR, s.names()) && r.Issuer.WithDefaults() == s.Issuer.WithDefaults() {
		s.follow(now, pending, out)
		return out, nil
	}
	return out, s.ask(now, pending, out)
}

// ask plans a new certificate request. An existing request is deleted first, and the next pass creates the new one.
func (s *State) ask(now shown, pending certificate.PrivateKey, out *Plan) (err error) {
	if !now.isGood(s) {
		out.Message = fmt.Sprintf("Waiting for the server's certificate from %s", s.Issuer)
	}
	if out.DropRequest = s.Request != nil; !out.DropRequest {
		out.Request, err = pending.Request(s.names())
	}
	return err
}

// follow plans the next step for an existing request: use its certificate, wait, or replace the request after a
// failure.
func (s *State) follow(now shown, pending certificate.PrivateKey, out *Plan) {
	r, ended := s.Request, s.Request.Refused
	if len(r.Certificate) > 0 && !ended {
		err := s.check(pending, r)
		if err == nil {
			s.show(now, pending, out)
			return
		}
		ended, out.Message = true, fmt.Sprintf("%s issued a certificate that the server cannot use: %v", s.Issuer, err)
	} else {
		out.Message = fmt.Sprintf("%s has not issued a certificate for the server: %s", s.Issuer,
			cmp.Or(r.Message, "check that the issuer exists and that cert-manager is running"))
	}
	out.DropRequest = ended && s.Now.After(r.MadeAt.Add(retryIssuer))
}

// pendingKey returns the private key for the requested certificate, and creates it if it does not exist.
func (s *State) pendingKey(out *Plan) (certificate.PrivateKey, error) {
	if s.Server != nil {
		if k := certificate.PrivateKey(s.Server.Data[nextKey]); k.Check() == nil {
			return k, nil
		}
	}
	k, err := certificate.NewPrivateKey()
	if err != nil {
		return nil, err
	}
	out.Server = s.serverSecret()
	out.Server.Data[nextKey] = k
	return k, nil
}

// check verifies that the server can use a certificate from an issuer.
func (s *State) check(key certificate.PrivateKey, r *Request) error {
	if len(r.CA) == 0 {
		return errors.New("the request does not contain the CA of the certificate (status.ca), so clients could " +
			"not verify it. Use an issuer that reports its CA, such as the types CA or Vault")
	}
	answer := certificate.Pair{Certificate: r.Certificate, Key: key}
	if err := answer.Check(); err != nil {
		return err
	}
	return certificate.Verify(certificate.ParseAll(r.Certificate), certificate.ParseAll(r.CA), s.Now, s.names().All()...)
}

// show makes the server present the new certificate now, or later if clients do not know its CA yet.
func (s *State) show(now shown, key certificate.PrivateKey, out *Plan) {
	r := s.Request
	published, known := now.signers(s.judgedAt(now.leaf)), true
	for _, ca := range certificate.ParseAll(r.CA) {
		if !slices.ContainsFunc(published, ca.Equal) {
			published, known = append(published, ca), false
		}
	}
	// A server does not reload its certificate if it cannot verify it with ssl_ca alone. The intermediate
	// certificates are therefore published, too.
	chain := certificate.ParseAll(r.Certificate)
	for _, between := range chain[1:] {
		if !slices.ContainsFunc(published, between.Equal) {
			published = append(published, between)
		}
	}
	out.Published = certificate.Encode(published)
	out.Server = s.serverSecret()
	out.Server.Data[v1.CAKey] = out.Published
	if now.isGood(s) && !known && s.judgedAt(now.leaf).Before(now.at(5, 6)) {
		if bytes.Equal(s.Server.Data[v1.CAKey], out.Published) {
			out.Server = nil
		}
		return
	}
	out.Server.Data[corev1.TLSCertKey], out.Server.Data[corev1.TLSPrivateKeyKey] = r.Certificate, key
	delete(out.Server.Data, nextKey)
	out.Issuer = s.Issuer.String()
	metav1.SetMetaDataAnnotation(&out.Server.ObjectMeta, v1.AnnotationIssuer, out.Issuer)
	out.Certificate = chain[0]
	out.DropRequest = true
}

// signedBy returns the issuer of the current certificate, or "" if the instance's own certificate authority has
// signed it.
func (s *State) signedBy(now shown) string {
	isSigner := func(c *x509.Certificate) bool { return now.leaf.CheckSignatureFrom(c) == nil }
	if s.Server == nil || now.leaf == nil || slices.ContainsFunc(s.ownAuthorities(), isSigner) {
		return ""
	}
	return s.Server.Annotations[v1.AnnotationIssuer]
}

// shown contains the verified parts of the server's Secret.
type shown struct {
	redact.All

	pair certificate.Pair
	// leaf is the certificate. It is nil if it is unusable, or if no trusted certificate authority has signed it.
	// chain begins with leaf.
	leaf  *x509.Certificate
	chain []*x509.Certificate
	// published are the trusted certificate authorities in the same Secret.
	published []*x509.Certificate
}

// current returns the current certificate of the server.
func (s *State) current() shown {
	if s.Server == nil {
		return shown{}
	}
	out := shown{pair: certificate.Pair{Certificate: s.Server.Data[corev1.TLSCertKey],
		Key: s.Server.Data[corev1.TLSPrivateKeyKey]}}
	trusted := s.trusted()
	out.published = slices.DeleteFunc(certificate.ParseAll(s.Server.Data[v1.CAKey]),
		func(c *x509.Certificate) bool { return !slices.ContainsFunc(trusted, c.Equal) })
	if out.pair.Check() != nil {
		return out
	}
	out.chain = certificate.ParseAll(out.pair.Certificate)
	if leaf := out.chain[0]; isSignedBy(out.chain, trusted) {
		out.leaf = leaf
	}
	return out
}

// isSignedBy reports whether a chain is signed by any of the given certificate authorities. An expired chain also counts
// as signed.
func isSignedBy(chain, authorities []*x509.Certificate) bool {
	for _, a := range authorities {
		for _, moment := range []time.Time{chain[0].NotBefore, chain[0].NotAfter, a.NotBefore, a.NotAfter} {
			if certificate.Verify(chain, []*x509.Certificate{a}, moment) == nil {
				return true
			}
		}
	}
	return false
}

// isGood reports whether clients accept the certificate now.
func (c *shown) isGood(s *State) bool {
	return c.leaf != nil && certificate.Verify(c.chain, c.published, s.judgedAt(c.leaf), s.names().All()...) == nil
}

// isSettled reports whether the server has a valid certificate that is not due for renewal.
func (s *State) isSettled() bool {
	now := s.current()
	return now.isGood(s) && !now.isDue(s.judgedAt(now.leaf))
}

// isDue reports whether the certificate is due for renewal.
func (c *shown) isDue(now time.Time) bool { return now.After(c.at(2, 3)) }

// at returns the time at which a fraction of the certificate's lifetime has passed.
func (c *shown) at(part, parts int64) time.Time {
	instanceID := c.leaf.NotAfter.Sub(c.leaf.NotBefore)
	return c.leaf.NotBefore.Add(time.Duration(int64(instanceID) / parts * part))
}

// signers returns the published certificate authorities that have signed the certificate.
func (c *shown) signers(now time.Time) []*x509.Certificate {
	var out []*x509.Certificate
	for _, ca := range c.published {
		if c.leaf != nil && certificate.Verify(c.chain, []*x509.Certificate{ca}, now) == nil {
			out = append(out, ca)
		}
	}
	return out
}
