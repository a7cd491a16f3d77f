package rotate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// A donor is a session with a server that may be cloned.
type donor interface {
	OfferClone(ctx context.Context, account string) (sql.Password, sql.Layout, error)
	WithdrawClone(ctx context.Context, account string) error
	OfferArchive(ctx context.Context) (sql.Password, error)
	SetCommitWait(ctx context.Context, waits bool) (canWait bool, err error)
	OutsideData(ctx context.Context) ([]sql.Outside, error)
}

// Donors creates and deletes the account with which a Job clones a running server. The controller does this as root.
type Donors struct{ *Rotator }

// These keys of the Secret contain the settings that the cloning server needs.
const (
	keyPageSize  = "page-size"
	keyLowerCase = "lower-case-table-names"
)

// errUnknown is returned if the certificate of a server is not known. The controller sends no password to such a
// server and does not clone it.
var errUnknown = errors.New("the server has no certificate, so it cannot be verified (allowedPlaintextImages of " +
	"the Platform): take backups with method Cold")

// errNoKnownPassword is returned if the server accepts none of the known passwords.
var errNoKnownPassword = errors.New("the server accepts none of the known passwords")

// OfferClone creates an account that can only clone the server's data. It returns the content of the Job's Secret.
func (d Donors) OfferClone(ctx context.Context, in *change.Server) (map[string][]byte, error) {
	host, err := d.addressOf(ctx, in.Of)
	if err != nil {
		return nil, err
	}
	p, l := sql.Password(""), sql.Layout{}
	if err := d.visit(ctx, in, func(s donor) (err error) {
		p, l, err = s.OfferClone(ctx, sql.CloneAccount)
		return err
	}); err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyHost: []byte(host), keyPort: []byte(strconv.Itoa(v1.Port)), keyUsername: []byte(sql.CloneAccount),
		keyPassword: []byte(p), keyCA: []byte(in.Authorities),
		keyPageSize: []byte(strconv.Itoa(l.PageSize)), keyLowerCase: []byte(strconv.Itoa(l.LowerCase)),
	}, nil
}

// WithdrawClone deletes the clone account if it exists. The controller does not log in if it does not know the
// server's CA. The account then remains, but its password is stored nowhere. The next backup or a restore deletes the
// account.
func (d Donors) WithdrawClone(ctx context.Context, in *change.Server) error {
	if in.Authorities == "" {
		return nil
	}
	return d.visit(ctx, in, func(s donor) error { return s.WithdrawClone(ctx, sql.CloneAccount) })
}

// OfferArchive creates the account with which the binary log of a server is read, and returns its password.
func (d Donors) OfferArchive(ctx context.Context, in *change.Server) (p sql.Password, err error) {
	err = d.visit(ctx, in, func(s donor) (err error) {
		p, err = s.OfferArchive(ctx)
		return err
	})
	return p, err
}

// WithdrawArchive deletes the account that OfferArchive has created, if it exists.
func (d Donors) WithdrawArchive(ctx context.Context, in *change.Server) error {
	return d.visit(ctx, in, func(s donor) error { return s.WithdrawClone(ctx, sql.ArchiveAccount) })
}

// SetCommitWait makes commits of a server wait until the archiver acknowledges them, or not. It returns false if the server
// was not started for durability Store.
func (d Donors) SetCommitWait(ctx context.Context, in *change.Server, waits bool) (canWait bool, err error) {
	err = d.visit(ctx, in, func(s donor) (err error) {
		canWait, err = s.SetCommitWait(ctx, waits)
		return err
	})
	return canWait, err
}

// CheckData returns an error if the server has data outside of its data directory. The caller must not stop the
// server in this case, because only a running server can move such data. If the server does not respond, the backup
// checks its files instead.
func (d Donors) CheckData(ctx context.Context, in *change.Server) error {
	var found []sql.Outside
	// The error is ignored, because the backup must not wait for this check.
	_ = d.visit(ctx, in, func(s donor) (err error) { found, err = s.OutsideData(ctx); return err })
	if text := sql.OutsideText(found); text != "" {
		return change.NewServerError(errors.New(text), false)
	}
	return ctx.Err()
}

// visit connects to a server as root with any of the known passwords.
func (d Donors) visit(ctx context.Context, in *change.Server, run func(donor) error) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(in.Authorities)) {
		return change.NewServerError(errUnknown, true)
	}
	p := &pass{
		Rotator: d.Rotator, accepted: map[sql.Password]bool{},
		in: Input{Instance: in.Of, Trust: sql.Trust{Authorities: pool, Name: in.Of.Host()}},
	}
	err := p.readSecrets(ctx)
	if err == nil {
		err = p.enterServer(ctx)
	}
	switch {
	case err != nil:
	case p.session == nil:
		err = errNoKnownPassword
	default:
		err = run(p.session)
	}
	if p.session != nil {
		p.session.Close()
	}
	if err != nil {
		return change.NewServerError(err, sql.IsNoDonor(err))
	}
	return nil
}

// addressOf returns the IP address of a server, so that the Job needs no DNS. A clone does not accept an IPv6 address
// (MySQL manual, 15.7.5 CLONE Statement), so the host name is returned in this case.
func (d Donors) addressOf(ctx context.Context, i v1.Instance) (string, error) {
	l := &corev1.ServiceList{}
	if err := d.Kube.List(ctx, l, client.InNamespace(i.Namespace),
		client.MatchingLabels{v1.LabelXR: string(i.XR)}); err != nil {
		return "", fmt.Errorf("cannot list Services of namespace %s: %w", i.Namespace, err)
	}
	for k := range l.Items {
		if l.Items[k].Name != i.ServiceName() {
			continue
		}
		for _, text := range l.Items[k].Spec.ClusterIPs {
			if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
				return text, nil
			}
		}
	}
	return i.Host(), nil
}
