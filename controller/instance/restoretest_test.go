package instance

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// restoreTestJob of the first life, whose server has said its word.
func restoreTestJob() []client.Object {
	labels := life.Labels()
	labels[v1.LabelComponent] = v1.ComponentRestoreTest
	j := &batchv1.Job{ObjectMeta: meta(life.RestoreTestJobName(), labels)}
	j.UID = "job"
	p := &corev1.Pod{ObjectMeta: meta("p", nil)}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "tools", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "bootcheck", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"command":"bootcheck","ok":true,"tables":7}`}}},
	}
	stranger := &corev1.Pod{ObjectMeta: meta("stranger", labels)} // Labels are anybody's.
	stranger.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "bootcheck", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"command":"bootcheck","ok":true,"tables":666}`}}},
	}
	return []client.Object{j, p, stranger}
}

// TestRestoreTestState finds out who has the name, and what the Job said.
func TestRestoreTestState(t *testing.T) {
	backups := &corev1.PersistentVolumeClaim{ObjectMeta: meta(life.BackupPVCName(), nil), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-backup"}}
	backups.UID = "claim"
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-backup"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: life.BackupPVCName(), UID: "claim"},
	}}
	noKind := &apimeta.NoKindMatchError{GroupKind: XRKind.GroupKind()}
	cases := map[string]struct {
		reason string
		there  []client.Object
		refuse error
		home   bool
		dying  bool
	}{
		"Gone":        {reason: "Nobody has the name.", home: true},
		"Dying":       {reason: "Its own life has not ended.", there: []client.Object{xr("x", "uid-1", "db", true)}, home: true, dying: true},
		"Back":        {reason: "Another life needs the volumes.", there: []client.Object{xr("y", "uid-2", "db", false), boundClaim("y")}},
		"BackAlready": {reason: "Its own has not ended, and goes first.", there: []client.Object{xr("x", "uid-1", "db", true), xr("y", "uid-2", "db", false), boundClaim("y")}, home: true, dying: true},
		"NewClaim":    {reason: "Its XR comes next.", there: []client.Object{boundClaim("")}},
		"Uninstalled": {reason: "Without the XRD there are no instances, and their backups are there.", refuse: noKind, home: true},
		"UninstalledNow": {
			reason: "The API server says it first.",
			refuse: kerrors.NewNotFound(schema.GroupResource{Group: v1.Group, Resource: "xmysqls"}, ""), home: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
			objects := append(append(restoreTestJob(), ns, backups.DeepCopy(), volume.DeepCopy()), tc.there...)
			c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if k := l.GetObjectKind().GroupVersionKind().Kind; tc.refuse != nil && k == XRKind.Kind {
						return tc.refuse
					}
					return c.List(ctx, l, opts...)
				},
			}).Build()
			g := &Gatherer{Reader: c, SystemNamespace: "system", Clock: time.Now}
			v, err := g.RestoreTestState(t.Context(), key, "uid-1")
			if err != nil {
				t.Fatal(err)
			}
			if (v.Home != nil) != tc.home || tc.home && (v.Home.XR != nil) != tc.dying {
				t.Errorf("%s Home is %+v", tc.reason, v.Home)
			}
			if tc.home && v.Volume == nil {
				t.Error("the volume of the backups is not found")
			}
			if v.Job == nil || v.Reports["bootcheck"].Tables != 7 {
				t.Errorf("the Job's word is not heard: %+v", v.Reports)
			}
		})
	}
}
