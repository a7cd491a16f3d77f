package reconciler

import (
	"context"
	"crypto/x509"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/servercert"
)

// A serverTrust says by what a server is known; of one without a certificate, that the platform wants none.
type serverTrust struct {
	redact.All

	plan *servercert.Plan
}

// keepCertificate of a server, and publish its authorities. It is nil where that was just written, or cannot be yet.
func (c *passwordReconciler) keepCertificate(ctx context.Context, s *instance.State, platform *v1.MySQLPlatformSpec) (*serverTrust, error) {
	if platform != nil && platform.AllowsPlaintext(s.XR.Status.Image) {
		return &serverTrust{}, c.writer.Apply(ctx, showTLS(s, nil))
	}
	if platform == nil && s.XR.Status.TLS == nil {
		return nil, nil //nolint:nilnil // Nothing starts before the platform has said who signs.
	}
	host := ""
	if e := s.XR.Status.Endpoint; e != nil {
		host = e.Host
	}
	var issuer *v1.IssuerReference
	if platform != nil {
		issuer = platform.CertificateIssuer
	}
	in := newInput(s)
	p, err := c.certifier.Keep(ctx, in.Instance, in.Owner, host, issuer)
	if err != nil {
		return nil, err
	}
	now := v1.TLSStatus{Authorities: string(p.Published), NotAfter: &metav1.Time{Time: p.Certificate.NotAfter}, Issuer: p.Issuer, IssuerMessage: v1.PrintableText(p.Message, maxNote)}
	if was := s.XR.Status.TLS; was != nil {
		now.ServedNotAfter, now.Message = was.ServedNotAfter, was.Message
	}
	if changes := showTLS(s, &now); len(changes) > 0 {
		return nil, c.writer.Apply(ctx, changes)
	}
	return &serverTrust{plan: p}, nil
}

// describe to the Rotator whom it may tell a password.
func (t *serverTrust) describe(in *rotate.Input, s *instance.State) {
	if t.plan == nil {
		in.Trust.Anybody = true
		return
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(t.plan.Published)
	in.Trust = sql.Trust{Authorities: pool, Name: s.Life.Host()}
	in.Certificate, in.Authorities = t.plan.Certificate, t.plan.Published
	if !s.XR.Status.Certified {
		in.NoLogin = fmt.Sprintf("The server was started by an earlier release, without the certificate by which it is known: nobody logs in to change its password before it restarts (kubectl rollout restart deployment --namespace %s %s)",
			s.Life.Namespace, s.Life.DeploymentName())
	}
}

// showTLS in the status of the XR.
func showTLS(s *instance.State, now *v1.TLSStatus) []change.Change {
	if equality.Semantic.DeepEqual(s.XR.Status.TLS, now) {
		return nil
	}
	var fields any
	if now != nil {
		fields = tlsFields(now)
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, map[string]any{"tls": fields})}
}

// showServed certificate, where the server was asked.
func showServed(s *instance.State, r rotate.Result) []change.Change {
	if s.XR.Status.TLS == nil || r.ServedNotAfter == nil {
		return nil
	}
	now := s.XR.Status.TLS.DeepCopy()
	now.ServedNotAfter, now.Message = r.ServedNotAfter, v1.PrintableText(r.ServedMessage, maxNote)
	return showTLS(s, now)
}

// tlsFields of a status; nil takes one away.
func tlsFields(t *v1.TLSStatus) map[string]any {
	out := map[string]any{"authorities": t.Authorities, "notAfter": nil, "servedNotAfter": nil, "issuer": nil, "issuerMessage": nil, "message": nil}
	if t.NotAfter != nil {
		out["notAfter"] = t.NotAfter
	}
	if t.ServedNotAfter != nil {
		out["servedNotAfter"] = t.ServedNotAfter
	}
	for field, text := range map[string]string{"issuer": t.Issuer, "issuerMessage": t.IssuerMessage, "message": t.Message} {
		if text != "" {
			out[field] = text
		}
	}
	return out
}
