package rotate

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestNotLetIn checks a namespace in which the controller may not read Secrets. The status must mention the missing
// permission. No error is returned, so that the pass is not retried with increasing delays.
func TestNotLetIn(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	r.Kube = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, k client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return kerrors.NewForbidden(corev1.Resource("secrets"), k.Name, errBoom)
		},
	})
	got, err := r.Reconcile(t.Context(), c.input("b"))
	if err != nil || got.Credentials.State != v1.CredentialsFailed ||
		!strings.Contains(got.Credentials.Message,
			"kubectl create rolebinding crossplane-mysql --namespace team --clusterrole crossplane-mysql-contents") {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(c.effects) > 0 || len(got.Done) > 0 {
		t.Errorf("it did %v, %q", got.Done, c.effects)
	}
}
