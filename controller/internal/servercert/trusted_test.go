package servercert

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/issuertest"
)

// TestAuthorityOfATenant writes a tenant's CA to the server's Secret. The controller and clients must never trust it,
// even when the certificate is due. This is tested with and without the platform's issuer.
func TestAuthorityOfATenant(t *testing.T) {
	evil, err := certificate.NewAuthority(start, "evil")
	if err != nil {
		t.Fatal(err)
	}
	named, err := certificate.NewAuthority(start, v1.AuthorityPrefix+"team-shop")
	if err != nil {
		t.Fatal(err)
	}
	fill := func(t *testing.T, s *State, issuer certificate.Pair, bundle []byte) {
		t.Helper()
		leaf, err := issuer.Sign(start, s.names())
		if err != nil {
			t.Fatal(err)
		}
		s.Server.Data = map[string][]byte{corev1.TLSCertKey: leaf.Certificate, corev1.TLSPrivateKeyKey: leaf.Key,
			v1.CAKey: bundle}
		metav1.SetMetaDataAnnotation(&s.Server.ObjectMeta, v1.AnnotationIssuer, "Issuer.cert-manager.io/ca")
	}
	writes := map[string]func(*testing.T, *State){
		"Pair":      func(t *testing.T, s *State) { t.Helper(); fill(t, s, evil, evil.Certificate) },
		"NamedOurs": func(t *testing.T, s *State) { t.Helper(); fill(t, s, named, named.Certificate) },
		"Beside": func(t *testing.T, s *State) {
			t.Helper()
			fill(t, s, evil, append(slices.Clone(s.Server.Data[v1.CAKey]), evil.Certificate...))
		},
		"Bundle": func(_ *testing.T, s *State) {
			s.Server.Data[v1.CAKey] = append(slices.Clone(s.Server.Data[v1.CAKey]), evil.Certificate...)
		},
		"BundleOfIssuer": func(_ *testing.T, s *State) {
			s.Server.Data[v1.CAKey] = append(slices.Clone(s.Server.Data[v1.CAKey]), evil.Certificate...)
			metav1.SetMetaDataAnnotation(&s.Server.ObjectMeta, v1.AnnotationIssuer, "x")
		},
	}
	root := func(raw []byte) *pairOfNames { return &pairOfNames{certificate.ParseAll(raw)} }
	for _, issued := range []string{"Own", "Issuer", "IssuerNamedLater", "IssuerNoMore"} {
		for name, write := range writes {
			t.Run(issued+name, func(t *testing.T) {
				issuer, s := issuertest.New(t, "ca", start), newState()
				if issued == "Issuer" || issued == "IssuerNoMore" {
					s = newIssued(t, issuer)
				} else {
					s.step(t)
				}
				s.Server = s.Server.DeepCopy()
				write(t, s)
				switch issued {
				case "IssuerNamedLater":
					s.Issuer = &v1.IssuerReference{Name: "ca"}
				case "IssuerNoMore":
					s.Issuer = nil
				}
				for _, days := range []int{0, 0, 0, 59, 61, 0, 76, 0, 91, 0, 0} {
					s.Now = maxTime(s.Now, start.AddDate(0, 0, days))
					p := s.pass(t, issuer)
					if c := p.Certificate; c != nil &&
						(c.CheckSignatureFrom(root(evil.Certificate).first()) == nil ||
							c.CheckSignatureFrom(root(named.Certificate).first()) == nil) {
						t.Fatalf("day %d: the server is to show a certificate of the tenant's authority", days)
					}
					if root(p.Published).has("evil") ||
						slices.ContainsFunc(certificate.ParseAll(p.Published), root(named.Certificate).first().Equal) {
						t.Fatalf("day %d: the controller and its clients trust the tenant's authority", days)
					}
				}
				if err := s.trusts(t, s.Server.Data[v1.CAKey], "shop.team.svc"); err != nil {
					t.Errorf("it does not come to a good end: %v", err)
				}
			})
		}
	}
}

type pairOfNames struct{ all []*x509.Certificate }

func (p *pairOfNames) first() *x509.Certificate { return p.all[0] }

func (p *pairOfNames) has(name string) bool {
	return slices.ContainsFunc(p.all, func(c *x509.Certificate) bool { return c.Subject.CommonName == name })
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestIssuerCAsAreKept checks that an issuer's CAs are stored in the controller's namespace before they are
// published. They are in one of two Secrets. The controller may stop between any two writes.
func TestIssuerCAsAreKept(t *testing.T) {
	errDied := errors.New("the controller has died")
	for writes := range 8 {
		s, left := newState(), writes
		die := func() error {
			if left--; left < 0 {
				return errDied
			}
			return nil
		}
		kube := fake.NewClientBuilder().WithScheme(requestScheme()).Build()
		k := &Keeper{Namespace: s.Namespace, Clock: func() time.Time { return start },
			Kube: interceptor.NewClient(kube, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
					return errors.Join(die(), c.Create(ctx, o, options...))
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
					return errors.Join(die(), c.Delete(ctx, o, options...))
				},
			})}
		for n := range 4 {
			want := issuertest.New(t, "ca", start.Add(time.Duration(n)*time.Hour)).CA()
			for range 3 { // The controller restarts.
				if err := k.readIssuerCAs(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				if len(s.IssuerCAs) == 0 && n > 0 {
					t.Fatalf("after %d writes, none is trusted any more", writes)
				}
				if err := k.keepIssuerCAs(t.Context(), s, &Plan{IssuerCAs: want}); err != nil {
					left = 100
				}
			}
			if err := k.readIssuerCAs(t.Context(), s); err != nil || !bytes.Equal(s.IssuerCAs, want) {
				t.Errorf("after %d writes, the authority %d is not the one that counts: %v", writes, n, err)
			}
		}
		left = 100
		if err := k.keepIssuerCAs(t.Context(), s, &Plan{}); err != nil {
			t.Fatal(err)
		}
		if all, err := k.issuerCAs(t.Context(), s.Instance); err != nil || len(all) > 0 {
			t.Errorf("%d are left, %v", len(all), err)
		}
	}
}

// TestWrongClockRenewsNothing checks that no certificate or CA is renewed because of its age while the clocks of the
// controller and the API server differ. A certificate that is invalid by both clocks is renewed.
func TestWrongClockRenewsNothing(t *testing.T) {
	const month = 31 * 24 * time.Hour
	for name, tc := range map[string]struct {
		reason string
		// server and own are the times by which the API server's and the controller's clock are ahead.
		server, own time.Duration
		renews      bool
	}{
		"Agree":       {reason: "Both clocks agree that the certificate is not due.", server: month, own: month},
		"Due":         {reason: "Both clocks agree that the certificate is due.", server: 2 * month, own: 2 * month, renews: true},
		"OwnAhead":    {reason: "Only the controller's clock is ahead, so nothing must be renewed.", own: 4 * month},
		"ServerAhead": {reason: "Only the API server's clock is ahead, and it may be the wrong one.", server: 4 * month},
		"Decades":     {reason: "A clock that is ahead by years may be the wrong one as well.", server: 10 * 12 * month},
		"BothBad": {reason: "The certificate has expired by both clocks, so it must be renewed.",
			server: 4 * month, own: 6 * month, renews: true},
		"BehindBoth": {reason: "The certificate is not valid yet by both clocks, so it must be renewed.",
			server: -month, own: -2 * month, renews: true},
	} {
		for _, issued := range []bool{false, true} {
			issuer, s := issuertest.New(t, "ca", start.Add(-12*month)), newState()
			if issuer.Instance = certificate.Instance; issued {
				s = newIssued(t, issuer)
			} else {
				s.step(t)
			}
			s.Now, s.Skew = start.Add(tc.server), clock.Skew{Ahead: tc.own - tc.server}
			p, err := Next(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Authority != nil || p.Server != nil || p.Request != nil; got != tc.renews {
				t.Errorf("%s, of an issuer %t: %s want something made %t, got %t", name, issued, tc.reason, tc.renews, got)
			}
			if !tc.renews && (p.Certificate == nil || len(p.Published) == 0) {
				t.Errorf("%s, of an issuer %t: %s the server has no certificate any more", name, issued, tc.reason)
			}
		}
	}
}

// TestCertificateOfTheFuture checks that a certificate and its CA are created again if the clock was ahead when they
// were created.
func TestCertificateOfTheFuture(t *testing.T) {
	s := newState()
	s.Now = start.AddDate(0, 0, 60)
	s.step(t)
	s.Now = start
	if p := s.step(t); p.Authority == nil || p.Server == nil {
		t.Errorf("got %+v", p)
	}
	if err := s.trusts(t, s.Server.Data[v1.CAKey], "shop.team.svc"); err != nil {
		t.Error(err)
	}
	if p := s.step(t); p.Authority != nil || p.Server != nil {
		t.Errorf("it is made again and again: %+v", p)
	}
}

// TestClusterDomain checks that the certificate is valid for the server's names in a cluster with any DNS domain. It
// must not be valid for the name of another Service.
func TestClusterDomain(t *testing.T) {
	s := newState()
	s.ClusterDomain = "corp.example"
	p := s.step(t)
	for host, want := range map[string]bool{
		"shop.team.svc": true, "shop.team.svc.corp.example": true, "shop.team": true, "shop": true,
		"shop.team.svc.cluster.local": false, "shop.other.svc.corp.example": false,
	} {
		if err := s.trusts(t, p.Published, host); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"vault.corp.example", "shop.other.svc.corp.example", "db.cluster.local"} {
		s.Host = host
		if p := s.step(t); slices.Contains(p.Certificate.DNSNames, host) {
			t.Errorf("it has the name %s, which the cluster may give to another", host)
		}
	}
	s.Host, s.ClusterDomain = "", ""
	if p := s.step(t); p.Server == nil || s.trusts(t, p.Published, "shop.team.svc.cluster.local") != nil {
		t.Error("another domain of the cluster does not renew the certificate")
	}
}
