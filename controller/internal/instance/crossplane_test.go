package instance

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestGatherXRD checks that the XRD is read only while an instance waits for Crossplane.
func TestGatherXRD(t *testing.T) {
	deleted := time.Unix(1000, 0)
	heldBy := func(o *unstructured.Unstructured, finalizers ...string) client.Object {
		o.SetFinalizers(finalizers)
		o.SetDeletionTimestamp(&metav1.Time{Time: deleted})
		return o
	}
	awaiting := []client.Object{heldBy(xr("x", "uid-1", "db", false), v1.Finalizer, FinalizerCrossplane)}
	claim := []client.Object{heldBy(boundClaim("x"), FinalizerCrossplaneClaim)}
	going := newObject(xrdKind)
	going.SetFinalizers([]string{"defined.apiextensions.crossplane.io"})
	going.SetDeletionTimestamp(&metav1.Time{Time: deleted})
	paused := func(o client.Object) client.Object {
		o = o.DeepCopyObject().(client.Object)
		o.SetAnnotations(map[string]string{AnnotationPaused: "true"})
		return o
	}
	lost := errors.New("connection lost")
	for name, tc := range map[string]struct {
		reason  string
		objects []client.Object
		xrd     *unstructured.Unstructured
		err     error // The error of the read.
		asked   bool
		want    bool // Whether the XRD is reported as deleted or being deleted.
	}{
		"Going":  {"It may never be let go.", awaiting, going, nil, true, true},
		"Claim":  {"Nor may the claim whose XR is gone.", claim, going, nil, true, true},
		"Stays":  {"Crossplane will do it when it runs.", awaiting, newObject(xrdKind), nil, true, false},
		"Gone":   {"It never will be.", awaiting, nil, nil, true, true},
		"Lost":   {"What cannot be read is not known.", awaiting, nil, lost, true, false},
		"Absent": {"Crossplane is not there at all.", awaiting, nil, &meta.NoKindMatchError{}, true, true},
		"Paused": {"A person does not want it to go on.", []client.Object{paused(awaiting[0])}, going, nil, false, false},
		"LetGo":  {"Crossplane has done it.", []client.Object{xr("x", "uid-1", "db", true)}, going, nil, false, false},
		"Lives":  {"Nobody deletes it.", []client.Object{xr("x", "uid-1", "db", false)}, going, nil, false, false},
		"ClaimGoes": {"Crossplane waits for the XR, and so does what is asked.", append(claim, xr("x", "uid-1", "db", true)),
			going, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			objects := append([]client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}},
				tc.objects...)
			if tc.xrd != nil {
				xrd := tc.xrd.DeepCopy()
				xrd.SetName("xmysqls.otus.homework")
				objects = append(objects, xrd)
			}
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
				WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
						opts ...client.GetOption) error {
						if o.GetObjectKind().GroupVersionKind() != xrdKind {
							return c.Get(ctx, k, o, opts...)
						}
						if asked = true; tc.err != nil {
							return tc.err
						}
						return c.Get(ctx, k, o, opts...)
					},
				}).Build(), Clock: func() time.Time { return deleted }}
			instances, err := g.Gather(t.Context(), key)
			if asked != tc.asked || (errors.Is(tc.err, lost)) != (err != nil) {
				t.Fatalf("%s Asked: %t, %v", tc.reason, asked, err)
			}
			if err == nil && (len(instances) != 1 || instances[0].Undefined != tc.want) {
				t.Errorf("%s Got %d lives, the first without an XRD that stays: %t", tc.reason, len(instances), instances[0].Undefined)
			}
		})
	}
}
