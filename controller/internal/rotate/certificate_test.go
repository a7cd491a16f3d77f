package rotate

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// shownBy returns a server certificate that is valid from the given time.
func shownBy(t *testing.T, timestamp time.Time) *x509.Certificate {
	t.Helper()
	a, err := certificate.NewAuthority(timestamp, "test")
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Sign(timestamp, certificate.Names{DNS: []string{"shop.team.svc"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := certificate.Parse(p.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCertificateIsReloaded checks that a server with an old certificate reloads it once, as soon as its pod has the
// new one.
func TestCertificateIsReloaded(t *testing.T) {
	ctx := t.Context()
	c := newCluster(t, "a", "")
	before, after := shownBy(t, c.clock), shownBy(t, c.clock.Add(time.Hour))
	c.loaded, c.mounted = before, before
	r, in := c.rotator(), c.input("a")
	in.Certificate, in.Authorities = before, []byte("ours")
	check := func(reason string, served *x509.Certificate, message string, reloads int, quiet bool) {
		t.Helper()
		c.reloads, c.logins = 0, 0
		out, err := r.Reconcile(ctx, in)
		if err != nil || out.Credentials.State != v1.CredentialsInSync {
			t.Fatalf("%s: got %+v, %v", reason, out.Credentials, err)
		}
		if quiet != (c.logins == 0) || c.reloads != reloads || !strings.Contains(out.ServedMessage, message) ||
			message == "" && out.ServedMessage != "" {
			t.Errorf("%s: %d logins, %d reloads, %q", reason, c.logins, c.reloads, out.ServedMessage)
		}
		if served != nil && (out.ServedNotAfter == nil || !out.ServedNotAfter.Time.Equal(served.NotAfter)) {
			t.Errorf("%s: want what is served until %s, got %s", reason, served.NotAfter, out.ServedNotAfter)
		}
		if waits := out.RequeueAfter == uncertified; waits != (message != "") {
			t.Errorf("%s: the next look is after %s", reason, out.RequeueAfter)
		}
	}
	check("all is new", before, "", 0, false)
	check("nothing is to do", nil, "", 0, true)
	if ca := c.secret(testInstance().ConnectionSecretName()).Data[keyCA]; string(ca) != "ours" {
		t.Errorf("clients have %q", ca)
	}
	in.Certificate, in.Authorities = after, []byte("ours and the next")
	check("the kubelet is slow", before, "has not received", 1, false)
	c.reload = &sql.Error{Doing: "reload", Number: 3888, Text: "cannot"}
	check("the files do not match", before, "3888", 1, false)
	c.reload, c.mounted = nil, after
	check("it is there", after, "", 1, false)
	check("nothing is to do again", nil, "", 0, true)
	if ca := c.secret(testInstance().ConnectionSecretName()).Data[keyCA]; string(ca) != "ours and the next" {
		t.Errorf("clients have %q", ca)
	}
}

// TestCertificateAtStart checks a server that reads its certificate only when it starts. Only the first pass tries to
// reload the certificate. The status must contain the time before which the server has to be restarted.
func TestCertificateAtStart(t *testing.T) {
	c := newCluster(t, "a", "")
	c.loaded, c.reload = shownBy(t, c.clock), sql.ErrReadsAtStart
	r, in := c.rotator(), c.input("a")
	in.Certificate = shownBy(t, c.clock.Add(time.Hour))
	out, err := r.Reconcile(t.Context(), in)
	if err != nil || !strings.Contains(out.ServedMessage, "restarts") ||
		!out.ServedNotAfter.Time.Equal(c.loaded.NotAfter) {
		t.Errorf("got %+v, %v", out, err)
	}
	c.logins = 0
	if _, err := r.Reconcile(t.Context(), in); err != nil || c.logins != 0 {
		t.Errorf("it was asked again: %d, %v", c.logins, err)
	}
}

// TestNoLogin checks that the controller sends no password while NoLogin is set. Passes that need no login must still
// work.
func TestNoLogin(t *testing.T) {
	c := newCluster(t, "a", "")
	r, in := c.rotator(), c.input("a")
	if _, err := r.Reconcile(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	c.logins, in.NoLogin, in.VerifyPassword = 0, "restart it", true
	for wanted, want := range map[sql.Password]string{"a": v1.CredentialsInSync, "b": v1.CredentialsFailed} {
		in.Wanted = wanted
		out, err := r.Reconcile(t.Context(), in)
		if err != nil || out.Credentials.State != want || out.Credentials.Message != "restart it" || c.logins > 0 {
			t.Errorf("%s: got %+v after %d logins, %v", wanted, out.Credentials, c.logins, err)
		}
	}
	if c.connection() != "a" {
		t.Errorf("clients have %q", c.connection())
	}
}

// TestTrustIsReported checks that each login verifies the server, including logins that only try a password.
func TestTrustIsReported(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r, in := c.rotator(), c.input("b")
	in.Trust = sql.Trust{Name: "shop.team.svc"}
	login := r.login
	r.login = func(ctx context.Context, s sql.Server, p sql.Password) (session, error) {
		if s.Trust.Name != in.Trust.Name {
			t.Errorf("%q is sent to %+v", p, s.Trust)
		}
		return login(ctx, s, p)
	}
	if _, err := r.Reconcile(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if c.logins < 2 {
		t.Errorf("there were %d logins", c.logins)
	}
}

// TestClientInBetween checks that a server which cannot be verified is reported and gets no password. It must be
// contacted less often.
func TestClientInBetween(t *testing.T) {
	for _, cause := range []error{sql.ErrUntrusted, sql.ErrNoTLS} {
		c := newCluster(t, "a", "")
		c.down = cause
		out, err := c.rotator().Reconcile(t.Context(), c.input("a"))
		if err != nil || out.Credentials.State != v1.CredentialsFailed ||
			!strings.Contains(out.Credentials.Message, "did not present the certificate of this instance") || !out.Strained {
			t.Errorf("%v: got %+v, strained %t, %v", cause, out.Credentials, out.Strained, err)
		}
		if c.logins != 1 || errors.Is(err, cause) {
			t.Errorf("%v: there were %d logins", cause, c.logins)
		}
	}
}
