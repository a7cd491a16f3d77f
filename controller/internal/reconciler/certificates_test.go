package reconciler

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/servercert"
)

// A keeperOf is a certifier that always returns the same plan.
type keeperOf struct{ plan *servercert.Plan }

func (k keeperOf) Keep(context.Context, v1.Instance, metav1.OwnerReference, string,
	*v1.IssuerReference) (*servercert.Plan, error) {
	return k.plan, nil
}

// aPlan is the certificate plan of the server in all tests.
var aPlan = sync.OnceValue(func() *servercert.Plan { //nolint:gochecknoglobals // It is created once.
	p, err := servercert.Next(&servercert.State{
		Instance: v1.Instance{Kind: v1.KindDatabase, Namespace: "team", Name: "db"}, Now: time.Now()})
	if err != nil {
		panic(err)
	}
	return p
})

// publish writes a plan to the status of an XR.
func publish(s *v1.MySQLStatus, p *servercert.Plan) {
	s.TLS = &v1.TLSStatus{ExpirationTime: &metav1.Time{Time: p.Certificate.NotAfter}}
	s.Authorities = string(p.Published)
}

// internalOf returns the fields of status.internal that a change writes.
func internalOf(c change.Change) map[string]any {
	fields, _ := c.Fields[v1.StatusInternal].(map[string]any)
	return fields
}

// A gatherOne is a gatherer that always returns the same instance.
type gatherOne struct{ *instance.State }

func (g gatherOne) GatherXRs(context.Context, instance.Key) ([]*instance.State, error) {
	return []*instance.State{g.State}, nil
}

func (gatherOne) ReadData(context.Context, *instance.State) error { return nil }

// TestServerIsKnown checks that the controller logs in only to a server whose CA is published. It logs in to a server
// without a certificate only if the platform allows plain text.
func TestServerIsKnown(t *testing.T) {
	plan, key := aPlan(), instance.Key{Kind: v1.KindDatabase, Namespace: "team", Name: "db"}
	cases := map[string]struct {
		reason     string
		change     func(*v1.MySQLStatus)
		plaintext  bool
		published  bool
		asked      bool
		anybody    bool
		notLetInTo string
	}{
		"Known": {reason: "The published authorities match the certificate, so the controller may log in.", asked: true},
		"Unknown": {reason: "The authorities are not published yet, and the pod may have no certificate.",
			change: func(s *v1.MySQLStatus) { s.TLS, s.Authorities, s.Certified = nil, "", false }, published: true},
		"Other": {reason: "The published authorities differ from the current ones, so they must be published first.",
			change: func(s *v1.MySQLStatus) {
				s.Authorities = "other"
			}, published: true},
		"Earlier": {reason: "An earlier release started the pod without a certificate, so the controller must not log in.",
			change: func(s *v1.MySQLStatus) { s.Certified = false },
			asked:  true, notLetInTo: "kubectl rollout restart deployment --namespace team db"},
		"Plaintext": {reason: "The platform allows plain text, so the published certificate must be removed from the status.",
			plaintext: true, published: true, asked: true, anybody: true},
		"PlainSince": {reason: "The platform allows plain text, and the status contains no certificate.", plaintext: true,
			change: func(s *v1.MySQLStatus) { s.TLS, s.Authorities, s.Certified = nil, "", false }, asked: true, anybody: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var in *rotate.Input
			c := newCredentials(t, rotatorFn(func(input rotate.Input) rotate.Result {
				in = &input
				return rotate.Result{}
			}), time.Now)
			s := livingDatabase(key)
			s.XR.Status.Image = "mysql:5.5"
			if tc.change != nil {
				tc.change(&s.XR.Status)
			}
			c.gather = gatherOne{s}
			if tc.plaintext {
				p := &v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName},
					Spec: v1.PlatformSpec{AllowedPlaintextImages: []string{"mysql:5.5"}}}
				c.reader = fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(p).Build()
			}
			var announced []change.Change
			c.writer = writerFn(func(changes []change.Change) error { announced = append(announced, changes...); return nil })
			if _, err := c.Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if (in != nil) != tc.asked || (len(announced) > 0) != tc.published {
				t.Fatalf("%s asked: %t, wrote %v", tc.reason, in != nil, announced)
			}
			if tc.published && !tc.plaintext {
				if authorities := internalOf(announced[0])["authorities"]; authorities != string(plan.Published) {
					t.Errorf("%s published %v", tc.reason, authorities)
				}
			}
			if in == nil {
				return
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(plan.Published)
			if in.Trust.AnyServer != tc.anybody || !tc.anybody &&
				(in.Trust.Name != "db.team.svc" || !pool.Equal(in.Trust.Authorities) || !in.Certificate.Equal(plan.Certificate)) {
				t.Errorf("%s got %+v", tc.reason, in.Trust)
			}
			if (in.NoLogin == "") != (tc.notLetInTo == "") || !strings.Contains(in.NoLogin, tc.notLetInTo) || tc.anybody &&
				in.Authorities != nil {
				t.Errorf("%s got %q", tc.reason, in.NoLogin)
			}
		})
	}
}

// TestCertificateCannotBeKept checks that an instance reports why it has no certificate, and that the controller does
// not log in to its server.
func TestCertificateCannotBeKept(t *testing.T) {
	for _, cause := range []error{&secrets.NotLetInError{Namespace: "team"}, &secrets.ForeignError{},
		&servercert.UnissuedError{}, &servercert.UnissuedError{Soon: true}} {
		c := newCredentials(t, rotatorFn(func(rotate.Input) rotate.Result {
			t.Errorf("%T: somebody logs in", cause)
			return rotate.Result{}
		}), time.Now)
		c.certifier = failingKeeper{cause}
		var announced []change.Change
		c.writer = writerFn(func(changes []change.Change) error { announced = append(announced, changes...); return nil })
		after := whileNotLetIn
		if u, ok := errors.AsType[*servercert.UnissuedError](cause); ok && u.Soon {
			after = whileIssued
		}
		got, err := c.Reconcile(t.Context(), instance.Key{Kind: v1.KindDatabase, Namespace: "team", Name: "db"})
		if err != nil || got.RequeueAfter != after || len(announced) != 1 {
			t.Fatalf("%T: got %+v, %v, %v", cause, got, announced, err)
		}
		if status, _ := internalOf(announced[0])["credentials"].(map[string]any); status["state"] != v1.CredentialsFailed ||
			status["message"] != cause.Error() {
			t.Errorf("%T: it says %v", cause, status)
		}
	}
}

// A failingKeeper is a certifier that fails.
type failingKeeper struct{ cause error }

func (k failingKeeper) Keep(context.Context, v1.Instance, metav1.OwnerReference, string,
	*v1.IssuerReference) (*servercert.Plan, error) {
	return nil, k.cause
}

// TestServedIsShown checks that the status contains the expiration time of the presented certificate and its problem,
// and that both are removed when they no longer apply.
func TestServedIsShown(t *testing.T) {
	s := livingDatabase(instance.Key{Kind: v1.KindDatabase, Namespace: "team", Name: "db"})
	until := metav1.NewTime(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))
	if got := showServed(s, rotate.Result{}); got != nil {
		t.Errorf("nobody asked, and it says %v", got)
	}
	got := showServed(s, rotate.Result{ServedNotAfter: &until, ServedMessage: "restart it"})
	if len(got) != 1 {
		t.Fatalf("it says %v", got)
	}
	if tls, _ := got[0].Fields["tls"].(map[string]any); tls["message"] != "restart it" ||
		tls["presentedExpirationTime"] != &until || internalOf(got[0])["authorities"] != s.XR.Status.Authorities {
		t.Errorf("it says %v", tls)
	}
	s.XR.Status.TLS.PresentedExpirationTime, s.XR.Status.TLS.Message = &until, "restart it"
	got = showServed(s, rotate.Result{ServedNotAfter: &until})
	if len(got) != 1 || got[0].Fields["tls"].(map[string]any)["message"] != nil {
		t.Errorf("it says %v", got)
	}
}
