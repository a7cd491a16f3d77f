// Package servercert keeps what a server and its clients know each other by: an authority of the instance alone, and a
// certificate that it signs. The authority's key is in the controller's namespace, and the certificate with its own in the
// instance's, where the server's pod mounts it.
//
//	 made          one life of a certificate later      three before its end    its end
//	──┴─────────────┴──────────────────────────────────────┴───────────────────────┴──
//	  published     signs                                  the next one is made
//
// The first signs at once: nobody knows another.
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

// maxAuthorities of one life of an instance: one is made in about nine years.
const maxAuthorities = 20

// A State is what there is for a server.
type State struct {
	redact.All

	// Instance whose server it is, and the XR that owns its Secrets.
	Instance v1.Instance
	Owner    metav1.OwnerReference
	// Namespace is the controller's own.
	Namespace string
	// Host that clients outside of the cluster reach the server at; a name, an address or nothing.
	Host string
	// Authorities by their numbers, from the first on; and the server's Secret, nil where there is none.
	Authorities []*corev1.Secret
	Server      *corev1.Secret
	// Issuer that signs instead of an authority of the instance, and what it was asked for; nil where none does, or was.
	Issuer  *v1.IssuerReference
	Request *Request
	// IssuerCAs are the authorities of issuers that are trusted, as PEM, and those between them and a certificate. They are kept in the
	// controller's namespace: whoever may write Secrets of the instance's namespace may write any authority beside the server's certificate.
	IssuerCAs []byte
	// Unreachable says why the issuer cannot be asked; empty where it can.
	Unreachable string
	// Now by the API server's clock, and by how much the controller's is ahead of that.
	Now  time.Time
	Skew clock.Skew
	// ClusterDomain of the Services' names; empty for cluster.local.
	ClusterDomain string
}

// A Plan is what is to be there.
type Plan struct {
	redact.All

	// Authority and Server to be made or written; nil where they are as they should be.
	Authority, Server *corev1.Secret
	// Published authorities, the older first, as PEM.
	Published []byte
	// IssuerCAs are those of them that are no authorities of the instance. They are kept before anything else is written.
	IssuerCAs []byte
	// Certificate that the server is to show; nil where an issuer has not made it yet.
	Certificate *x509.Certificate
	// Issuer that has signed it; empty where an authority of the instance has.
	Issuer string
	// Request for a certificate to be made, as PEM, after the Server's Secret with its key was written; and DropRequest that is there.
	Request     []byte
	DropRequest bool
	// Message says what is wrong with the issuer, or what it is waited for.
	Message string
}

// Next is what is to be there now.
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

// nextOwn is what is to be there of a server whose certificates an authority of the instance signs.
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

// isEnding reports whether the next authority is to be published.
func (s *State) isEnding(authority *x509.Certificate) bool {
	return s.judgedAt(authority).After(authority.NotAfter.Add(-3 * certificate.Life))
}

// sign the server's certificate, where it needs another one. That of an issuer is shown as long as nextIssued would show it, and
// its CA is published until the one after it.
func (s *State) sign(by certificate.Pair, out *Plan) error {
	now, names := s.current(), s.names()
	out.Issuer = s.signedBy(now)
	former := s.former(now)
	pair, why := now.pair, ""
	if out.Issuer == "" || !now.isGood(s) || !s.judgedAt(now.leaf).Before(now.at(5, 6)) {
		why = by.WhyRenew(pair, s.judgedAt(now.leaf), names)
	}
	if why != "" {
		var err error
		if pair, err = by.Sign(s.Now, names); err != nil {
			return err
		}
		if out.Issuer == "" {
			former = nil
		}
		out.Issuer = ""
	}
	out.Published = append(out.Published, certificate.Encode(former)...)
	if s.Server == nil || why != "" || !bytes.Equal(s.Server.Data[v1.CAKey], out.Published) {
		out.Server = s.serverSecret()
		out.Server.Data = map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key, v1.CAKey: out.Published}
		if former == nil {
			delete(out.Server.Annotations, v1.AnnotationIssuer)
		}
	}
	var err error
	out.Certificate, err = certificate.Parse(pair.Certificate)
	return err
}

// former authorities are those of an issuer that has signed what the server showed before.
func (s *State) former(now shown) []*x509.Certificate {
	if s.Server == nil || s.Server.Annotations[v1.AnnotationIssuer] == "" {
		return nil
	}
	return without(now.published, s.ownAuthorities())
}

// ownAuthorities of the instance, whose keys are in the controller's namespace.
func (s *State) ownAuthorities() []*x509.Certificate {
	var out []*x509.Certificate
	for _, secret := range s.Authorities {
		if c, err := certificate.Parse(secret.Data[v1.CAKey]); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// trusted authorities are those that are kept in the controller's namespace. No other is published, or believed.
func (s *State) trusted() []*x509.Certificate {
	return append(s.ownAuthorities(), certificate.ParseAll(s.IssuerCAs)...)
}

// without some certificates.
func without(all, some []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(all), func(c *x509.Certificate) bool { return slices.ContainsFunc(some, c.Equal) })
}

// judgedAt is the time by which a certificate is judged: now. While the clocks of the controller and the API server do not agree, that is a time
// at which it is fresh, so that nothing is renewed or forgotten by a wrong clock, unless it is not valid by either.
func (s *State) judgedAt(c *x509.Certificate) time.Time {
	isValid := func(at time.Time) bool { return !at.Before(c.NotBefore) && !at.After(c.NotAfter) }
	if c == nil || s.Skew.IsTrusted() || !isValid(s.Now) && !isValid(s.Now.Add(s.Skew.Ahead)) {
		return s.Now
	}
	return c.NotBefore.Add(certificate.Slack)
}

// An authority that has not ended.
type authority struct {
	redact.All

	pair        certificate.Pair
	certificate *x509.Certificate
}

// usable authorities, in their order. One that cannot be read signs nothing, and another one is made.
func usable(s *State) ([]authority, error) {
	if len(s.Authorities) >= maxAuthorities {
		return nil, errors.New("there are too many authorities of this instance: delete their Secrets, and one is made")
	}
	var out []authority
	for _, secret := range s.Authorities {
		p := certificate.Pair{Certificate: secret.Data[v1.CAKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
		c, err := certificate.Parse(p.Certificate)
		if err != nil || p.Check() != nil || !c.IsCA {
			continue
		}
		if at := s.judgedAt(c); at.After(c.NotAfter) || at.Before(c.NotBefore) {
			continue
		}
		out = append(out, authority{pair: p, certificate: c})
	}
	return out, nil
}

// signerOf authorities: the newest that was published for a life of a certificate, or the oldest.
func (s *State) signerOf(known []authority) certificate.Pair {
	out, now := known[0].pair, s.current()
	for _, a := range known {
		if !s.Skew.IsTrusted() && now.leaf != nil && now.leaf.CheckSignatureFrom(a.certificate) == nil {
			return a.pair // By a wrong clock no other one begins to sign.
		}
		if s.Now.After(a.certificate.NotBefore.Add(certificate.Slack).Add(certificate.Life)) {
			out = a.pair
		}
	}
	return out
}

// names of the server: those of its Service, as a client in each place writes them, and where others reach it.
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

// DefaultDomain of a cluster, as kubeadm has it.
const DefaultDomain = "cluster.local"

// domain of the cluster.
func (s *State) domain() string { return cmp.Or(s.ClusterDomain, DefaultDomain) }

// isInCluster is true of what the cluster's DNS may have for something else: no load balancer is called so, and who has the Service may have
// written that into its status.
func (s *State) isInCluster(host string) bool {
	labels := strings.Split(host, ".")
	of := func(n int, kinds ...string) bool { return len(labels) > n && slices.Contains(kinds, labels[n]) }
	return len(labels) == 1 || strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, "."+s.domain()) || strings.HasSuffix(host, "."+DefaultDomain) || of(2, "svc", "pod") || of(3, "svc") // A Service, a pod, and a Service's pod.
}

// serverSecret as it is, or a new one.
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

// newSecret of the instance, which goes with its XR.
func (s *State) newSecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: secrets.Meta(s.Instance, s.Owner, namespace, name),
		Type:       corev1.SecretTypeOpaque,
	}
}
