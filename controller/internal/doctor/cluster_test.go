package doctor

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

var errBoom = errors.New("boom")

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// objects returns all Kubernetes objects of the healthy test cluster.
func objects() []client.Object {
	c := healthy()
	c.Lease.Namespace, c.Lease.Name = systemNamespace, Lease
	return []client.Object{
		claimObject(), xrObject(), &c.Volumes[0], &c.Volumes[1], &c.PVCs[0], &c.PVCs[1], &c.Records[0], c.Lease,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "ns-1"}},
	}
}

// kube returns a reader for a cluster with all kinds except one.
func kube(t *testing.T, absent string, failing map[string]error) client.Reader {
	t.Helper()
	fail := func(c client.Client, o runtime.Object) error {
		kind, err := c.GroupVersionKindFor(o)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(kind.Kind, "List")
		if name == absent {
			return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
		}
		return failing[name]
	}
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects()...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if err := fail(c, l); err != nil {
				return err
			}
			return c.List(ctx, l, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if err := fail(c, o); err != nil {
				return err
			}
			return c.Get(ctx, k, o, opts...)
		},
	}).Build()
}

// names returns the names of the objects that were read.
func names(c *Cluster) map[string][]string {
	out := map[string][]string{}
	add := func(kind, name string) { out[kind] = append(out[kind], name) }
	for _, o := range append(append([]*instance.Composite{}, c.Claims...), c.XRs...) {
		add(o.GetKind(), o.GetName())
	}
	for i := range c.Volumes {
		add("PersistentVolume", c.Volumes[i].Name)
	}
	for i := range c.PVCs {
		add("PersistentVolumeClaim", c.PVCs[i].Name)
	}
	for i := range c.Records {
		add(v1.KindBackupRecord, c.Records[i].Name)
	}
	for kind, all := range map[string][]metav1.PartialObjectMetadata{kindJob: c.Jobs, kindNamespace: c.Namespaces} {
		for i := range all {
			add(kind, all[i].Name)
		}
	}
	if c.Lease != nil {
		add(kindLease, c.Lease.Name)
	}
	return out
}

// TestLook checks that all objects of the product are read, and that missing permissions are reported.
func TestLook(t *testing.T) {
	forbidden := kerrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errBoom)
	all := map[string][]string{
		"MySQL": {"orders"}, "XMySQL": {"orders-x"}, "PersistentVolume": {"pv-backup", "pv-data"},
		"PersistentVolumeClaim": {"backup-orders-pvc", "orders-pvc"},
		"BackupRecord":          {key.Instance("uid-0").RecordName()}, "Namespace": {"shop"}, "Lease": {Lease},
	}
	cases := map[string]struct {
		absent  string
		failing map[string]error
		// without lists the kinds whose objects are missing from the result.
		without          []string
		unread, isAbsent []string
		err              string
	}{
		"All": {},
		"LeaseHidden": {failing: map[string]error{kindLease: forbidden}, without: []string{kindLease},
			unread: []string{kindLease}},
		"NoLease": {failing: map[string]error{
			kindLease: kerrors.NewNotFound(coordinationv1.Resource("leases"), Lease)}, without: []string{kindLease}},
		"NoRecords": {absent: v1.KindBackupRecord, without: []string{v1.KindBackupRecord},
			isAbsent: []string{v1.KindBackupRecord}},
		"NoMySQL": {absent: v1.KindMySQL, without: []string{v1.KindMySQL},
			isAbsent: []string{v1.KindMySQL, "MySQL.crossplane-mysql.io"}},
		"NoDatabase":    {absent: v1.KindXDatabase, isAbsent: []string{v1.KindXDatabase}},
		"VolumesHidden": {failing: map[string]error{"PersistentVolume": forbidden}, err: "cannot list PersistentVolumes"},
		"ClaimsHidden": {failing: map[string]error{"PersistentVolumeClaim": errBoom},
			err: "cannot list PersistentVolumeClaims"},
		"XRsHidden":     {failing: map[string]error{v1.KindXMySQL: forbidden}, err: "cannot list kind XMySQL"},
		"RecordsHidden": {failing: map[string]error{v1.KindBackupRecord: forbidden}, err: "cannot list kind BackupRecord"},
		"LeaseIsBroken": {failing: map[string]error{kindLease: errBoom}, err: "cannot read kind Lease: boom"},
		"JobsAreBroken": {failing: map[string]error{kindJob: errBoom}, err: "cannot read kind Job: boom"},
		"NamespacesHide": {failing: map[string]error{kindNamespace: forbidden}, without: []string{kindNamespace},
			unread: []string{kindNamespace}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := Look(t.Context(), kube(t, tc.absent, tc.failing), systemNamespace, now)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("want the error %q, got %v", tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(all)
			for _, kind := range tc.without {
				delete(want, kind)
			}
			if diff := cmp.Diff(want, names(c)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			var unread []string
			for kind := range c.Unread {
				unread = append(unread, kind)
			}
			if diff := cmp.Diff([][]string{tc.unread, tc.isAbsent}, [][]string{unread, c.Absent}); diff != "" {
				t.Errorf("unread and absent: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestLookAndExamine checks that a healthy cluster has a report without findings.
func TestLookAndExamine(t *testing.T) {
	c, err := Look(t.Context(), kube(t, "", nil), systemNamespace, now)
	if err != nil {
		t.Fatal(err)
	}
	r := Examine(c)
	if len(r.Instances) != 1 || r.Instances[0].Severity != OK || len(said(r)) > 0 {
		t.Errorf("want one instance that is well, got %+v", r)
	}
}
