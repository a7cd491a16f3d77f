// Package servercert maintains the certificates that servers present and clients verify. Each instance has its own
// certificate authority, which signs the server's certificate. The authority's key is stored in the controller's
// namespace. The certificate and its key are stored in the instance's namespace, and the server's pod mounts them.
//
//	 created       one certificate lifetime later       three before its end        expires
//	──┴─────────────┴──────────────────────────────────────┴───────────────────────────┴──
//	  published     signs                                  the next one is created
//
// The first certificate authority signs immediately, because clients do not know any other.
package servercert

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// maxAuthorities is the maximum number of certificate authorities of an instance. A new one is created about every
// nine years.
const maxAuthorities = 20

// A State contains the existing objects of a server.
type State struct {
	redact.All

	// Instance is the instance of the server, and Owner the XR that owns its Secrets.
	Instance v1.Instance
	Owner    metav1.OwnerReference
	// Namespace is the controller's own namespace.
	Namespace string
	// Host is the address for clients outside of the cluster: a name, an IP address or "".
	Host string
	// Authorities are the Secrets of the certificate authorities, ordered by number. Server is the server's Secret,
	// or nil.
	Authorities []*corev1.Secret
	Server      *corev1.Secret
	// Issuer signs the certificate instead of the instance's certificate authority. It is nil if there is no issuer.
	// Request is the request to the issuer, or nil.
	Issuer  *v1.IssuerReference
	Request *Request
	// IssuerCAs are the trusted certificate authorities of issuers and their intermediate certificates, as PEM. They
	// are stored in the controller's namespace, because users with access to the instance's namespace can write any
	// CA to the server's Secret.
	IssuerCAs []byte
	// Unreachable is the reason why the issuer cannot be used, or "".
	Unreachable string
	// Now is the time of the API server's clock. Skew is the difference to the controller's clock.
	Now  time.Time
	Skew clock.Skew
	// ClusterDomain is the domain of the Services' names, or "" for cluster.local.
	ClusterDomain string
}

// A Plan describes the Secrets and the certificate request that must exist for a server.
type Plan struct {
	redact.All

	// Authority and Server are Secrets to create or update. They are nil if nothing has to change.
	Authority, Server *corev1.Secret
	// Published are the certificate authorities for clients as PEM, the older first.
	Published []byte
	// IssuerCAs are the published certificate authorities of issuers. They are stored before anything else is
	// written.
	IssuerCAs []byte
	// Certificate is the certificate that the server should present, or nil if an issuer has not signed it yet.
	Certificate *x509.Certificate
	// Issuer is the issuer that has signed Certificate. It is empty if a certificate authority of the instance has
	// signed it.
	Issuer string
	// Request is a certificate signing request to create, as PEM. The Server's Secret with its key must be written
	// first. DropRequest is true if the existing request must be deleted.
	Request     []byte
	DropRequest bool
	// Message describes what is wrong with the issuer, or what the plan waits for.
	Message string
}

// Next returns the Plan for the certificate of a server, from its existing Secrets and its certificate request.
func Next(s *State) (*Plan, error) {
	next := nextOwn
	if s.Issuer != nil {
		next = nextIssued
	}
	out, err := next(s)
	if err != nil {
		return nil, err
	}
	own := s.ownAuthorities()
	if out.Authority != nil {
		own = append(own, certificate.ParseAll(out.Authority.Data[v1.CAKey])...)
	}
	out.IssuerCAs = certificate.Encode(without(certificate.ParseAll(out.Published), own))
	return out, nil
}

// nextOwn plans the certificate of a server that uses the instance's own certificate authority.
func nextOwn(s *State) (*Plan, error) {
	out := &Plan{}
	known, err := usable(s)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 || s.isEnding(known[len(known)-1].certificate) {
		name := s.Instance.AuthorityName(len(s.Authorities) + 1)
		made, err := certificate.NewAuthority(s.Now, name)
		if err != nil {
			return nil, err
		}
		out.Authority = s.newSecret(s.Namespace, name)
		out.Authority.Data = map[string][]byte{v1.CAKey: made.Certificate, corev1.TLSPrivateKeyKey: made.Key}
		c, err := certificate.Parse(made.Certificate)
		if err != nil {
			return nil, err
		}
		known = append(known, authority{pair: made, certificate: c})
	}
	for _, a := range known {
		out.Published = append(out.Published, a.pair.Certificate...)
	}
	return out, s.sign(s.signerOf(known), out)
}

// isEnding reports whether a certificate authority expires soon, so that the next one must be published.
func (s *State) isEnding(authority *x509.Certificate) bool {
	return s.judgedAt(authority).After(authority.NotAfter.Add(-3 * certificate.Instance))
}

// sign signs a new certificate if the server needs one. A certificate from a previous issuer is kept as long as
// nextIssued would keep it. The CA of that issuer remains published after that, until the next renewal.
func (s *State) sign(issuer certificate.Pair, out *Plan) error {
	now, names := s.current(), s.names()
	out.Issuer = s.signedBy(now)
	former := s.former(now)
	pair, reason := now.pair, ""
	if out.Issuer == "" || !now.isGood(s) || !s.judgedAt(now.leaf).Before(now.at(5, 6)) {
		reason = issuer.WhyRenew(pair, s.judgedAt(now.leaf), names)
	}
	if reason != "" {
		var err error
		if pair, err = issuer.Sign(s.Now, names); err != nil {
			return err
		}
		if out.Issuer == "" {
			former = nil
		}
		out.Issuer = ""
	}
	out.Published = append(out.Published, certificate.Encode(former)...)
	if s.Server == nil || reason != "" || !bytes.Equal(s.Server.Data[v1.CAKey], out.Published) {
		out.Server = s.serverSecret()
		out.Server.Data = map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key,
			v1.CAKey: out.Published}
		if former == nil {
			delete(out.Server.Annotations, v1.AnnotationIssuer)
		}
	}
	var err error
	out.Certificate, err = certificate.Parse(pair.Certificate)
	return err
}

// former returns the published certificate authorities of a previous issuer.
func (s *State) former(now shown) []*x509.Certificate {
	if s.Server == nil || s.Server.Annotations[v1.AnnotationIssuer] == "" {
		return nil
	}
	return without(now.published, s.ownAuthorities())
}

// ownAuthorities returns the instance's certificate authorities, whose keys are stored in the controller's namespace.
func (s *State) ownAuthorities() []*x509.Certificate {
	var out []*x509.Certificate
	for _, secret := range s.Authorities {
		if c, err := certificate.Parse(secret.Data[v1.CAKey]); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// trusted returns the certificate authorities that are stored in the controller's namespace. No others are published
// or trusted.
func (s *State) trusted() []*x509.Certificate {
	return append(s.ownAuthorities(), certificate.ParseAll(s.IssuerCAs)...)
}

// without returns all certificates except the removed ones.
func without(all, removed []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(all), func(c *x509.Certificate) bool {
		return slices.ContainsFunc(removed, c.Equal)
	})
}

// judgedAt returns the time at which the validity of a certificate is checked. This is usually now. If the clocks of
// the controller and the API server differ, the result is a time at which the certificate is new. A wrong clock thus
// causes no renewal or removal. If the certificate is invalid by both clocks, the result is now.
func (s *State) judgedAt(c *x509.Certificate) time.Time {
	isValid := func(timestamp time.Time) bool { return !timestamp.Before(c.NotBefore) && !timestamp.After(c.NotAfter) }
	if c == nil || s.Skew.IsTrusted() || !isValid(s.Now) && !isValid(s.Now.Add(s.Skew.Ahead)) {
		return s.Now
	}
	return c.NotBefore.Add(certificate.Slack)
}

// An authority is a certificate authority that has not expired.
type authority struct {
	redact.All

	pair        certificate.Pair
	certificate *x509.Certificate
}

// usable returns the certificate authorities that have not expired, in order. It omits unreadable ones, so that a new
// one is created instead.
func usable(s *State) ([]authority, error) {
	if len(s.Authorities) >= maxAuthorities {
		return nil, errors.New("this instance has too many certificate authorities: delete their Secrets, and a " +
			"new one is created")
	}
	var out []authority
	for _, secret := range s.Authorities {
		p := certificate.Pair{Certificate: secret.Data[v1.CAKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
		c, err := certificate.Parse(p.Certificate)
		if err != nil || p.Check() != nil || !c.IsCA {
			continue
		}
		if timestamp := s.judgedAt(c); timestamp.After(c.NotAfter) || timestamp.Before(c.NotBefore) {
			continue
		}
		out = append(out, authority{pair: p, certificate: c})
	}
	return out, nil
}

// signerOf returns the newest certificate authority that has been published for the lifetime of a certificate, or the
// oldest one.
func (s *State) signerOf(known []authority) certificate.Pair {
	out, now := known[0].pair, s.current()
	for _, a := range known {
		if !s.Skew.IsTrusted() && now.leaf != nil && now.leaf.CheckSignatureFrom(a.certificate) == nil {
			return a.pair // A wrong clock must not change the signer.
		}
		if s.Now.After(a.certificate.NotBefore.Add(certificate.Slack).Add(certificate.Instance)) {
			out = a.pair
		}
	}
	return out
}

// names returns the names of the server: the names of its Service in the cluster, and the external host.
func (s *State) names() certificate.Names {
	service, namespace := s.Instance.ServiceName(), s.Instance.Namespace
	inCluster := service + "." + namespace + ".svc"
	out := certificate.Names{DNS: []string{inCluster, inCluster + "." + s.domain(), service + "." + namespace, service}}
	if ip := net.ParseIP(s.Host); ip != nil {
		out.IPs = []net.IP{ip}
	} else if s.Host != "" && s.Host != out.DNS[0] && !s.isInCluster(s.Host) {
		out.DNS = append(out.DNS, s.Host)
	}
	return out
}

// DefaultDomain is the default domain of a cluster in kubeadm.
const DefaultDomain = "cluster.local"

// domain returns the domain of the cluster.
func (s *State) domain() string { return cmp.Or(s.ClusterDomain, DefaultDomain) }

// isInCluster reports whether a host name may belong to another object in the cluster's DNS. No load balancer has
// such a name, but a user who can change the Service may have written it to the Service's status.
func (s *State) isInCluster(host string) bool {
	labels := strings.Split(host, ".")
	hasLabel := func(n int, kinds ...string) bool { return len(labels) > n && slices.Contains(kinds, labels[n]) }
	// Names in the cluster's DNS have the form SERVICE.NAMESPACE.svc, POD.NAMESPACE.pod or POD.SERVICE.NAMESPACE.svc,
	// with or without the cluster's domain.
	return len(labels) == 1 || strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, "."+s.domain()) ||
		strings.HasSuffix(host, "."+DefaultDomain) || hasLabel(2, "svc", "pod") || hasLabel(3, "svc")
}

// serverSecret returns a copy of the server's Secret, or a new one.
func (s *State) serverSecret() *corev1.Secret {
	if s.Server == nil {
		out := s.newSecret(s.Instance.Namespace, s.Instance.TLSSecretName())
		out.Data = map[string][]byte{}
		return out
	}
	out := s.Server.DeepCopy()
	if out.Data == nil {
		out.Data = map[string][]byte{}
	}
	return out
}

// newSecret returns a Secret of the instance that is owned by its XR.
func (s *State) newSecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: secrets.Meta(s.Instance, s.Owner, namespace, name),
		Type:       corev1.SecretTypeOpaque,
	}
}
