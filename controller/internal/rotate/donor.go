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

// A donor lets an account clone it, and no more.
type donor interface {
	OfferClone(ctx context.Context, account string) (sql.Password, sql.Layout, error)
	WithdrawClone(ctx context.Context, account string) error
	OutsideData(ctx context.Context) ([]sql.Outside, error)
}

// Donors are servers whose data is cloned while they run. Who is let in for that is made and taken away here, by root.
type Donors struct{ *Rotator }

// Keys of what a server that clones it has to know of its data.
const (
	keyPageSize  = "page-size"
	keyLowerCase = "lower-case-table-names"
)

// errUnknown server: nobody tells one a password, and none is cloned, that is not known by a certificate.
var errUnknown = errors.New("the server has no certificate by which it would be known (MySQLPlatform's allowPlaintext): take backups with method Cold")

// errNobody knows the password.
var errNobody = errors.New("the server accepts none of the passwords that are known")

// OfferClone of a server's data to an account that may do nothing else, and return how it is reached.
func (d Donors) OfferClone(ctx context.Context, in *change.Server) (map[string][]byte, error) {
	host, err := d.addressOf(ctx, in.Of)
	if err != nil {
		return nil, err
	}
	p, l := sql.Password(""), sql.Layout{}
	if err := d.visit(ctx, in, func(s donor) (err error) { p, l, err = s.OfferClone(ctx, sql.CloneAccount); return err }); err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyHost: []byte(host), keyPort: []byte(strconv.Itoa(v1.Port)), keyUsername: []byte(sql.CloneAccount), keyPassword: []byte(p), keyCA: []byte(in.Authorities),
		keyPageSize: []byte(strconv.Itoa(l.PageSize)), keyLowerCase: []byte(strconv.Itoa(l.LowerCase)),
	}, nil
}

// WithdrawClone takes that account away, if there is one. In a server that is not known none is made; where the platform has said only since
// that it needs no certificate, the account stays with a password that nobody has, until the next one or a restore.
func (d Donors) WithdrawClone(ctx context.Context, in *change.Server) error {
	if in.Authorities == "" {
		return nil
	}
	return d.visit(ctx, in, func(s donor) error { return s.WithdrawClone(ctx, sql.CloneAccount) })
}

// CheckData of a server that is about to stop. Only a server that answers can move what is stored outside of its data
// directory, and so it must go on until that is done. If it does not answer, the backup looks at its files.
func (d Donors) CheckData(ctx context.Context, in *change.Server) error {
	var found []sql.Outside
	_ = d.visit(ctx, in, func(s donor) (err error) { found, err = s.OutsideData(ctx); return err }) // Nobody is to wait for that.
	if text := sql.OutsideText(found); text != "" {
		return change.NewServerError(errors.New(text), false)
	}
	return ctx.Err()
}

// visit a server as root, whichever of its passwords it has at the moment.
func (d Donors) visit(ctx context.Context, in *change.Server, do func(donor) error) error {
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
		err = errNobody
	default:
		err = do(p.session)
	}
	if p.session != nil {
		p.session.Close()
	}
	if err != nil {
		return change.NewServerError(err, sql.IsNoDonor(err))
	}
	return nil
}

// addressOf a server for its Job, which asks no DNS. A clone takes no literal of IPv6 (MySQL manual, 15.7.5 CLONE Statement): there
// it has to.
func (d Donors) addressOf(ctx context.Context, i v1.Instance) (string, error) {
	l := &corev1.ServiceList{}
	if err := d.Kube.List(ctx, l, client.InNamespace(i.Namespace), client.MatchingLabels{v1.LabelXR: string(i.XR)}); err != nil {
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
