package servercert

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// A Keeper keeps the certificates of servers.
type Keeper struct {
	// Kube must read Secrets from the API server, and not from a cache.
	Kube client.Client
	// Namespace is the controller's own.
	Namespace string
	Clock     func() time.Time
	// Skew of the controller's clock from the API server's; nil where the two cannot differ.
	Skew func() clock.Skew
	// ClusterDomain of the Services' names; empty for cluster.local.
	ClusterDomain string
}

// An UnissuedError says that an issuer has not made the first certificate of a server.
type UnissuedError struct {
	text string
	// Soon: it was asked just now.
	Soon bool
}

// Error says what it is waited for.
func (e *UnissuedError) Error() string { return e.text }

// Keep the certificate of the server of an instance, which others reach at a host, and which an issuer signs, if one is named. What
// it returns is there.
func (k *Keeper) Keep(ctx context.Context, i v1.Instance, owner metav1.OwnerReference, host string, issuer *v1.IssuerReference) (*Plan, error) {
	s := &State{Instance: i, Owner: owner, Namespace: k.Namespace, Host: host, Issuer: issuer, Now: k.Clock(), ClusterDomain: k.ClusterDomain}
	if k.Skew != nil {
		s.Skew = k.Skew()
	}
	if err := k.read(ctx, s); err != nil {
		return nil, err
	}
	p, err := Next(s)
	if err != nil {
		return nil, err
	}
	// The authority first: what it has not kept, it must not have signed.
	if p.Authority != nil {
		if err := k.Kube.Create(ctx, p.Authority); err != nil {
			return nil, secrets.Failed(err, "make", p.Authority.Namespace, p.Authority.Name)
		}
	}
	// Then who else is trusted, before that is published.
	if err := k.keepIssuerCAs(ctx, s, p); err != nil {
		return nil, err
	}
	// Then the key, before somebody is asked to sign for it.
	if err := k.write(ctx, s.Server, p.Server); err != nil {
		return nil, err
	}
	if err := k.ask(ctx, s, p); err != nil {
		return nil, err
	}
	if p.Certificate == nil {
		return nil, &UnissuedError{text: p.Message, Soon: p.Request != nil || p.DropRequest}
	}
	return p, nil
}

// read what there is.
func (k *Keeper) read(ctx context.Context, s *State) (err error) {
	i := s.Instance
	for number := 1; number <= maxAuthorities; number++ {
		a, err := secrets.Read(ctx, k.Kube, k.Namespace, i.AuthorityName(number))
		if err != nil {
			return err
		}
		if a == nil {
			break
		}
		s.Authorities = append(s.Authorities, a)
	}
	if err := k.readIssuerCAs(ctx, s); err != nil {
		return err
	}
	if s.Server, err = secrets.Own(ctx, k.Kube, i, i.TLSSecretName()); err != nil || s.Issuer == nil || s.isSettled() {
		return err // Nobody is asked while there is a good certificate.
	}
	if s.Request, err = k.readRequest(ctx, i); errors.Is(err, errNotInstalled) {
		s.Unreachable, err = err.Error(), nil
	}
	return err
}

func (k *Keeper) write(ctx context.Context, was, is *corev1.Secret) (err error) {
	switch {
	case is == nil:
		return nil
	case was == nil:
		err = k.Kube.Create(ctx, is)
	default:
		err = k.Kube.Update(ctx, is)
	}
	if err != nil {
		return secrets.Failed(err, "write", is.Namespace, is.Name)
	}
	return nil
}
