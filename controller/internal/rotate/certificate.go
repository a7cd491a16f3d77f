package rotate

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// uncertified is how soon a server is asked again that has not got its new certificate: the kubelet takes a minute or two to
// bring a changed Secret into a running pod.
const uncertified = 15 * time.Second

// refreshCertificate of a server that shows another one than it is to. True while it may soon.
func (p *pass) refreshCertificate(ctx context.Context) (awaited bool, err error) {
	if p.in.Certificate == nil || p.noteServed(p.session) {
		return false, nil
	}
	err = p.session.ReloadTLS(ctx)
	log.FromContext(ctx).V(1).Info("Told the server to read its certificate again", "error", err)
	switch {
	case errors.Is(err, sql.ErrReadsAtStart):
		p.result.ServedMessage = "the server shows an earlier certificate until it restarts, which it must before that ends: it reads one only when it starts"
		return false, nil
	case err != nil && !sql.IsUnreachable(err):
		p.result.ServedMessage = err.Error() + "; it is tried again"
		return true, nil
	case err != nil:
		return true, err
	}
	// Whoever is connected goes on with what was shown at the beginning.
	s, err := p.openSession(ctx, passwordOf(p.kept.connection))
	if err != nil {
		return true, err
	}
	defer s.Close()
	if !p.noteServed(s) {
		p.result.ServedMessage = "the server has not got its new certificate yet"
		return true, nil
	}
	return false, nil
}

// noteServed certificate of a session, and whether it is the one that it is to be.
func (p *pass) noteServed(s session) bool {
	shown := s.Certificate()
	if shown == nil {
		return false
	}
	p.result.ServedNotAfter = &metav1.Time{Time: shown.NotAfter}
	return shown.Equal(p.in.Certificate)
}

// restMark is what all of the last pass was about.
func (p *pass) restMark() string {
	out := p.kept.connection.ResourceVersion
	if c := p.in.Certificate; c != nil {
		out += " " + c.SerialNumber.String()
	}
	return out
}
