package servercert

import (
	"bytes"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) //nolint:gochecknoglobals // A constant.

// address is the address of a load balancer.
const address = "198.51.100.7"

func newState() *State {
	i := v1.Instance{Kind: v1.KindMySQL, Namespace: "team", Name: "shop", XR: "1b2c"}
	return &State{
		Instance: i, Namespace: "crossplane-mysql-system", Now: start,
		Owner: metav1.OwnerReference{APIVersion: "otus.homework/v1", Kind: "XMySQL", Name: "shop-x", UID: "1b2c",
			Controller: new(true), BlockOwnerDeletion: new(true)},
	}
}

// step computes the next plan, and changes the state as if the plan was stored.
func (s *State) step(t *testing.T) *Plan {
	t.Helper()
	p, err := Next(s)
	if err != nil {
		t.Fatal(err)
	}
	s.IssuerCAs = p.IssuerCAs
	if p.Authority != nil {
		s.Authorities = append(s.Authorities, p.Authority)
	}
	if p.Server != nil {
		s.Server = p.Server
	}
	return p
}

// trusts returns an error unless a client with these CAs trusts the server.
func (s *State) trusts(t *testing.T, published []byte, host string) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(published) {
		t.Fatal("it is no PEM")
	}
	c, err := certificate.Parse(s.Server.Data[corev1.TLSCertKey])
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: s.Now})
	return err
}

// TestFirst checks that the Secrets belong to the instance and its XR, and that only the controller has the key of
// the CA.
func TestFirst(t *testing.T) {
	s := newState()
	p := s.step(t)
	if p.Authority == nil || p.Server == nil || p.Authority.Namespace != "crossplane-mysql-system" ||
		p.Server.Namespace != "team" || p.Server.Name != "shop-tls" {
		t.Fatalf("got %+v", p)
	}
	for _, secret := range []*corev1.Secret{p.Authority, p.Server} {
		o := secret.OwnerReferences
		if len(o) != 1 || o[0].UID != "1b2c" || o[0].Controller != nil || o[0].BlockOwnerDeletion != nil ||
			secret.Labels[v1.LabelXR] != "1b2c" || secret.Type != corev1.SecretTypeOpaque {
			t.Errorf("%s: got %+v", secret.Name, secret.ObjectMeta)
		}
	}
	key := p.Authority.Data[corev1.TLSPrivateKeyKey]
	for name, v := range p.Server.Data {
		if len(key) == 0 || bytes.Contains(v, key) {
			t.Errorf("%s has the authority's key", name)
		}
	}
	for _, host := range []string{"shop.team.svc", "shop.team.svc.cluster.local", "shop.team", "shop"} {
		if err := s.trusts(t, p.Published, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if s.trusts(t, p.Published, "shop.other.svc") == nil ||
		s.trusts(t, newState().step(t).Published, "shop.team.svc") == nil {
		t.Error("it is taken for another instance's")
	}
	if p := s.step(t); p.Authority != nil || p.Server != nil || !bytes.Equal(p.Published, s.Server.Data[v1.CAKey]) {
		t.Errorf("something is done although all is there: %+v", p)
	}
	if c, err := certificate.Parse(s.Server.Data[corev1.TLSCertKey]); err != nil ||
		slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) || c.IsCA {
		t.Errorf("it opens other doors: %v, %v", c.ExtKeyUsage, err)
	}
}

// TestDecades simulates thirty years with a client that reads the CAs once per certificate lifetime. The client must
// always trust the server, and no certificate may expire before the next one exists.
func TestDecades(t *testing.T) {
	s := newState()
	read, readAt := s.step(t).Published, s.Now
	made, authorities := 0, 0
	for ; s.Now.Before(start.Add(30 * 365 * 24 * time.Hour)); s.Now = s.Now.Add(5 * 24 * time.Hour) {
		p := s.step(t)
		if p.Authority != nil {
			authorities++
		}
		if p.Server != nil && p.Authority == nil {
			made++
		}
		if err := s.trusts(t, read, "shop.team.svc"); err != nil {
			t.Fatalf("at %s, a client that read them at %s: %v", s.Now, readAt, err)
		}
		if left := p.Certificate.NotAfter.Sub(s.Now); left < certificate.Instance/3-5*24*time.Hour {
			t.Fatalf("at %s the certificate has %s left", s.Now, left)
		}
		if s.Now.Sub(readAt) >= certificate.Instance-5*24*time.Hour {
			read, readAt = p.Published, s.Now
		}
	}
	if authorities < 2 || authorities > 4 || made < 150 || made > 220 {
		t.Errorf("%d authorities and %d certificates were made", authorities, made)
	}
}

// TestRepair checks that lost or damaged Secrets of a server's certificate are created again.
func TestRepair(t *testing.T) {
	other := newState()
	other.step(t)
	cases := map[string]struct {
		reason            string
		spoil             func(*State)
		authority, server bool
	}{
		"Host": {reason: "The external address has changed, so it must be added to the certificate.",
			spoil: func(s *State) { s.Host = address }, server: true},
		"Name": {reason: "The external host name has changed, so it must be added to the certificate.",
			spoil: func(s *State) { s.Host = "db.example.org" }, server: true},
		"OwnHost": {reason: "The certificate already contains the host name of the instance.",
			spoil: func(s *State) { s.Host = "shop.team.svc" }},
		"Theirs": {reason: "The name of another Service must not be added, because a user may have written it.",
			spoil: func(s *State) { s.Host = "shop.other.svc" }},
		"Local": {reason: "The full name of another Service in the cluster must not be added.", spoil: func(s *State) {
			s.Host = "shop.other.svc.cluster.local"
		}},
		"Domain": {reason: "The name of a Service must not be added, even with an unknown cluster domain.", spoil: func(s *State) {
			s.Host = "shop.other.svc.corp.example"
		}},
		"Pod": {reason: "The name of a pod must not be added.", spoil: func(s *State) { s.Host = "10-0-0-1.other.pod.cluster.local" }},
		"PodOf": {reason: "The name of a pod of a Service must not be added.", spoil: func(s *State) {
			s.Host = "db-0.shop.other.svc.corp.example"
		}},
		"House": {reason: "An external domain may contain svc, so the name must be added.",
			spoil:  func(s *State) { s.Host = "db.svc.corp.example" },
			server: true},
		"Corp": {reason: "An external domain may end with .local, so the name must be added.",
			spoil:  func(s *State) { s.Host = "db.corp.local" },
			server: true},
		"Short": {reason: "A name without a dot may belong to another Service, so it must not be added.",
			spoil: func(s *State) { s.Host = "vault" }},
		"Deleted": {reason: "A deleted Secret must be created again.", spoil: func(s *State) { s.Server = nil }, server: true},
		"Emptied": {reason: "An emptied Secret must be filled again.", spoil: func(s *State) { s.Server.Data = nil }, server: true},
		"Swapped": {reason: "The certificate of another instance must be replaced.",
			spoil:  func(s *State) { s.Server.Data = other.Server.Data },
			server: true},
		"Bundle": {reason: "A certificate authority that a user added must be removed.", spoil: func(s *State) {
			s.Server.Data[v1.CAKey] = append(s.Server.Data[v1.CAKey], other.Server.Data[v1.CAKey]...)
		}, server: true},
		"Authority": {reason: "Without its certificate authority, the instance needs a new authority and certificate.",
			spoil: func(s *State) { s.Authorities = nil }, authority: true,
			server: true},
		"AuthorityKey": {reason: "Without its key, a certificate authority cannot sign and must be replaced.", spoil: func(s *State) {
			delete(s.Authorities[0].Data, corev1.TLSPrivateKeyKey)
		}, authority: true, server: true},
		"TwoThirds": {reason: "A certificate must be renewed after two thirds of its lifetime.", spoil: func(s *State) {
			s.Now = s.Now.Add(certificate.Instance/3*2 + time.Second)
		}, server: true},
		"Younger": {reason: "A certificate must not be renewed before two thirds of its lifetime.", spoil: func(s *State) {
			s.Now = s.Now.Add(certificate.Instance/3*2 - time.Second)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newState()
			s.step(t)
			tc.spoil(s)
			p := s.step(t)
			if (p.Authority != nil) != tc.authority || (p.Server != nil) != tc.server {
				t.Errorf("%s got an authority: %t, a certificate: %t", tc.reason, p.Authority != nil, p.Server != nil)
			}
			if err := s.trusts(t, p.Published, "shop.team.svc"); err != nil ||
				!bytes.Equal(p.Published, s.Server.Data[v1.CAKey]) {
				t.Errorf("%s %v", tc.reason, err)
			}
			if s.Host == address && s.trusts(t, p.Published, s.Host) != nil {
				t.Error("want its address in it")
			}
		})
	}
}
