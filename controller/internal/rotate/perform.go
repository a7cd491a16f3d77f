package rotate

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// kept contains the Secrets of the instance. A Secret that does not exist is nil.
type kept struct {
	redact.All

	connection, pending, initial *corev1.Secret
	// exporter is the Secret with the account of the exporter.
	exporter *corev1.Secret
}

func (p *pass) readSecrets(ctx context.Context) (err error) {
	i := p.in.Instance
	if p.kept.connection, err = secrets.Own(ctx, p.Kube, i, i.ConnectionSecretName()); err != nil {
		return err
	}
	if p.kept.pending, err = secrets.Own(ctx, p.Kube, i, i.PendingSecretName()); err != nil {
		return err
	}
	p.kept.initial, err = secrets.Own(ctx, p.Kube, i, i.RootSecretName())
	return err
}

// gatherState reads the state of the Secrets and of the server. The session exists, so the server responds and
// accepts at least one password.
func (p *pass) gatherState(ctx context.Context, accounts []sql.Account) (rotationState, error) {
	s := rotationState{
		Wanted: p.in.Wanted, Connection: passwordOf(p.kept.connection), Pending: passwordOf(p.kept.pending),
		Reachable: true, Dual: p.dual,
		Retained: slices.ContainsFunc(accounts, func(a sql.Account) bool { return a.Retained }),
		Since:    p.sincePublished(), Grace: p.Grace, Settle: p.Settle,
		Described: p.kept.connection != nil && p.in.isDescribed(p.kept.connection),
	}
	for _, ask := range []struct {
		about  sql.Password
		target *bool
	}{{s.Connection, &s.AcceptsConnection}, {s.Wanted, &s.AcceptsWanted}, {s.Pending, &s.AcceptsPending}} {
		ok, err := p.serverAccepts(ctx, ask.about, s.Dual && !s.Retained)
		if err != nil {
			return rotationState{}, err
		}
		*ask.target = ok
	}
	s.AcceptsInitial = p.accepted[passwordOf(p.kept.initial)]
	return s, nil
}

// serverAccepts reports whether the server accepts a password. It tries each password at most once between two password
// changes, because the server may lock the account after failed logins. If hasSingle is true, the server accepts only
// one password, and no other one is tried once that password is known.
func (p *pass) serverAccepts(ctx context.Context, candidate sql.Password, hasSingle bool) (bool, error) {
	if candidate == "" {
		return false, nil
	}
	if known, ok := p.accepted[candidate]; ok {
		return known, nil
	}
	if hasSingle && slices.Contains(slices.Collect(maps.Values(p.accepted)), true) {
		return false, nil
	}
	s, err := p.tryPassword(ctx, candidate)
	if err != nil {
		return false, err
	}
	if s != nil {
		s.Close()
	}
	p.accepted[candidate] = s != nil
	return s != nil, nil
}

// performStep performs a step. Before it changes a password, it clears the stored results of login attempts. If no
// response arrives, the server may have changed the password anyway.
func (p *pass) performStep(ctx context.Context, s rotationStep, accounts []sql.Account) error {
	switch s.Do {
	case Create:
		return p.createConnection(ctx, s.Password)
	case Stage:
		return p.stagePassword(ctx, s.Password)
	case Change:
		clear(p.accepted)
		p.attempts.recordSet(&p.in, s.Password, false)
		return p.session.SetPassword(ctx, accounts, s.Password, s.Retain)
	case Promote:
		return p.promotePassword(ctx, s.Password)
	case Discard:
		clear(p.accepted)
		p.attempts.recordSet(&p.in, passwordOf(p.kept.connection), true)
		return p.session.DiscardOld(ctx, accounts)
	case ReplaceAll:
		clear(p.accepted)
		p.attempts.recordSet(&p.in, s.Password, true)
		if err := p.session.SetPassword(ctx, accounts, s.Password, false); err != nil {
			return err
		}
		return p.session.DiscardOld(ctx, accounts)
	case Forget:
		return deleteSecret(ctx, p.Kube, p.kept.pending)
	case Describe:
		return p.describeConnection(ctx)
	case NoOp, Wait, Unreachable, Refused:
	}
	return nil
}

// createConnection creates the database, and then the connection Secret with the name of the database.
func (p *pass) createConnection(ctx context.Context, password sql.Password) error {
	if err := p.session.EnsureDatabase(ctx, p.in.Database); err != nil {
		return err
	}
	s := p.in.connectionSecret(nil, password, p.in.Database)
	s.Annotations[v1.AnnotationPasswordChangedAt] = timeText(p.currentTime())
	if err := p.Kube.Create(ctx, s); err != nil {
		return secrets.Failed(err, "create", s.Namespace, s.Name)
	}
	return nil
}

func (p *pass) stagePassword(ctx context.Context, wanted sql.Password) error {
	s := &corev1.Secret{ObjectMeta: p.in.secretMeta(p.in.Instance.PendingSecretName()), Type: corev1.SecretTypeOpaque}
	write := func() error { return p.Kube.Create(ctx, s) }
	if old := p.kept.pending; old != nil {
		s = old.DeepCopy()
		p.in.markOwned(s)
		write = func() error { return p.Kube.Update(ctx, s) }
	}
	s.Data = map[string][]byte{keyPassword: []byte(wanted)}
	s.Annotations[v1.AnnotationPasswordStagedAt] = timeText(p.currentTime())
	if err := write(); err != nil {
		return secrets.Failed(err, "write", s.Namespace, s.Name)
	}
	return nil
}

// promotePassword writes the password to the connection Secret. It keeps the database name in the Secret, which
// describeConnection updates after it has created the database.
func (p *pass) promotePassword(ctx context.Context, password sql.Password) error {
	old := p.kept.connection
	s := p.in.connectionSecret(old, password, string(old.Data[keyDatabase]))
	s.Annotations[v1.AnnotationPasswordChangedAt] = timeText(p.currentTime())
	delete(s.Annotations, v1.AnnotationPasswordWindow)
	if staged := timeOf(p.kept.pending, v1.AnnotationPasswordStagedAt); !p.dual && !staged.IsZero() {
		s.Annotations[v1.AnnotationPasswordWindow] = p.currentTime().Sub(staged).Round(time.Millisecond).String()
	}
	return p.updateSecret(ctx, s)
}

// describeConnection writes the database, host and port to the connection Secret. It creates the database first.
func (p *pass) describeConnection(ctx context.Context) error {
	old := p.kept.connection
	if string(old.Data[keyDatabase]) != p.in.Database {
		if err := p.session.EnsureDatabase(ctx, p.in.Database); err != nil {
			return err
		}
	}
	return p.updateSecret(ctx, p.in.connectionSecret(old, passwordOf(old), p.in.Database))
}

// updateSecret updates a Secret. It returns an error if another client has changed the Secret since it was read.
func (p *pass) updateSecret(ctx context.Context, s *corev1.Secret) error {
	if err := p.Kube.Update(ctx, s); err != nil {
		return secrets.Failed(err, "update", s.Namespace, s.Name)
	}
	return nil
}

func timeText(timestamp time.Time) string { return timestamp.UTC().Format(time.RFC3339Nano) }
