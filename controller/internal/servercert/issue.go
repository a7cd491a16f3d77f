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

// nextKey of the server's Secret is the private key of a certificate that an issuer has not made yet. The server does not
// mount it.
const nextKey = "next.key"

// retryIssuer that did not make a certificate is after how long it is asked again. cert-manager does not look again at a
// request that has failed.
const retryIssuer = time.Hour

// A Request is one to an issuer of cert-manager.
type Request struct {
	// Issuer that is asked, with what CSR, as PEM, and since when.
	Issuer v1.IssuerReference
	CSR    []byte
	MadeAt time.Time
	// Certificate and those between it and the CA, as PEM; empty while there is none.
	Certificate, CA []byte
	// Refused says that there will be none. Message is what cert-manager says of it.
	Refused bool
	Message string
}

// nextIssued is what is to be there of a server whose certificates are an issuer's.
//
// A good certificate stays until it is due, whoever has signed it. One that another CA has signed than the one before is shown
// half of the time later that is left then, and the CA published at once.
func nextIssued(s *State) (*Plan, error) {
	now := s.current()
	// Nothing else of the Secret, which others may write: clients and the controller verify by it.
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

// ask the issuer, once what it was asked before is gone.
func (s *State) ask(now shown, pending certificate.PrivateKey, out *Plan) (err error) {
	if !now.isGood(s) {
		out.Message = fmt.Sprintf("%s is asked for the server's certificate", s.Issuer)
	}
	if out.DropRequest = s.Request != nil; !out.DropRequest {
		out.Request, err = pending.Request(s.names())
	}
	return err
}

// follow what the issuer was asked, to its answer.
func (s *State) follow(now shown, pending certificate.PrivateKey, out *Plan) {
	r, ended := s.Request, s.Request.Refused
	if len(r.Certificate) > 0 && !ended {
		err := s.check(pending, r)
		if err == nil {
			s.show(now, pending, out)
			return
		}
		ended, out.Message = true, fmt.Sprintf("%s has made a certificate that the server cannot show: %v", s.Issuer, err)
	} else {
		out.Message = fmt.Sprintf("%s has made no certificate for the server: %s", s.Issuer, cmp.Or(r.Message, "is it there, and is cert-manager running?"))
	}
	out.DropRequest = ended && s.Now.After(r.MadeAt.Add(retryIssuer))
}

// pendingKey of the certificate that is asked for, which is made where there is none.
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

// check what an issuer has answered.
func (s *State) check(key certificate.PrivateKey, r *Request) error {
	if len(r.CA) == 0 {
		return errors.New("it does not say which CA has signed it (status.ca), so that nobody could verify it: take an issuer that does, such as one of the type CA or Vault")
	}
	answer := certificate.Pair{Certificate: r.Certificate, Key: key}
	if err := answer.Check(); err != nil {
		return err
	}
	return certificate.Verify(certificate.ParseAll(r.Certificate), certificate.ParseAll(r.CA), s.Now, s.names().All()...)
}

// show what the issuer has made, now or, where clients do not know its CA, later.
func (s *State) show(now shown, key certificate.PrivateKey, out *Plan) {
	r := s.Request
	published, known := now.signers(s.judgedAt(now.leaf)), true
	for _, ca := range certificate.ParseAll(r.CA) {
		if !slices.ContainsFunc(published, ca.Equal) {
			published, known = append(published, ca), false
		}
	}
	// A server reads no certificate again that it cannot verify by ssl_ca alone, without what it sends with it.
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

// signedBy is the issuer of the certificate that is shown; empty for an authority of ours.
func (s *State) signedBy(now shown) string {
	isSigner := func(c *x509.Certificate) bool { return now.leaf.CheckSignatureFrom(c) == nil }
	if s.Server == nil || now.leaf == nil || slices.ContainsFunc(s.ownAuthorities(), isSigner) {
		return ""
	}
	return s.Server.Annotations[v1.AnnotationIssuer]
}

// A shown certificate is the one that the server's Secret has.
type shown struct {
	redact.All

	pair certificate.Pair
	// leaf is nil where there is none that a server could show, or that one of the trusted authorities has signed; chain begins with it.
	leaf  *x509.Certificate
	chain []*x509.Certificate
	// published authorities beside it, of the trusted ones.
	published []*x509.Certificate
}

// current certificate of the server.
func (s *State) current() shown {
	if s.Server == nil {
		return shown{}
	}
	out := shown{pair: certificate.Pair{Certificate: s.Server.Data[corev1.TLSCertKey], Key: s.Server.Data[corev1.TLSPrivateKeyKey]}}
	trusted := s.trusted()
	out.published = slices.DeleteFunc(certificate.ParseAll(s.Server.Data[v1.CAKey]), func(c *x509.Certificate) bool { return !slices.ContainsFunc(trusted, c.Equal) })
	if out.pair.Check() != nil {
		return out
	}
	out.chain = certificate.ParseAll(out.pair.Certificate)
	if leaf := out.chain[0]; isSignedBy(out.chain, trusted) {
		out.leaf = leaf
	}
	return out
}

// isSignedBy reports whether a chain leads to one of some authorities, at whatever time.
func isSignedBy(chain, authorities []*x509.Certificate) bool {
	for _, a := range authorities {
		for _, at := range []time.Time{chain[0].NotBefore, chain[0].NotAfter, a.NotBefore, a.NotAfter} {
			if certificate.Verify(chain, []*x509.Certificate{a}, at) == nil {
				return true
			}
		}
	}
	return false
}

// isGood is true for one that clients take today.
func (c *shown) isGood(s *State) bool {
	return c.leaf != nil && certificate.Verify(c.chain, c.published, s.judgedAt(c.leaf), s.names().All()...) == nil
}

// isSettled is true while the server has a good certificate that is not due.
func (s *State) isSettled() bool {
	now := s.current()
	return now.isGood(s) && !now.isDue(s.judgedAt(now.leaf))
}

// isDue is true for one after which there has to be another one.
func (c *shown) isDue(now time.Time) bool { return now.After(c.at(2, 3)) }

// at a fraction of its life.
func (c *shown) at(part, of int64) time.Time {
	life := c.leaf.NotAfter.Sub(c.leaf.NotBefore)
	return c.leaf.NotBefore.Add(time.Duration(int64(life) / of * part))
}

// signers of it, of those that are published.
func (c *shown) signers(now time.Time) []*x509.Certificate {
	var out []*x509.Certificate
	for _, ca := range c.published {
		if c.leaf != nil && certificate.Verify(c.chain, []*x509.Certificate{ca}, now) == nil {
			out = append(out, ca)
		}
	}
	return out
}
