package servercert

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// requestKind is the kind CertificateRequest of cert-manager (pkg/apis/certmanager/v1/types_certificaterequest.go).
var requestKind = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequest"} //nolint:gochecknoglobals // A constant.

// A certificateRequest contains the fields of a CertificateRequest that the controller reads.
type certificateRequest struct {
	Spec struct {
		Request   []byte             `json:"request"`
		IssuerRef v1.IssuerReference `json:"issuerRef"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string                 `json:"type"`
			Status  corev1.ConditionStatus `json:"status"`
			Reason  string                 `json:"reason"`
			Message string                 `json:"message"`
		} `json:"conditions"`
		Certificate []byte `json:"certificate"`
		CA          []byte `json:"ca"`
	} `json:"status"`
}

// errNotInstalled is returned if cert-manager is not installed.
var errNotInstalled = errors.New(
	"the Platform requires certificates from cert-manager (certificateIssuer), which is not installed: ask the " +
		"platform team to install it, or to remove the issuer")

// readRequest reads the request of an instance, or returns nil if there is none.
func (k *Keeper) readRequest(ctx context.Context, i v1.Instance) (*Request, error) {
	u := k.newRequest(i)
	switch err := k.Kube.Get(ctx, client.ObjectKeyFromObject(u), u); {
	case meta.IsNoMatchError(err):
		return nil, errNotInstalled
	case kerrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // A missing request is no error.
	case err != nil:
		return nil, fmt.Errorf("cannot read %s %s/%s: %w", requestKind.Kind, u.GetNamespace(), u.GetName(), err)
	}
	r := &certificateRequest{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); err != nil {
		return nil, fmt.Errorf("cannot read %s %s/%s: %w", requestKind.Kind, u.GetNamespace(), u.GetName(), err)
	}
	out := &Request{CSR: r.Spec.Request, Issuer: r.Spec.IssuerRef, MadeAt: u.GetCreationTimestamp().Time}
	for _, c := range r.Status.Conditions {
		switch isReady, isTrue := c.Type == "Ready", c.Status == corev1.ConditionTrue; {
		case isReady && isTrue:
			out.Certificate, out.CA = r.Status.Certificate, r.Status.CA
		case isReady && (c.Reason == "Failed" || c.Reason == "Denied"), isTrue &&
			(c.Type == "Denied" || c.Type == "InvalidRequest"):
			out.Refused, out.Message = true, c.Message
		case isReady && out.Message == "":
			out.Message = c.Message
		}
	}
	return out, nil
}

// ask deletes the existing CertificateRequest and creates the planned one, as far as the plan requests it.
func (k *Keeper) ask(ctx context.Context, s *State, p *Plan) error {
	u := k.newRequest(s.Instance)
	if p.DropRequest {
		if err := client.IgnoreNotFound(k.Kube.Delete(ctx, u)); err != nil {
			return fmt.Errorf("cannot delete %s %s/%s: %w", requestKind.Kind, u.GetNamespace(), u.GetName(), err)
		}
	}
	if p.Request == nil {
		return nil
	}
	o := secrets.Meta(s.Instance, s.Owner, u.GetNamespace(), u.GetName())
	u.SetLabels(o.Labels)
	u.SetOwnerReferences(o.OwnerReferences)
	issuer := s.Issuer.WithDefaults()
	u.Object["spec"] = map[string]any{
		"request":   base64.StdEncoding.EncodeToString(p.Request),
		"issuerRef": map[string]any{"name": issuer.Name, "kind": issuer.Kind, "group": issuer.Group},
		"duration":  certificate.Instance.String(),
		"usages":    []any{"digital signature", "server auth"},
	}
	if err := k.Kube.Create(ctx, u); err != nil {
		return fmt.Errorf("cannot create %s %s/%s: %w", requestKind.Kind, u.GetNamespace(), u.GetName(), err)
	}
	return nil
}

func (k *Keeper) newRequest(i v1.Instance) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(requestKind)
	u.SetNamespace(k.Namespace)
	u.SetName(i.CertificateRequestName())
	return u
}
