package rotate

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/sql"
)

// kept Secrets of the instance, nil where there is none.
type kept struct {
	connection, pending, initial *corev1.Secret
}

func (p *pass) read(ctx context.Context) (err error) {
	i := p.in.Instance
	if p.kept.connection, err = own(ctx, p.Kube, i, i.ConnectionSecretName()); err != nil {
		return err
	}
	if p.kept.pending, err = own(ctx, p.Kube, i, i.PendingSecretName()); err != nil {
		return err
	}
	p.kept.initial, err = own(ctx, p.Kube, i, i.RootSecretName())
	return err
}

// gather the state. Somebody is in the session, so that the server answers and
// one password at least is accepted.
func (p *pass) gather(ctx context.Context, accounts []sql.Account) (State, error) {
	s := State{
		Wanted: p.in.Wanted, Connection: password(p.kept.connection), Pending: password(p.kept.pending),
		Reachable: true, Dual: p.dual, Retained: slices.ContainsFunc(accounts, func(a sql.Account) bool { return a.Retained }),
		Since: p.since(), Grace: p.Grace, Settle: p.Settle,
		Described: p.kept.connection != nil && p.in.described(p.kept.connection),
	}
	for _, ask := range []struct {
		about sql.Password
		into  *bool
	}{{s.Wanted, &s.AcceptsWanted}, {s.Connection, &s.AcceptsConnection}, {s.Pending, &s.AcceptsPending}} {
		ok, err := p.accepts(ctx, ask.about)
		if err != nil {
			return State{}, err
		}
		*ask.into = ok
	}
	for _, other := range p.others() {
		s.AcceptsOther = s.AcceptsOther || p.accepted[other]
	}
	return s, nil
}

// accepts asks the server once for each password, until something changes there.
func (p *pass) accepts(ctx context.Context, candidate sql.Password) (bool, error) {
	if candidate == "" {
		return false, nil
	}
	if known, ok := p.accepted[candidate]; ok {
		return known, nil
	}
	s, err := p.open(ctx, candidate)
	if err != nil && !sql.IsAccessDenied(err) {
		return false, err
	}
	if err == nil {
		s.Close()
	}
	p.accepted[candidate] = err == nil
	return err == nil, nil
}

func (p *pass) perform(ctx context.Context, s Step, accounts []sql.Account) error {
	switch s.Do {
	case Create:
		return p.create(ctx, s.Password)
	case Stage:
		return p.stage(ctx, s.Password)
	case Change:
		clear(p.accepted)
		return p.session.SetPassword(ctx, accounts, s.Password, s.Retain)
	case Promote:
		return p.promote(ctx, s.Password)
	case Discard:
		clear(p.accepted)
		return p.session.DiscardOld(ctx, accounts)
	case Take:
		clear(p.accepted)
		if err := p.session.SetPassword(ctx, accounts, s.Password, false); err != nil {
			return err
		}
		return p.session.DiscardOld(ctx, accounts)
	case Forget:
		return remove(ctx, p.Kube, p.kept.pending)
	case Describe:
		return p.describe(ctx)
	case Rest, Wait, Unreachable, Refused:
	}
	return nil
}

// create the connection Secret. What it leads to exists.
func (p *pass) create(ctx context.Context, to sql.Password) error {
	if err := p.session.EnsureDatabase(ctx, p.in.Database); err != nil {
		return err
	}
	s := p.in.connectionSecret(nil, to, p.in.Database)
	s.Annotations[v1.AnnotationPasswordChangedAt] = p.timestamp()
	if err := p.Kube.Create(ctx, s); err != nil {
		return kubeFailed(err, "create", s.Namespace, s.Name)
	}
	return nil
}

func (p *pass) stage(ctx context.Context, wanted sql.Password) error {
	s := &corev1.Secret{ObjectMeta: p.in.meta(p.in.Instance.PendingSecretName()), Type: corev1.SecretTypeOpaque}
	write := func() error { return p.Kube.Create(ctx, s) }
	if old := p.kept.pending; old != nil {
		s = old.DeepCopy()
		p.in.mark(s)
		write = func() error { return p.Kube.Update(ctx, s) }
	}
	s.Data = map[string][]byte{keyPassword: []byte(wanted)}
	s.Annotations[v1.AnnotationPasswordStagedAt] = p.timestamp()
	if err := write(); err != nil {
		return kubeFailed(err, "write", s.Namespace, s.Name)
	}
	return nil
}

// promote a password to the connection Secret. The database stays as it is: it
// is described on its own, once it exists.
func (p *pass) promote(ctx context.Context, to sql.Password) error {
	old := p.kept.connection
	s := p.in.connectionSecret(old, to, string(old.Data[keyDatabase]))
	s.Annotations[v1.AnnotationPasswordChangedAt] = p.timestamp()
	delete(s.Annotations, v1.AnnotationPasswordWindow)
	if staged := stamp(p.kept.pending, v1.AnnotationPasswordStagedAt); !p.dual && !staged.IsZero() {
		s.Annotations[v1.AnnotationPasswordWindow] = p.now().Sub(staged).Round(time.Millisecond).String()
	}
	return p.update(ctx, s)
}

func (p *pass) describe(ctx context.Context) error {
	old := p.kept.connection
	if string(old.Data[keyDatabase]) != p.in.Database {
		if err := p.session.EnsureDatabase(ctx, p.in.Database); err != nil {
			return err
		}
	}
	return p.update(ctx, p.in.connectionSecret(old, password(old), p.in.Database))
}

// update fails where somebody else wrote the Secret since it was read.
func (p *pass) update(ctx context.Context, s *corev1.Secret) error {
	if err := p.Kube.Update(ctx, s); err != nil {
		return kubeFailed(err, "update", s.Namespace, s.Name)
	}
	return nil
}

func (p *pass) timestamp() string { return p.now().UTC().Format(time.RFC3339Nano) }
