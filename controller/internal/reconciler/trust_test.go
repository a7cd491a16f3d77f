package reconciler

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

func secretOf(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{v1.PasswordKey: []byte(namespace + " " + name)},
	}
}

// TestWhosePassword checks that a server only gets passwords from Secrets of its own namespace, regardless of the
// instance's spec and status.
func TestWhosePassword(t *testing.T) {
	ref := func(name string) v1.MySQLSpec {
		return v1.MySQLSpec{PasswordSecretRef: &v1.SecretKeySelector{Name: name, Key: v1.PasswordKey}}
	}
	cases := map[string]struct {
		reason string
		spec   v1.MySQLSpec
		wanted sql.Password
	}{
		"Own": {reason: "The Secret is in the namespace of the instance, so its password must be used.",
			spec: ref("mine"), wanted: "team mine"},
		"Others":       {reason: "The Secret exists only in another namespace, so it must not be read.", spec: ref("theirs")},
		"OthersByPath": {reason: "A name that looks like a path must not lead to another namespace.", spec: ref("../secrets/theirs")},
		"OthersByName": {reason: "A name with a namespace must not lead to another namespace.", spec: ref("other/theirs")},
	}
	objects := []client.Object{
		secretOf("team", "mine"), secretOf("other", "theirs"), secretOf("system", "token"),
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reader := interceptor.NewClient(fake.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
					opts ...client.GetOption) error {
					if k.Namespace != "team" {
						t.Errorf("%s: it reads from %s", tc.reason, k)
					}
					return c.Get(ctx, k, o, opts...)
				},
			})
			c := &passwordReconciler{reader: reader, clock: time.Now}
			xr := claimOf()
			xr.Spec.MySQLSpec = tc.spec
			in, err := c.rotationInput(t.Context(),
				instance.NewState(instance.Subject{Instance: instance.Key{Kind: v1.KindMySQL, Namespace: "team",
					Name: "db"}.Instance("uid"), XR: xr}),
				&v1.PlatformSpec{})
			if err != nil {
				t.Fatal(err)
			}
			if in.Wanted != tc.wanted {
				t.Errorf("%s It wants %q", tc.reason, in.Wanted)
			}
		})
	}
}
