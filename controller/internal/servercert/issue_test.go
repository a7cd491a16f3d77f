package servercert

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/issuertest"
)

// answer signs a request as cert-manager does.
func answer(t *testing.T, issuer *issuertest.Issuer, r *Request, now time.Time) {
	t.Helper()
	r.Certificate, r.CA = issuer.Answer(t, r.CSR, now), issuer.CA()
}

// pass runs the keeper, and then simulates cert-manager with an issuer. If the issuer is nil, no request is signed.
func (s *State) pass(t *testing.T, issuer *issuertest.Issuer) *Plan {
	t.Helper()
	p := s.step(t)
	if p.DropRequest {
		s.Request = nil
	}
	if p.Request != nil {
		s.Request = &Request{Issuer: *s.Issuer, CSR: p.Request, MadeAt: s.Now}
	}
	if s.Request != nil && issuer != nil && s.Request.Certificate == nil {
		answer(t, issuer, s.Request, s.Now)
	}
	return p
}

// newIssued returns a state with a certificate of an issuer.
func newIssued(t *testing.T, issuer *issuertest.Issuer) *State {
	t.Helper()
	s := newState()
	s.Issuer = &v1.IssuerReference{Name: "ca"}
	if p := s.pass(t, issuer); p.Certificate != nil || p.Server == nil || len(p.Server.Data[nextKey]) == 0 ||
		p.Request == nil || p.Message == "" {
		t.Fatalf("want it to ask, with a key that is kept: %+v", p)
	}
	if p := s.pass(t, issuer); p.Certificate == nil || !p.DropRequest || p.Message != "" ||
		p.Issuer != "Issuer.cert-manager.io/ca" {
		t.Fatalf("want what was answered: %+v", p)
	}
	return s
}

// TestIssued checks that the server presents the issuer's certificate, that its key is only in the Secret, and that
// clients get only the issuer's CA.
func TestIssued(t *testing.T) {
	issuer := issuertest.New(t, "ca", start)
	s := newIssued(t, issuer)
	if !bytes.Equal(s.Server.Data[v1.CAKey], issuer.CA()) || s.Server.Data[nextKey] != nil {
		t.Errorf("got %s", s.Server.Data[v1.CAKey])
	}
	for _, host := range []string{"shop.team.svc", "shop"} {
		if err := s.trusts(t, issuer.CA(), host); err != nil {
			t.Error(err)
		}
	}
	if p := s.pass(t, issuer); p.Server != nil || p.Request != nil || p.Authority != nil ||
		!bytes.Equal(p.Published, issuer.CA()) || p.Certificate == nil {
		t.Errorf("something is done although all is there: %+v", p)
	}
}

// TestIssuedForYears uses an issuer with a new CA each year. A client must always trust the server if it reads the
// CAs at least once in a sixth of a certificate's lifetime. No certificate may expire before the next one exists.
func TestIssuedForYears(t *testing.T) {
	issuer := issuertest.New(t, "ca", start)
	s := newIssued(t, issuer)
	read, readAt := s.Server.Data[v1.CAKey], s.Now
	made, since := 0, s.Now
	for ; s.Now.Before(start.Add(5 * 365 * 24 * time.Hour)); s.Now = s.Now.Add(8 * time.Hour) {
		if s.Now.Sub(start)%(365*24*time.Hour) == 0 {
			issuer, since = issuertest.New(t, "ca", s.Now), s.Now
		}
		p := s.pass(t, issuer)
		if err := s.trusts(t, read, "shop.team.svc"); err != nil {
			t.Fatalf("at %s, a client that read them at %s: %v", s.Now, readAt, err)
		}
		least := issuer.Instance / 6
		if s.Now.Sub(since) > issuer.Instance {
			least = issuer.Instance / 3 // Clients already know its CA.
		}
		if left := p.Certificate.NotAfter.Sub(s.Now); left < least-24*time.Hour {
			t.Fatalf("at %s the certificate has %s left", s.Now, left)
		}
		if n := len(certificate.ParseAll(p.Published)); n > 2 {
			t.Fatalf("at %s clients trust %d CAs", s.Now, n)
		}
		if p.DropRequest {
			made++
		}
		if s.Now.Sub(readAt) >= issuer.Instance/6-24*time.Hour {
			read, readAt = p.Published, s.Now
		}
	}
	if made < 70 || made > 100 {
		t.Errorf("%d certificates were made", made)
	}
}

// TestHandover adds and removes an issuer of the platform. A client that reads the CAs once a day must always trust
// the server. A CA that no longer signs remains published until the next certificate after that.
func TestHandover(t *testing.T) {
	issuer := issuertest.New(t, "ca", start)
	s := newState()
	read := s.step(t).Published
	s.Issuer = &v1.IssuerReference{Name: "ca"}
	follow := func(until func(p *Plan) bool) *Plan {
		t.Helper()
		for end := s.Now.Add(2 * certificate.Instance); s.Now.Before(end); s.Now = s.Now.Add(24 * time.Hour) {
			p := s.pass(t, issuer)
			if err := s.trusts(t, read, "shop.team.svc"); err != nil {
				t.Fatalf("at %s: %v", s.Now, err)
			}
			read = p.Published
			if until(p) {
				return p
			}
		}
		t.Fatal("it does not come to it")
		return nil
	}
	p := follow(func(p *Plan) bool { return p.Issuer != "" })
	if age := s.Now.Sub(start); age < certificate.Instance/6*5 || age > certificate.Instance {
		t.Errorf("the issuer's is shown after %s", age)
	}
	if n := len(certificate.ParseAll(p.Published)); n != 2 {
		t.Errorf("clients trust %d", n)
	}
	follow(func(p *Plan) bool { return p.DropRequest })
	follow(func(p *Plan) bool { return len(certificate.ParseAll(p.Published)) == 1 })
	s.Issuer = nil
	var ends time.Time
	p = follow(func(p *Plan) bool {
		if p.Issuer != "" {
			ends = p.Certificate.NotAfter
		}
		return p.Issuer == ""
	})
	if left := ends.Sub(s.Now); left < issuer.Instance/6-48*time.Hour {
		t.Errorf("the issuer's had %s left", left)
	}
	if len(certificate.ParseAll(p.Published)) != 2 || s.Server.Annotations[v1.AnnotationIssuer] == "" {
		t.Errorf("clients trust %d, %v", len(certificate.ParseAll(p.Published)), s.Server.Annotations)
	}
	follow(func(p *Plan) bool { return len(certificate.ParseAll(p.Published)) == 1 })
	if s.Server.Annotations[v1.AnnotationIssuer] != "" ||
		!s.ownAuthorities()[0].Equal(certificate.ParseAll(s.Server.Data[v1.CAKey])[0]) {
		t.Errorf("want the server's own authority alone: %v", s.Server.Annotations)
	}
}

// TestIssuerFails checks that failures of an issuer are reported. A server keeps an existing certificate. The issuer
// gets a new request after an hour.
func TestIssuerFails(t *testing.T) {
	cases := map[string]struct {
		reason  string
		answer  func(t *testing.T, s *State, issuer *issuertest.Issuer)
		says    string
		repeats bool
	}{
		"Silent": {reason: "There is no answer to the request, for example because cert-manager does not run.",
			answer: func(*testing.T, *State, *issuertest.Issuer) {},
			says:   "that cert-manager is running"},
		"Waits": {reason: "The request waits for an approval.", answer: func(_ *testing.T, s *State, _ *issuertest.Issuer) {
			s.Request.Message = "waiting for approval"
		}, says: "waiting for approval"},
		"Refused": {reason: "The issuer refused the request because of its policy.",
			answer: func(_ *testing.T, s *State, _ *issuertest.Issuer) {
				s.Request.Refused, s.Request.Message = true, "not in this zone"
			}, says: "not in this zone", repeats: true},
		"NoCA": {reason: "A public issuer may return a certificate without the CA.",
			answer: func(t *testing.T, s *State, issuer *issuertest.Issuer) {
				t.Helper()
				answer(t, issuer, s.Request, s.Now)
				s.Request.CA = nil
			}, says: "does not contain the CA", repeats: true},
		"OtherCA": {reason: "The certificate was not signed by the returned CA.",
			answer: func(t *testing.T, s *State, issuer *issuertest.Issuer) {
				t.Helper()
				answer(t, issuer, s.Request, s.Now)
				s.Request.CA = issuertest.New(t, "other", s.Now).CA()
			}, says: "unknown authority", repeats: true},
		"OtherKey": {reason: "The certificate belongs to another key.", answer: func(t *testing.T, s *State, issuer *issuertest.Issuer) {
			t.Helper()
			k, err := certificate.NewPrivateKey()
			if err != nil {
				t.Fatal(err)
			}
			own := s.Request.CSR
			if s.Request.CSR, err = k.Request(s.names()); err != nil {
				t.Fatal(err)
			}
			answer(t, issuer, s.Request, s.Now)
			s.Request.CSR = own
		}, says: "does not match the certificate", repeats: true},
		"OtherName": {reason: "The certificate is not valid for the name of the server.",
			answer: func(t *testing.T, s *State, issuer *issuertest.Issuer) {
				t.Helper()
				k := certificate.PrivateKey(s.Server.Data[nextKey])
				own := s.Request.CSR
				var err error
				if s.Request.CSR, err = k.Request(certificate.Names{DNS: []string{"shop.example.org"}}); err != nil {
					t.Fatal(err)
				}
				answer(t, issuer, s.Request, s.Now)
				s.Request.CSR = own
			}, says: "valid for shop.example.org, not shop.team.svc", repeats: true},
		"Ended": {reason: "The certificate has already expired.", answer: func(t *testing.T, s *State, issuer *issuertest.Issuer) {
			t.Helper()
			issuer.Instance = 0
			answer(t, issuer, s.Request, s.Now.Add(-time.Minute))
		}, says: "expired", repeats: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			issuer := issuertest.New(t, "ca", start)
			s := newIssued(t, issuer)
			shows := s.Server.Data[corev1.TLSCertKey]
			s.Now = s.Now.Add(issuer.Instance/3*2 + time.Minute)
			if p := s.pass(t, nil); p.Request == nil || p.Certificate == nil {
				t.Fatalf("want it to ask: %+v", p)
			}
			tc.answer(t, s, issuer)
			p := s.pass(t, nil)
			if !strings.Contains(p.Message, tc.says) || p.DropRequest || p.Certificate == nil {
				t.Errorf("%s got %q, %+v", tc.reason, p.Message, p)
			}
			s.Now = s.Now.Add(retryIssuer + time.Minute)
			if p = s.pass(t, nil); p.DropRequest != tc.repeats {
				t.Errorf("%s asked again: %t", tc.reason, p.DropRequest)
			}
			if !bytes.Equal(s.Server.Data[corev1.TLSCertKey], shows) {
				t.Errorf("%s the server shows another one", tc.reason)
			}
			issuer = issuertest.New(t, "ca", s.Now)
			for range 3 {
				s.Request = nil // A user deletes the failed request.
				s.pass(t, issuer)
				p = s.pass(t, issuer)
			}
			if err := s.trusts(t, p.Published, "shop.team.svc"); err != nil || p.Message != "" {
				t.Errorf("%s then: %q, %v", tc.reason, p.Message, err)
			}
		})
	}
}

// TestAddedToBundle checks that the controller does not publish a certificate that a user has added to the server's
// Secret. The key of such a certificate could be so large that a verification takes minutes of CPU time.
func TestAddedToBundle(t *testing.T) {
	issuer := issuertest.New(t, "ca", start)
	s := newIssued(t, issuer)
	s.Server.Data[v1.CAKey] = append(s.Server.Data[v1.CAKey],
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...)
	if p := s.pass(t, issuer); !bytes.Equal(p.Published, issuer.CA()) || p.Certificate == nil {
		t.Errorf("it publishes\n%s", p.Published)
	}
}

// TestIssuedRepair checks that a certificate is requested again immediately if it was changed or lost.
func TestIssuedRepair(t *testing.T) {
	for name, spoil := range map[string]func(*State){
		"Deleted": func(s *State) { s.Server = nil },
		"Emptied": func(s *State) { s.Server.Data = nil },
		"Key":     func(s *State) { delete(s.Server.Data, corev1.TLSPrivateKeyKey) },
		"CA":      func(s *State) { delete(s.Server.Data, v1.CAKey) },
		"Host":    func(s *State) { s.Host = address },
		"Ended":   func(s *State) { s.Now = s.Now.Add(2 * certificate.Instance) },
		"Lost": func(s *State) { // The key of a pending request.
			s.Now = s.Now.Add(certificate.Instance)
			s.pass(&testing.T{}, nil)
			delete(s.Server.Data, nextKey)
		},
		"Moved": func(s *State) { // The host and the issuer change during a request.
			s.Now = s.Now.Add(certificate.Instance)
			s.pass(&testing.T{}, nil)
			s.Host, s.Issuer = "db.example.org", &v1.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := issuertest.New(t, "ca", start)
			s := newIssued(t, issuer)
			spoil(s)
			passes := 0
			for p := s.pass(t, issuer); p.Certificate == nil || p.Message != ""; p = s.pass(t, issuer) {
				if passes++; passes > 4 {
					t.Fatalf("it does not come to an end: %+v", p)
				}
			}
			host := "shop.team.svc"
			if s.Host != "" {
				host = s.Host
			}
			if err := s.trusts(t, s.Server.Data[v1.CAKey], host); err != nil || passes == 0 || s.Server.Data[nextKey] != nil {
				t.Errorf("after %d passes: %v", passes, err)
			}
			if s.Issuer.Kind != "" && s.Server.Annotations[v1.AnnotationIssuer] != "ClusterIssuer.cert-manager.io/ca" {
				t.Errorf("signed by %v", s.Server.Annotations)
			}
		})
	}
}
