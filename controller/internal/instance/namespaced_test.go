package instance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// namespacedKind is the kind of instances without claims.
const namespacedKind = "MySQL.crossplane-mysql.io"

func ownObject(name, uid string) *unstructured.Unstructured {
	u := newObject(v1.GroupVersion.WithKind(v1.KindMySQL))
	u.SetNamespace("default")
	u.SetName(name)
	u.SetUID(types.UID(uid))
	u.SetFinalizers([]string{v1.Finalizer})
	u.Object["spec"] = map[string]any{"image": "mysql:8.4", "database": "shop", "storageSize": "1Gi"}
	return u
}

// TestNamespacedKind checks that there is one kind without claims. The kind of its instances contains the API group,
// so such an instance differs from the instance of a claim with the same name.
func TestNamespacedKind(t *testing.T) {
	k, ok := kindOf(namespacedKind)
	if !ok || k.HasClaims() || k.Object != k.XR || !slices.Contains(Kinds(), k) {
		t.Fatalf("%s is %+v, %t", namespacedKind, k, ok)
	}
	if claims, ok := kindOf(v1.KindMySQL); !ok || claims == k || !claims.HasClaims() {
		t.Errorf("%s is %+v, %t", v1.KindMySQL, claims, ok)
	}
	c := Decode(ownObject("db", "uid-1"))
	want := Key{Kind: namespacedKind, Namespace: "default", Name: "db"}
	if got, ok := c.Key(); !ok || got != want || !c.isOwnObject() || !isXR(c.Unstructured) {
		t.Errorf("want an XR with the key %s, got %s, %t", want, got, ok)
	}
	for what, got := range map[string][]Key{"OfXR": k.OfXR(c), "OfObject": k.OfObject(c)} {
		if !slices.Equal(got, []Key{want}) {
			t.Errorf("%s: want %s, got %v", what, want, got)
		}
	}
	if c := Decode(boundClaim("x")); c.isOwnObject() || isXR(c.Unstructured) {
		t.Error("a claim of the same kind is no XR")
	}
}

// TestFindOwnObject checks that an XR without a claim is found by its name, and that it is treated as deleted only if
// this is certain.
func TestFindOwnObject(t *testing.T) {
	k := Key{Kind: namespacedKind, Namespace: "default", Name: "db"}
	gvk := v1.GroupVersion.WithKind(v1.KindMySQL)
	crd := newObject(crdKind)
	crd.SetName("mysqlinstances.crossplane-mysql.io")
	notServed := interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind() == gvk {
				return kerrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			// On a list, the fake client sets the kind of its items.
			k := l.GetObjectKind().GroupVersionKind()
			if k.Group == gvk.Group && strings.TrimSuffix(k.Kind, "List") == gvk.Kind {
				return kerrors.NewNotFound(schema.GroupResource{}, "")
			}
			return c.List(ctx, l, opts...)
		},
	}
	notYet := interceptor.Funcs{Get: notServed.Get}
	for name, tc := range map[string]struct {
		reason  string
		objects []client.Object
		funcs   interceptor.Funcs
		want    string
		err     bool
		gone    bool // The error shows that the kind is not installed.
	}{
		"Found": {reason: "An XR without a claim has no labels and must be found by its name.",
			objects: []client.Object{ownObject("db", "uid-1")},
			want:    "uid-1"},
		"Claim": {reason: "A claim and its XR with the same name belong to a different instance.",
			objects: []client.Object{xr("db", "uid-2", "db", false), boundClaim("db")}},
		"Gone": {reason: "The list contains only an XR with another name.", objects: []client.Object{ownObject("other", "uid-3")}},
		"Between": {reason: "A get failed while the kind was temporarily not served, but the list contains the XR.",
			objects: []client.Object{ownObject("db", "uid-1")},
			funcs:   notYet, want: "uid-1"},
		"NotServed": {reason: "The CRD exists, so the XR may exist although the API server does not serve the kind.",
			objects: []client.Object{ownObject("db", "uid-1"), crd}, funcs: notServed, err: true},
		"NotInstalled": {reason: "The error must show that the kind is not installed.", funcs: notServed, err: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}},
				tc.objects...)
			reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
				WithInterceptorFuncs(tc.funcs).Build()
			got, err := findComposites(t.Context(), reader, k)
			if (err != nil) != tc.err || tc.err && IsNotInstalled(err) != tc.gone {
				t.Fatalf("%s Got %+v, %v", tc.reason, got, err)
			}
			if tc.err {
				return
			}
			var uids []string
			for _, x := range got.xrs {
				uids = append(uids, string(x.GetUID()))
			}
			if strings.Join(uids, ",") != tc.want || got.claim != nil {
				t.Errorf("%s Want %q, got %v and the claim %v", tc.reason, tc.want, uids, got.claim)
			}
		})
	}
}

// TestOwnObjectIsNoOrphan checks that an XR in an API without claims is never treated as orphaned. It is deleted only
// if a user deletes it.
func TestOwnObjectIsNoOrphan(t *testing.T) {
	own, orphan := Decode(ownObject("db", "uid-1")), Decode(xr("x", "uid-1", "db", false))
	going := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}
	for _, ns := range []*corev1.Namespace{nil, going} {
		if isOrphanedFromClaim(own, nil, ns) || isEnding(own, nil, ns) {
			t.Error("want an XR without a claim to live until a user or its namespace deletes it")
		}
		if !isOrphanedFromClaim(orphan, nil, ns) {
			t.Error("want the XR of a claim to be an orphan")
		}
	}
	own.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	if !isEnding(own, nil, nil) {
		t.Error("want its deletion to end it")
	}
}
