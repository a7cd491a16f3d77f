package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keeper is the controller's namespace, where the passwords of backups are.
const keeper = "crossplane-mysql-system"

// nothingLeft waits until nothing of a deleted claim is there but its backups: their volume, records and passwords.
func (s *server) nothingLeft(t *testing.T) {
	t.Helper()
	for _, check := range []func(context.Context) error{s.nothingInNamespace, s.noComposite, s.noDataPV, s.passwordsOfRecordsOnly} {
		eventually(t, "that nothing is left", check)
	}
	records, err := s.records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 {
		s.backupsAreKept(t)
	}
}

// nothingInNamespace complains of what has the claim's name in its own.
func (s *server) nothingInNamespace(ctx context.Context) error {
	var left []string
	for _, kind := range []string{
		"v1/Pod", "v1/PersistentVolumeClaim", "v1/Secret", "v1/ConfigMap", "v1/Service",
		"apps/v1/Deployment", "apps/v1/ReplicaSet", "batch/v1/Job", "otus.homework/v1/MySQL",
	} {
		found, err := s.listed(ctx, kind, s.namespace)
		if err != nil {
			return err
		}
		for _, o := range found {
			if strings.Contains(o.GetName(), s.name) && o.GetName() != s.backupPVC() {
				left = append(left, kind+" "+o.GetName())
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left: %s", strings.Join(left, ", "))
	}
	return nil
}

func (s *server) backupPVC() string { return "backup-" + s.name + "-pvc" }

// listed are the objects of a kind, written as apiVersion/Kind.
func (s *server) listed(ctx context.Context, kind, namespace string) ([]unstructured.Unstructured, error) {
	list := listOf(kind)
	err := suite.kube.List(ctx, list, client.InNamespace(namespace))
	if unknown(err) {
		return nil, nil
	}
	return list.Items, err
}

// unknown is the error of a kind that the API server does not have, or does not have any more.
func unknown(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func listOf(kind string) *unstructured.UnstructuredList {
	at := strings.LastIndex(kind, "/")
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(kind[:at])
	list.SetKind(kind[at+1:] + "List")
	return list
}

func (s *server) noComposite(ctx context.Context) error {
	found, err := s.listed(ctx, "otus.homework/v1/XMySQL", "")
	if err != nil {
		return err
	}
	for _, xr := range found {
		of, _, _ := unstructured.NestedStringMap(xr.Object, "spec", "claimRef")
		if of["namespace"] == s.namespace && of["name"] == s.name {
			return fmt.Errorf("left: composite %s", xr.GetName())
		}
	}
	return nil
}

func (s *server) noDataPV(ctx context.Context) error {
	v, err := s.volumeOf(ctx, s.name+"-pvc")
	if err == nil && v != nil {
		err = fmt.Errorf("left: volume %s, %s, finalizers %v", v.Name, v.Status.Phase, v.Finalizers)
	}
	return err
}

// volumeOf a claim, or nil. It is looked for among the volumes: the claim may be gone.
func (s *server) volumeOf(ctx context.Context, claim string) (*corev1.PersistentVolume, error) {
	var all corev1.PersistentVolumeList
	if err := suite.kube.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if ref := all.Items[i].Spec.ClaimRef; ref != nil && ref.Namespace == s.namespace && ref.Name == claim {
			return &all.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // No volume, and no error.
}

// passwordsOfRecordsOnly complains of a record without one, and of one without a record.
func (s *server) passwordsOfRecordsOnly(ctx context.Context) error {
	secrets, err := s.listed(ctx, "v1/Secret", keeper)
	if err != nil {
		return err
	}
	var kept, wanted []string
	for _, o := range secrets {
		a := o.GetAnnotations()
		if a["otus.homework/claim-namespace"] == s.namespace && a["otus.homework/claim-name"] == s.name {
			kept = append(kept, o.GetName())
		}
	}
	records, err := s.records(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		wanted = append(wanted, r.GetName())
	}
	slices.Sort(kept)
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, kept); diff != "" {
		return fmt.Errorf("passwords are not those of the records (-records, +passwords):\n%s", diff)
	}
	return nil
}

// backupsAreKept by a volume that nobody can delete by mistake.
func (s *server) backupsAreKept(t *testing.T) {
	t.Helper()
	v, err := s.volumeOf(t.Context(), s.backupPVC())
	if err == nil && v == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		t.Fatalf("the backups' volume: %v", err)
	}
	isFree := s.backupPVCDeleted && v.Status.Phase == corev1.VolumeReleased // Until the claim is created again.
	if v.Status.Phase != corev1.VolumeBound && !isFree || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || len(v.Finalizers) == 0 {
		t.Errorf("want the backups' volume bound, retained and with a finalizer, it is %s, %s, %v", v.Status.Phase, v.Spec.PersistentVolumeReclaimPolicy, v.Finalizers)
	}
}

// folder of the data, if it is one of a node's. What it returns sees that it was emptied.
func (s *server) folder(t *testing.T) func(*testing.T) {
	t.Helper()
	v, err := s.volumeOf(t.Context(), s.name+"-pvc")
	if err != nil || v == nil {
		t.Fatalf("cannot find the data volume: %v", err)
	}
	if v.Spec.HostPath == nil {
		return func(*testing.T) {}
	}
	server := s.pods(t, "server", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	startPod(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "folder"},
		Spec: corev1.PodSpec{
			NodeName: server.Spec.NodeName,
			Containers: []corev1.Container{{
				Name: "toolbox", Image: toolbox, Command: []string{"sleep", "3600"},
				SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0))},
				VolumeMounts:    []corev1.VolumeMount{{Name: "folder", MountPath: "/folder", ReadOnly: true}},
			}},
			TerminationGracePeriodSeconds: new(int64(0)),
			Volumes:                       []corev1.Volume{{Name: "folder", VolumeSource: corev1.VolumeSource{HostPath: v.Spec.HostPath}}},
		},
	})
	s.inFolder(t, ".restored.json\ndata\n") // And what says whose data that is.
	return func(t *testing.T) { t.Helper(); s.inFolder(t, "") }
}

func (s *server) inFolder(t *testing.T, want string) {
	t.Helper()
	got, err := in(t.Context(), s.namespace, "folder", "", "ls", "-A", "/folder")
	if err != nil || got != want {
		t.Errorf("want %q in the node's folder, got %q, %v", want, got, err)
	}
}
