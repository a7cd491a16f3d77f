package servercert

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/issuertest"
)

// TestRequestConditions checks all conditions that cert-manager sets on a request.
func TestRequestConditions(t *testing.T) {
	condition := func(kind, status, reason string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": "because of " + reason}
	}
	approved := condition("Approved", "True", "cert-manager.io")
	cases := map[string]struct {
		conditions []any
		want       Request
	}{
		"New":      {want: Request{}},
		"Approved": {conditions: []any{approved}, want: Request{}},
		"Pending": {conditions: []any{approved, condition("Ready", "False", "Pending")},
			want: Request{Message: "because of Pending"}},
		"Denied": {conditions: []any{condition("Denied", "True", "policy"), condition("Ready", "False", "Denied")},
			want: Request{Refused: true}},
		"Invalid": {conditions: []any{approved, condition("InvalidRequest", "True", "names")},
			want: Request{Refused: true, Message: "because of names"}},
		"Failed": {conditions: []any{approved, condition("Ready", "False", "Failed")},
			want: Request{Refused: true, Message: "because of Failed"}},
		"Ready": {conditions: []any{approved, condition("Ready", "True", "Issued")},
			want: Request{Certificate: []byte("certificate"), CA: []byte("ca")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newState()
			k := &Keeper{Namespace: s.Namespace}
			u := k.newRequest(s.Instance)
			u.Object["spec"] = map[string]any{"request": base64.StdEncoding.EncodeToString([]byte("csr")),
				"issuerRef": map[string]any{"name": "ca", "kind": "Issuer", "group": "cert-manager.io"}}
			u.Object["status"] = map[string]any{
				"conditions":  tc.conditions,
				"certificate": base64.StdEncoding.EncodeToString([]byte("certificate")),
				"ca":          base64.StdEncoding.EncodeToString([]byte("ca")),
			}
			k.Kube = fake.NewClientBuilder().WithScheme(requestScheme()).WithObjects(u).Build()
			got, err := k.readRequest(t.Context(), s.Instance)
			if err != nil {
				t.Fatal(err)
			}
			if got.Refused != tc.want.Refused || tc.want.Message != "" && got.Message != tc.want.Message ||
				string(got.Certificate) != string(tc.want.Certificate) || string(got.CA) != string(tc.want.CA) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if string(got.CSR) != "csr" || got.Issuer.Name != "ca" {
				t.Errorf("it has %+v", got)
			}
		})
	}
}

// TestCertManagerIsGone removes cert-manager. A server with a certificate keeps it, and the problem is reported when
// the certificate is due. A server without a certificate waits. No request is read while a certificate is valid.
func TestCertManagerIsGone(t *testing.T) {
	issuer := issuertest.New(t, "ca", start)
	s := newIssued(t, issuer)
	asked := 0
	missing := &meta.NoKindMatchError{GroupKind: requestKind.GroupKind()}
	kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(requestScheme()).WithObjects(s.Server, keptCAs(s)).
		Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind() != requestKind {
				return c.Get(ctx, key, o, options...)
			}
			asked++
			return missing
		},
	})
	now := s.Now
	k := &Keeper{Namespace: s.Namespace, Clock: func() time.Time { return now }, Kube: kube}
	keep := func() (*Plan, error) { return k.Keep(t.Context(), s.Instance, s.Owner, "", s.Issuer) }
	if p, err := keep(); err != nil || p.Message != "" || p.Certificate == nil || asked > 0 {
		t.Errorf("with a good one: %+v, %v, asked %d times", p, err, asked)
	}
	now = now.Add(issuer.Instance/3*2 + time.Minute)
	if p, err := keep(); err != nil || !strings.Contains(p.Message, "which is not installed") || p.Certificate == nil ||
		len(p.Published) == 0 {
		t.Errorf("once it is due: %+v, %v", p, err)
	}
	if err := kube.Delete(t.Context(), s.Server); err != nil {
		t.Fatal(err)
	}
	_, err := keep()
	if waits, ok := errors.AsType[*UnissuedError](err); !ok || waits.Soon ||
		!strings.Contains(waits.Error(), "which is not installed") {
		t.Errorf("without one: %v", err)
	}
}

// keptCAs returns the Secret with the issuer's CAs in the controller's namespace.
func keptCAs(s *State) *corev1.Secret {
	out := s.newSecret(s.Namespace, s.Instance.IssuerCAName(1))
	out.Data = map[string][]byte{v1.CAKey: s.IssuerCAs, versionKey: []byte("1")}
	return out
}

func requestScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	_ = corev1.AddToScheme(s)
	s.AddKnownTypeWithName(requestKind, &unstructured.Unstructured{})
	return s
}

// TestKeepIssued checks that the key is stored before a certificate is requested. Once the request is signed, the
// controller must soon use the certificate and delete the request.
func TestKeepIssued(t *testing.T) {
	s, issuer := newState(), issuertest.New(t, "ca", time.Now())
	k := &Keeper{Namespace: s.Namespace, Clock: time.Now, Kube: fake.NewClientBuilder().WithScheme(requestScheme()).
		Build()}
	keep := func() (*Plan, error) {
		return k.Keep(t.Context(), s.Instance, s.Owner, "", &v1.IssuerReference{Name: "ca"})
	}
	_, err := keep()
	waits, ok := errors.AsType[*UnissuedError](err)
	if !ok || !waits.Soon || !strings.Contains(err.Error(), "certificate from Issuer.cert-manager.io/ca") {
		t.Fatalf("got %v", err)
	}
	kept := &corev1.Secret{}
	if err := k.Kube.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "shop-tls"}, kept); err != nil ||
		len(kept.Data[nextKey]) == 0 {
		t.Fatalf("want its key kept, got %v, %v", kept.Data, err)
	}
	if _, err = keep(); err == nil || !strings.Contains(err.Error(), "that cert-manager is running") {
		t.Errorf("got %v", err)
	}
	u := k.newRequest(s.Instance)
	if err := k.Kube.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	if o := u.GetOwnerReferences(); len(o) != 1 || o[0].UID != s.Owner.UID || o[0].Controller != nil {
		t.Errorf("it is of %+v", o)
	}
	asked, err := k.readRequest(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	answer(t, issuer, asked, time.Now())
	u.Object["status"] = map[string]any{
		"conditions":  []any{map[string]any{"type": "Ready", "status": string(metav1.ConditionTrue)}},
		"certificate": base64.StdEncoding.EncodeToString(asked.Certificate),
		"ca":          base64.StdEncoding.EncodeToString(asked.CA),
	}
	if err := k.Kube.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	p, err := keep()
	if err != nil || p.Certificate == nil || string(p.Published) != string(issuer.CA()) {
		t.Fatalf("got %+v, %v", p, err)
	}
	if left, err := k.readRequest(t.Context(), s.Instance); err != nil || left != nil {
		t.Errorf("what was asked is still there: %+v, %v", left, err)
	}
}
