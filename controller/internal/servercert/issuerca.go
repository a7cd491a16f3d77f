package servercert

import (
	"bytes"
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// versionKey is the key for the version of a Secret that contains the certificate authorities of an issuer. The
// Secret with the highest version is valid. To replace the CAs, the controller creates a new Secret. In its
// namespace, it may create and delete Secrets, but not change those of other owners.
const versionKey = "version"

// slots is the maximum number of Secrets with an issuer's certificate authorities per instance.
const slots = 2

// An issuerCA is a Secret with the certificate authorities of an issuer.
type issuerCA struct {
	redact.All

	slot, version int
	secret        *corev1.Secret
}

// issuerCAs returns the existing Secrets, the valid one first.
func (k *Keeper) issuerCAs(ctx context.Context, i v1.Instance) ([]issuerCA, error) {
	var out []issuerCA
	for slot := 1; slot <= slots; slot++ {
		secret, err := secrets.Read(ctx, k.Kube, k.Namespace, i.IssuerCAName(slot))
		if err != nil {
			return nil, err
		}
		if secret == nil {
			continue
		}
		version, _ := strconv.Atoi(string(secret.Data[versionKey])) // An unreadable version is treated as zero.
		ca := issuerCA{slot: slot, version: version, secret: secret}
		if len(out) > 0 && version > out[0].version {
			out = []issuerCA{ca, out[0]}
			continue
		}
		out = append(out, ca)
	}
	return out, nil
}

func (k *Keeper) readIssuerCAs(ctx context.Context, s *State) error {
	all, err := k.issuerCAs(ctx, s.Instance)
	if err != nil || len(all) == 0 {
		return err
	}
	s.IssuerCAs = all[0].secret.Data[v1.CAKey]
	return nil
}

// keepIssuerCAs creates the planned Secret before it deletes the old one.
func (k *Keeper) keepIssuerCAs(ctx context.Context, s *State, p *Plan) error {
	if bytes.Equal(s.IssuerCAs, p.IssuerCAs) {
		return nil
	}
	all, err := k.issuerCAs(ctx, s.Instance)
	if err != nil {
		return err
	}
	if len(p.IssuerCAs) == 0 {
		return k.deleteIssuerCAs(ctx, all)
	}
	slot, version := 1, 1
	if len(all) > 0 {
		slot, version = slots+1-all[0].slot, all[0].version+1
		if err := k.deleteIssuerCAs(ctx, all[1:]); err != nil {
			return err
		}
		all = all[:1]
	}
	secret := s.newSecret(k.Namespace, s.Instance.IssuerCAName(slot))
	secret.Data = map[string][]byte{v1.CAKey: p.IssuerCAs, versionKey: []byte(strconv.Itoa(version))}
	if err := k.Kube.Create(ctx, secret); err != nil {
		return secrets.Failed(err, "make", secret.Namespace, secret.Name)
	}
	return k.deleteIssuerCAs(ctx, all)
}

// deleteIssuerCAs deletes Secrets that are no longer valid.
func (k *Keeper) deleteIssuerCAs(ctx context.Context, all []issuerCA) error {
	for _, issuerCA := range all {
		if err := client.IgnoreNotFound(k.Kube.Delete(ctx, issuerCA.secret,
			client.Preconditions{UID: &issuerCA.secret.UID})); err != nil {
			return secrets.Failed(err, "delete", issuerCA.secret.Namespace, issuerCA.secret.Name)
		}
	}
	return nil
}
