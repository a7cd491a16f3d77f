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

// answer a request, as cert-manager does.
func answer(t *testing.T, by *issuertest.Issuer, r *Request, now time.Time) {
	t.Helper()
	r.Certificate, r.CA = by.Answer(t, r.CSR, now), by.CA()
}

// pass of the keeper, and of cert-manager with an issuer after it; nil makes nothing.
func (s *State) pass(t *testing.T, by *issuertest.Issuer) *Plan {
	t.Helper()
	p := s.step(t)
	if p.DropRequest {
		s.Request = nil
	}
	if p.Request != nil {
		s.Request = &Request{Issuer: *s.Issuer, CSR: p.Request, MadeAt: s.Now}
	}
	if s.Request != nil && by != nil && s.Request.Certificate == nil {
		answer(t, by, s.Request, s.Now)
	}
	return p
}

// newIssued has a certificate of an issuer.
func newIssued(t *testing.T, by *issuertest.Issuer) *State {
	t.Helper()
	s := newState()
	s.Issuer = &v1.IssuerReference{Name: "ca"}
	if p := s.pass(t, by); p.Certificate != nil || p.Server == nil || len(p.Server.Data[nextKey]) == 0 || p.Request == nil || p.Message == "" {
		t.Fatalf("want it to ask, with a key that is kept: %+v", p)
	}
	if p := s.pass(t, by); p.Certificate == nil || !p.DropRequest || p.Message != "" || p.Issuer != "Issuer.cert-manager.io/ca" {
		t.Fatalf("want what was answered: %+v", p)
	}
	return s
}

// TestIssued: a server shows what an issuer has signed, its key never leaves the Secret, and clients get the issuer's CA and no
// other.
func TestIssued(t *testing.T) {
	by := issuertest.New(t, "ca", start)
	s := newIssued(t, by)
	if !bytes.Equal(s.Server.Data[v1.CAKey], by.CA()) || s.Server.Data[nextKey] != nil {
		t.Errorf("got %s", s.Server.Data[v1.CAKey])
	}
	for _, host := range []string{"shop.team.svc", "shop"} {
		if err := s.trusts(t, by.CA(), host); err != nil {
			t.Error(err)
		}
	}
	if p := s.pass(t, by); p.Server != nil || p.Request != nil || p.Authority != nil || !bytes.Equal(p.Published, by.CA()) || p.Certificate == nil {
		t.Errorf("something is done although all is there: %+v", p)
	}
}

// TestIssuedForYears: with an issuer whose CA is another one each year, a client that has read the authorities a third of the
// issuer's certificates' life ago trusts what the server shows; and no certificate ends before there is another one.
func TestIssuedForYears(t *testing.T) {
	by := issuertest.New(t, "ca", start)
	s := newIssued(t, by)
	read, readAt := s.Server.Data[v1.CAKey], s.Now
	made, since := 0, s.Now
	for ; s.Now.Before(start.Add(5 * 365 * 24 * time.Hour)); s.Now = s.Now.Add(8 * time.Hour) {
		if s.Now.Sub(start)%(365*24*time.Hour) == 0 {
			by, since = issuertest.New(t, "ca", s.Now), s.Now
		}
		p := s.pass(t, by)
		if err := s.trusts(t, read, "shop.team.svc"); err != nil {
			t.Fatalf("at %s, a client that read them at %s: %v", s.Now, readAt, err)
		}
		least := by.Life / 6
		if s.Now.Sub(since) > by.Life {
			least = by.Life / 3 // Its CA is known.
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
		if s.Now.Sub(readAt) >= by.Life/6-24*time.Hour {
			read, readAt = p.Published, s.Now
		}
	}
	if made < 70 || made > 100 {
		t.Errorf("%d certificates were made", made)
	}
}

// TestHandover: where the platform names an issuer, or none any more, a client that has read the authorities since the last
// certificate was made trusts what the server shows, and what signs no more is forgotten one certificate later.
func TestHandover(t *testing.T) {
	by := issuertest.New(t, "ca", start)
	s := newState()
	read := s.step(t).Published
	s.Issuer = &v1.IssuerReference{Name: "ca"}
	follow := func(until func(p *Plan) bool) *Plan {
		t.Helper()
		for end := s.Now.Add(2 * certificate.Life); s.Now.Before(end); s.Now = s.Now.Add(24 * time.Hour) {
			p := s.pass(t, by)
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
	if age := s.Now.Sub(start); age < certificate.Life/6*5 || age > certificate.Life {
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
	if left := ends.Sub(s.Now); left < by.Life/6-48*time.Hour {
		t.Errorf("the issuer's had %s left", left)
	}
	if len(certificate.ParseAll(p.Published)) != 2 || s.Server.Annotations[v1.AnnotationIssuer] == "" {
		t.Errorf("clients trust %d, %v", len(certificate.ParseAll(p.Published)), s.Server.Annotations)
	}
	follow(func(p *Plan) bool { return len(certificate.ParseAll(p.Published)) == 1 })
	if s.Server.Annotations[v1.AnnotationIssuer] != "" || !s.ownAuthorities()[0].Equal(certificate.ParseAll(s.Server.Data[v1.CAKey])[0]) {
		t.Errorf("want the server's own authority alone: %v", s.Server.Annotations)
	}
}

// TestIssuerFails: what an issuer does not do, or does wrong, is said; a server that has a certificate goes on with it, and the
// issuer is asked again after an hour.
func TestIssuerFails(t *testing.T) {
	cases := map[string]struct {
		reason string
		answer func(t *testing.T, s *State, by *issuertest.Issuer)
		says   string
		again  bool
	}{
		"Silent": {reason: "cert-manager may not run.", answer: func(*testing.T, *State, *issuertest.Issuer) {}, says: "is cert-manager running?"},
		"Waits":  {reason: "It may wait for somebody.", answer: func(_ *testing.T, s *State, _ *issuertest.Issuer) { s.Request.Message = "waiting for approval" }, says: "waiting for approval"},
		"Refused": {reason: "Policies refuse names.", answer: func(_ *testing.T, s *State, _ *issuertest.Issuer) {
			s.Request.Refused, s.Request.Message = true, "not in this zone"
		}, says: "not in this zone", again: true},
		"NoCA": {reason: "Public ones say none.", answer: func(t *testing.T, s *State, by *issuertest.Issuer) {
			t.Helper()
			answer(t, by, s.Request, s.Now)
			s.Request.CA = nil
		}, says: "which CA has signed it", again: true},
		"OtherCA": {reason: "The chain does not lead there.", answer: func(t *testing.T, s *State, by *issuertest.Issuer) {
			t.Helper()
			answer(t, by, s.Request, s.Now)
			s.Request.CA = issuertest.New(t, "other", s.Now).CA()
		}, says: "unknown authority", again: true},
		"OtherKey": {reason: "It is of somebody else.", answer: func(t *testing.T, s *State, by *issuertest.Issuer) {
			t.Helper()
			k, err := certificate.NewPrivateKey()
			if err != nil {
				t.Fatal(err)
			}
			own := s.Request.CSR
			if s.Request.CSR, err = k.Request(s.names()); err != nil {
				t.Fatal(err)
			}
			answer(t, by, s.Request, s.Now)
			s.Request.CSR = own
		}, says: "not that of the certificate", again: true},
		"OtherName": {reason: "Clients would not believe it.", answer: func(t *testing.T, s *State, by *issuertest.Issuer) {
			t.Helper()
			k := certificate.PrivateKey(s.Server.Data[nextKey])
			own := s.Request.CSR
			var err error
			if s.Request.CSR, err = k.Request(certificate.Names{DNS: []string{"shop.example.org"}}); err != nil {
				t.Fatal(err)
			}
			answer(t, by, s.Request, s.Now)
			s.Request.CSR = own
		}, says: "valid for shop.example.org, not shop.team.svc", again: true},
		"Ended": {reason: "It made one for no time at all.", answer: func(t *testing.T, s *State, by *issuertest.Issuer) {
			t.Helper()
			by.Life = 0
			answer(t, by, s.Request, s.Now.Add(-time.Minute))
		}, says: "expired", again: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			by := issuertest.New(t, "ca", start)
			s := newIssued(t, by)
			shows := s.Server.Data[corev1.TLSCertKey]
			s.Now = s.Now.Add(by.Life/3*2 + time.Minute)
			if p := s.pass(t, nil); p.Request == nil || p.Certificate == nil {
				t.Fatalf("want it to ask: %+v", p)
			}
			tc.answer(t, s, by)
			p := s.pass(t, nil)
			if !strings.Contains(p.Message, tc.says) || p.DropRequest || p.Certificate == nil {
				t.Errorf("%s got %q, %+v", tc.reason, p.Message, p)
			}
			s.Now = s.Now.Add(retryIssuer + time.Minute)
			if p = s.pass(t, nil); p.DropRequest != tc.again {
				t.Errorf("%s asked again: %t", tc.reason, p.DropRequest)
			}
			if !bytes.Equal(s.Server.Data[corev1.TLSCertKey], shows) {
				t.Errorf("%s the server shows another one", tc.reason)
			}
			by = issuertest.New(t, "ca", s.Now)
			for range 3 {
				s.Request = nil // Somebody has a look at it.
				s.pass(t, by)
				p = s.pass(t, by)
			}
			if err := s.trusts(t, p.Published, "shop.team.svc"); err != nil || p.Message != "" {
				t.Errorf("%s then: %q, %v", tc.reason, p.Message, err)
			}
		})
	}
}

// TestAddedToBundle: what somebody adds to the Secret, and is none that something is verified by, goes no further. Its key may be one that takes
// a processor for minutes.
func TestAddedToBundle(t *testing.T) {
	by := issuertest.New(t, "ca", start)
	s := newIssued(t, by)
	s.Server.Data[v1.CAKey] = append(s.Server.Data[v1.CAKey], "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...)
	if p := s.pass(t, by); !bytes.Equal(p.Published, by.CA()) || p.Certificate == nil {
		t.Errorf("it publishes\n%s", p.Published)
	}
}

// TestIssuedRepair: what somebody has changed is asked for again, at once.
func TestIssuedRepair(t *testing.T) {
	for name, spoil := range map[string]func(*State){
		"Deleted": func(s *State) { s.Server = nil },
		"Emptied": func(s *State) { s.Server.Data = nil },
		"Key":     func(s *State) { delete(s.Server.Data, corev1.TLSPrivateKeyKey) },
		"CA":      func(s *State) { delete(s.Server.Data, v1.CAKey) },
		"Host":    func(s *State) { s.Host = address },
		"Ended":   func(s *State) { s.Now = s.Now.Add(2 * certificate.Life) },
		"Lost": func(s *State) { // The key of a request that is under way.
			s.Now = s.Now.Add(certificate.Life)
			s.pass(&testing.T{}, nil)
			delete(s.Server.Data, nextKey)
		},
		"Moved": func(s *State) { // The host, and the issuer, while it is under way.
			s.Now = s.Now.Add(certificate.Life)
			s.pass(&testing.T{}, nil)
			s.Host, s.Issuer = "db.example.org", &v1.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			by := issuertest.New(t, "ca", start)
			s := newIssued(t, by)
			spoil(s)
			passes := 0
			for p := s.pass(t, by); p.Certificate == nil || p.Message != ""; p = s.pass(t, by) {
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
