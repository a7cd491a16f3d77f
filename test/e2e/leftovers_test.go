package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// leavesNothing waits until nothing is left of a deleted claim except its backups: the volume and the BackupRecords.
func leavesNothing(t *testing.T, s *framework.Server) {
	t.Helper()
	leavesNoTrace(t, s)
	records, err := s.Backups().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 {
		keepsBackups(t, s)
	}
}

// leavesNoTrace waits until none of the instance's objects exist, except its backup volume and its BackupRecords.
func leavesNoTrace(t *testing.T, s *framework.Server) {
	t.Helper()
	for _, check := range []func(context.Context, *framework.Server) error{nothingInNamespace, hasNoComposite, hasNoDataPV,
		keepsNoPassword} {
		framework.Eventually(t, "that nothing is left", func(ctx context.Context) error { return check(ctx, s) })
	}
}

// nothingInNamespace returns an error while the namespace contains objects that are named after the claim.
func nothingInNamespace(ctx context.Context, s *framework.Server) error {
	var left []string
	for _, kind := range []string{
		"v1/Pod", "v1/PersistentVolumeClaim", "v1/Secret", "v1/ConfigMap", "v1/Service", "networking.k8s.io/v1/NetworkPolicy",
		"apps/v1/Deployment", "apps/v1/ReplicaSet", "batch/v1/Job", "otus.homework/v1/MySQL",
		"crossplane-mysql.io/v1alpha1/MySQL",
	} {
		found, err := listKind(ctx, kind, s.Namespace)
		if err != nil {
			return err
		}
		for _, o := range found {
			if strings.Contains(o.GetName(), s.Name) && o.GetName() != s.BackupPVC() {
				left = append(left, kind+" "+o.GetName())
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left: %s", strings.Join(left, ", "))
	}
	return nil
}

// listKind lists the objects of a kind, which is specified as apiVersion/Kind.
func listKind(ctx context.Context, kind, namespace string) ([]unstructured.Unstructured, error) {
	list := framework.NewList(kind)
	err := framework.Suite.Kube.List(ctx, list, client.InNamespace(namespace))
	if framework.IsUnknown(err) {
		return nil, nil
	}
	return list.Items, err
}

func hasNoComposite(ctx context.Context, s *framework.Server) error {
	found, err := listKind(ctx, "otus.homework/v1/XMySQL", "")
	if err != nil {
		return err
	}
	for _, xr := range found {
		claimRef, _, _ := unstructured.NestedStringMap(xr.Object, "spec", "claimRef")
		if claimRef["namespace"] == s.Namespace && claimRef["name"] == s.Name {
			return fmt.Errorf("left: composite %s", xr.GetName())
		}
	}
	return nil
}

func hasNoDataPV(ctx context.Context, s *framework.Server) error {
	v, err := s.VolumeOf(ctx, s.DataPVC())
	if err == nil && v != nil {
		err = fmt.Errorf("left: volume %s, %s, finalizers %v", v.Name, v.Status.Phase, v.Finalizers)
	}
	return err
}

// keepsNoPassword returns an error while the controller still has a Secret for the claim. Backups need no password.
func keepsNoPassword(ctx context.Context, s *framework.Server) error {
	secrets, err := listKind(ctx, "v1/Secret", framework.SystemNamespace)
	for _, o := range secrets {
		if a := o.GetAnnotations(); a["crossplane-mysql.io/claim-namespace"] == s.Namespace &&
			a["crossplane-mysql.io/claim-name"] == s.Name {
			return fmt.Errorf("left: Secret %s of the controller", o.GetName())
		}
	}
	return err
}

// keepsBackups checks that the backup volume is protected from deletion.
func keepsBackups(t *testing.T, s *framework.Server) {
	t.Helper()
	v, err := s.VolumeOf(t.Context(), s.BackupPVC())
	if err == nil && v == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		t.Fatalf("the backups' volume: %v", err)
	}
	isFree := s.BackupPVCDeleted && v.Status.Phase == corev1.VolumeReleased // It is Released until the claim is recreated.
	if v.Status.Phase != corev1.VolumeBound && !isFree ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || len(v.Finalizers) == 0 {
		t.Errorf("want the backups' volume bound, retained and with a finalizer, it is %s, %s, %v", v.Status.Phase,
			v.Spec.PersistentVolumeReclaimPolicy, v.Finalizers)
	}
}

// watchDir inspects the data directory if it is on a hostPath volume. The returned function checks that this
// directory is empty.
func watchDir(t *testing.T, s *framework.Server) func(*testing.T) {
	t.Helper()
	v := s.MustFindDataVolume(t)
	if v.Spec.HostPath == nil {
		return func(*testing.T) {}
	}
	server := s.Pods().WaitFor(t, "server", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	framework.StartPod(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "folder"},
		Spec: corev1.PodSpec{
			NodeName: server.Spec.NodeName,
			Containers: []corev1.Container{{
				Name: "toolbox", Image: framework.Toolbox, Command: []string{"sleep", "3600"},
				SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0))},
				VolumeMounts:    []corev1.VolumeMount{{Name: "folder", MountPath: "/folder", ReadOnly: true}},
			}},
			TerminationGracePeriodSeconds: new(int64(0)),
			Volumes: []corev1.Volume{
				{Name: "folder", VolumeSource: corev1.VolumeSource{HostPath: v.Spec.HostPath}}},
		},
	})
	leavesNothingToRun(t, s, server)
	hasInPrefix(t, s, ".restored.json\n.started.json\ndata\n") // The files contain the owner and the version of the data.
	return func(t *testing.T) { t.Helper(); hasInPrefix(t, s, "") }
}

// leavesNothingToRun checks that other users on the node cannot run programs in the data directory. A user with
// access to the server could write a setuid program there. On the node, only root must be able to reach it.
func leavesNothingToRun(t *testing.T, s *framework.Server, server *corev1.Pod) {
	t.Helper()
	const evil = "/var/lib/mysql/evil"
	if out, err := framework.Exec(t.Context(), s.Namespace, server.Name, "", "sh", "-c",
		"cp /bin/sh "+evil+" && chmod 6755 "+evil); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	onNode := func(command ...string) (string, error) {
		return framework.Exec(t.Context(), s.Namespace, "folder", "", command...)
	}
	if got, err := onNode("stat", "-c", "%u:%g %a", "/folder", "/folder/data/evil"); err != nil ||
		got != "999:999 700\n999:999 6755\n" {
		t.Errorf("want the server's own folder, and what it can leave there, got %q, %v", got, err)
	}
	if got, err := onNode("find", "/folder", "!", "-uid", "999"); err != nil || got != "" {
		t.Errorf("want all of it the server's, got %q, %v", got, err)
	}
	for _, path := range []string{"/folder", "/folder/data/evil"} {
		if got, err := onNode("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls", "-l", path); err == nil ||
			!strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("somebody on the node sees %s: %q, %v", path, got, err)
		}
	}
	if out, err := framework.Exec(t.Context(), s.Namespace, server.Name, "", "rm", evil); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
}

func hasInPrefix(t *testing.T, s *framework.Server, want string) {
	t.Helper()
	got, err := framework.Exec(t.Context(), s.Namespace, "folder", "", "ls", "-A", "/folder")
	if err != nil || got != want {
		t.Errorf("want %q in the node's folder, got %q, %v", want, got, err)
	}
}
