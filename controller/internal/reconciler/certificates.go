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
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A serverTrust determines how the controller verifies a server, or that the platform requires no certificate.
type serverTrust struct {
	redact.All

	plan *servercert.Plan
}

// keepCertificate maintains the certificate of a server and publishes its certificate authorities. It returns nil if
// they have just been written, or cannot be written yet.
func (c *passwordReconciler) keepCertificate(ctx context.Context, s *instance.State,
	platform *v1.PlatformSpec) (*serverTrust, error) {
	if platform != nil && platform.AllowsPlaintext(s.XR.Status.Image) {
		return &serverTrust{}, c.writer.Apply(ctx, showTLS(s, nil, ""))
	}
	if platform == nil && s.XR.Status.TLS == nil {
		return nil, nil //nolint:nilnil // No certificate is created before the platform has chosen an issuer.
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
	now := v1.TLSStatus{ExpirationTime: &metav1.Time{Time: p.Certificate.NotAfter},
		Issuer: p.Issuer, IssuerMessage: v1.PrintableText(p.Message, maxEntry)}
	if previous := s.XR.Status.TLS; previous != nil {
		now.PresentedExpirationTime, now.Message = previous.PresentedExpirationTime, previous.Message
	}
	if changes := showTLS(s, &now, string(p.Published)); len(changes) > 0 {
		return nil, c.writer.Apply(ctx, changes)
	}
	return &serverTrust{plan: p}, nil
}

// describe adds to the Rotator's input which server may receive the password.
func (t *serverTrust) describe(in *rotate.Input, s *instance.State) {
	if t.plan == nil {
		in.Trust.AnyServer = true
		return
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(t.plan.Published)
	in.Trust = sql.Trust{Authorities: pool, Name: s.Instance.Host()}
	in.Certificate, in.Authorities = t.plan.Certificate, t.plan.Published
	if !s.XR.Status.Certified {
		in.NoLogin = fmt.Sprintf("The server was started by an earlier release without a certificate. The "+
			"controller cannot verify the server, and does not change its password until it restarts (kubectl "+
			"rollout restart deployment --namespace %s %s)",
			s.Instance.Namespace, s.Instance.DeploymentName())
	}
}

// showTLS writes the TLS fields of the XR's status.
func showTLS(s *instance.State, now *v1.TLSStatus, authorities string) []change.Change {
	if equality.Semantic.DeepEqual(s.XR.Status.TLS, now) && s.XR.Status.Authorities == authorities {
		return nil
	}
	var fields any
	if now != nil {
		fields = tlsFields(now)
	}
	return steps.PatchXRStatus(s, map[string]any{"tls": fields,
		v1.StatusInternal: map[string]any{"authorities": steps.OrNil(authorities)}})
}

// showServed writes the presented certificate to the status, if the controller has connected to the server.
func showServed(s *instance.State, r rotate.Result) []change.Change {
	if s.XR.Status.TLS == nil || r.ServedNotAfter == nil {
		return nil
	}
	now := s.XR.Status.TLS.DeepCopy()
	now.PresentedExpirationTime, now.Message = r.ServedNotAfter, v1.PrintableText(r.ServedMessage, maxEntry)
	return showTLS(s, now, s.XR.Status.Authorities)
}

// tlsFields returns the TLS fields for a status patch. A nil argument removes them.
func tlsFields(t *v1.TLSStatus) map[string]any {
	out := map[string]any{"expirationTime": nil, "presentedExpirationTime": nil, "issuer": nil, "issuerMessage": nil,
		"message": nil}
	if t.ExpirationTime != nil {
		out["expirationTime"] = t.ExpirationTime
	}
	if t.PresentedExpirationTime != nil {
		out["presentedExpirationTime"] = t.PresentedExpirationTime
	}
	for field, text := range map[string]string{"issuer": t.Issuer, "issuerMessage": t.IssuerMessage,
		"message": t.Message} {
		if text != "" {
			out[field] = text
		}
	}
	return out
}
