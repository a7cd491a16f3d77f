package rotate

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// uncertified is the delay before a server that does not present its new certificate is checked again. The kubelet
// takes a minute or two to update a changed Secret in a running pod.
const uncertified = 15 * time.Second

// refreshCertificate makes the server reload its certificate if it does not present the expected one. It returns true
// if the server may present it soon.
func (p *pass) refreshCertificate(ctx context.Context) (awaited bool, err error) {
	if p.in.Certificate == nil || p.recordPresented(p.session) {
		return false, nil
	}
	err = p.session.ReloadTLS(ctx)
	log.FromContext(ctx).V(1).Info("Asked the server to reload its certificate", "error", err)
	switch {
	case errors.Is(err, sql.ErrReadsAtStart):
		p.result.ServedMessage = "the server presents its previous certificate until it restarts, because it reads " +
			"certificates only when it starts. Restart it before that certificate expires"
		return false, nil
	case err != nil && !sql.IsUnreachable(err):
		p.result.ServedMessage = err.Error() + ". This is retried"
		return true, nil
	case err != nil:
		return true, err
	}
	// An existing connection keeps the certificate from its start.
	s, err := p.openSession(ctx, passwordOf(p.kept.connection))
	if err != nil {
		return true, err
	}
	defer s.Close()
	if !p.recordPresented(s) {
		p.result.ServedMessage = "the server has not received its new certificate yet"
		return true, nil
	}
	return false, nil
}

// recordPresented stores the expiry of the certificate that a session presents, and reports whether it is the expected
// one.
func (p *pass) recordPresented(s session) bool {
	shown := s.Certificate()
	if shown == nil {
		return false
	}
	p.result.ServedNotAfter = &metav1.Time{Time: shown.NotAfter}
	return shown.Equal(p.in.Certificate)
}

// restMark identifies the Secret and the certificate of a pass after which nothing is left to do.
func (p *pass) restMark() string {
	out := p.kept.connection.ResourceVersion
	if c := p.in.Certificate; c != nil {
		out += " " + c.SerialNumber.String()
	}
	return out
}
