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

// A Keeper maintains the certificates of servers and the Secrets that contain them.
type Keeper struct {
	// Kube must read Secrets from the API server and not from a cache.
	Kube client.Client
	// Namespace is the controller's own namespace.
	Namespace string
	Clock     func() time.Time
	// Skew returns the difference between the clocks of the controller and the API server. It is nil if the two
	// cannot differ.
	Skew func() clock.Skew
	// ClusterDomain is the domain of the Services' names, or "" for cluster.local.
	ClusterDomain string
}

// An UnissuedError reports that an issuer has not yet signed the first certificate of a server.
type UnissuedError struct {
	text string
	// Soon is true if the request was just created or deleted.
	Soon bool
}

// Error returns the reason.
func (e *UnissuedError) Error() string { return e.text }

// Keep maintains the certificate of an instance's server. The host is the address for clients outside of the cluster.
// If an issuer is given, it signs the certificate. Keep stores all objects in the plan that it returns.
func (k *Keeper) Keep(ctx context.Context, i v1.Instance, owner metav1.OwnerReference, host string,
	issuer *v1.IssuerReference) (*Plan, error) {
	s := &State{Instance: i, Owner: owner, Namespace: k.Namespace, Host: host, Issuer: issuer, Now: k.Clock(),
		ClusterDomain: k.ClusterDomain}
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
	// A new certificate authority is stored before the controller stores any certificate that it has signed.
	if p.Authority != nil {
		if err := k.Kube.Create(ctx, p.Authority); err != nil {
			return nil, secrets.Failed(err, "make", p.Authority.Namespace, p.Authority.Name)
		}
	}
	// The other trusted certificate authorities are stored before they are published.
	if err := k.keepIssuerCAs(ctx, s, p); err != nil {
		return nil, err
	}
	// The key is stored before a certificate is requested for it.
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

// read reads the Secrets and the request.
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
		return err // The request is not needed while there is a valid certificate.
	}
	if s.Request, err = k.readRequest(ctx, i); errors.Is(err, errNotInstalled) {
		s.Unreachable, err = err.Error(), nil
	}
	return err
}

func (k *Keeper) write(ctx context.Context, before, after *corev1.Secret) (err error) {
	switch {
	case after == nil:
		return nil
	case before == nil:
		err = k.Kube.Create(ctx, after)
	default:
		err = k.Kube.Update(ctx, after)
	}
	if err != nil {
		return secrets.Failed(err, "write", after.Namespace, after.Name)
	}
	return nil
}
