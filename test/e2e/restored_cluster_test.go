package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestRestoredCluster deletes all objects of an instance, and restores them from a backup of the cluster's objects.
// Like with Velero, the restored objects have new UIDs and no status, but keep their labels, finalizers and owners
// (velero, pkg/restore/restore.go).
//
// The labels and owners of a restored volume can be outdated, so the controller must not delete its data because of
// them. It must verify each BackupRecord against the archive on the backup volume. After a user has decided what to
// do, no row is missing.
func TestRestoredCluster(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestNext and TestJudge have objects that came back under other UIDs")
	s := framework.NewServer(t, framework.ClassComposition)
	other := s.Neighbour(t, "neighbour")
	earlier, first := hasTwoInstances(t, other)
	before, _ := hasTwoInstances(t, s)
	volume := s.MustFindDataVolume(t)

	start := stopsTheController(t)
	objects := append(exportAll(t, s), exportAll(t, other)...)
	loseAll(t, objects)
	importAll(t, objects)
	start()

	for _, each := range []*framework.Server{s, other} {
		isVerifiedAgain(t, each)
		each.Says(t, "it was copied or restored from elsewhere. The controller does not change it until you decide")
		each.IsHeld(t)
	}
	if got := other.Backups().Only(t).GetName(); got != first {
		t.Errorf("want nothing wound up, found a record %s", got)
	}
	kept := &corev1.PersistentVolume{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Name: volume.Name}, kept); err != nil ||
		kept.DeletionTimestamp != nil || kept.UID == volume.UID {
		t.Errorf("want the volume as it came back, got %v, %v", kept.ObjectMeta, err)
	}

	typeWord(t, s, "take-over")
	s.Client().SeesRows(t, before)
	s.Backups().AreVerified(t, 2)

	left := typeWord(t, other, "leave-alone")
	if got := other.Client().FirstAnswer(t, framework.Rows); got != strings.ReplaceAll(earlier, added, "") {
		t.Errorf("want the rows of the backup\n%s\ngot\n%s", earlier, got)
	}
	other.Backups().AreVerified(t, 1)
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Name: left}, kept); err != nil ||
		kept.DeletionTimestamp != nil || kept.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("want the volume that is nobody's to stay, got %v, %v", kept, err)
	}
	if err := framework.Suite.Kube.Delete(t.Context(), kept); err != nil {
		t.Error(err)
	}
}

// added is the row that is not in any backup.
const added = "\n1000\tlater"

// hasTwoInstances creates an instance, deletes it, creates it again and adds a row. It returns the rows, and the name
// of the first instance's backup.
func hasTwoInstances(t *testing.T, s *framework.Server) (rows, backup string) {
	t.Helper()
	s.Begin(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	backup = s.Backups().Only(t).GetName()
	s.Create(t)
	s.Client().FirstAnswer(t, framework.Rows)
	s.Client().MustQuery(t, "INSERT INTO test (id, name) VALUES (1000, 'later')")
	rows = s.Client().MustQuery(t, framework.Rows)
	if !strings.Contains(rows, added) {
		t.Fatalf("want the row that was added, got %q", rows)
	}
	return rows, backup
}

// typeWord runs the command that the claim and the doctor print, which annotates a volume. word is the name of the
// annotation. It returns the name of the volume.
func typeWord(t *testing.T, s *framework.Server, word string) string {
	t.Helper()
	message := s.Message(t.Context())
	command := regexp.MustCompile(`kubectl (annotate pv (\S+) crossplane-mysql.io/` + word + `=[0-9a-f-]+)`).
		FindStringSubmatch(message)
	if command == nil {
		t.Fatalf("want a command in the message, got %q", message)
	}
	if got := doctorSays(t.Context(), t, s); !strings.Contains(got, command[1]) {
		t.Errorf("want the doctor to say %q, got %s", command[1], got)
	}
	framework.MustKubectl(t, strings.Fields(command[1])...)
	return command[2]
}

// doctorSays returns all findings of the doctor about an instance.
func doctorSays(ctx context.Context, t *testing.T, s *framework.Server) string {
	t.Helper()
	var out strings.Builder
	for _, f := range examineInstance(ctx, t, s).Findings {
		fmt.Fprintln(&out, f.Severity, f.Text, f.Advice)
	}
	return out.String()
}

// kindsOfInstance lists the kinds in the order in which they are restored. Volumes come before the objects that use
// them, and the claim comes last.
var kindsOfInstance = []string{
	"v1/PersistentVolume", "v1/PersistentVolumeClaim", "v1/Secret", "v1/ConfigMap", "v1/Service",
	"networking.k8s.io/v1/NetworkPolicy", "apps/v1/Deployment", "batch/v1/Job",
	"crossplane-mysql.io/v1alpha1/BackupRecord", "otus.homework/v1/XMySQL", "otus.homework/v1/MySQL",
}

// exportAll returns all objects that belong to an instance, including volumes and BackupRecords.
func exportAll(t *testing.T, s *framework.Server) []*unstructured.Unstructured {
	t.Helper()
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	instance := s.MustFindDataVolume(t).Labels["crossplane-mysql.io/instance"]
	var out []*unstructured.Unstructured
	for _, kind := range kindsOfInstance {
		list := framework.NewList(kind)
		if err := framework.Suite.Kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			belongs := o.GetLabels()["crossplane-mysql.io/instance"] == instance
			switch o.GetKind() {
			case "XMySQL":
				belongs = o.GetName() == xr.GetName()
			case "MySQL":
				belongs = o.GetNamespace() == s.Namespace && o.GetName() == s.Name
			}
			if belongs {
				out = append(out, o)
			}
		}
	}
	return out
}

// loseAll deletes all objects while no controller is running. The data on the volumes is kept.
func loseAll(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range slices.Backward(objects) {
		if o.GetKind() == "PersistentVolume" {
			patchObject(t, o, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
		}
		err := framework.Suite.Kube.Delete(t.Context(), o.DeepCopy(), client.PropagationPolicy("Background"))
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	for _, o := range slices.Backward(objects) {
		framework.Eventually(t, o.GetKind()+" "+o.GetName()+" to be gone", func(ctx context.Context) error {
			now := o.DeepCopy()
			if err := framework.IsGone(ctx, now); err == nil {
				return nil
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := framework.Suite.Kube.Patch(ctx, now, patch); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			return framework.IsGone(ctx, now)
		})
	}
}

func patchObject(t *testing.T, o *unstructured.Unstructured, form string) {
	t.Helper()
	if err := framework.Suite.Kube.Patch(t.Context(), o.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(form))); err != nil {
		t.Fatal(err)
	}
}

// importAll creates the objects again, as backup tools do.
func importAll(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		o := o.DeepCopy()
		delete(o.Object, "status")
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
			"deletionTimestamp", "deletionGracePeriodSeconds"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		switch o.GetKind() {
		case "PersistentVolume":
			unstructured.RemoveNestedField(o.Object, "spec", "claimRef", "uid")
			unstructured.RemoveNestedField(o.Object, "spec", "claimRef", "resourceVersion")
		case "PersistentVolumeClaim":
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "pv.kubernetes.io/bind-completed")
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "pv.kubernetes.io/bound-by-controller")
		case "Job": // The selector of a Job contains the Job's UID.
			unstructured.RemoveNestedField(o.Object, "spec", "selector")
			unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "labels")
		}
		if err := framework.Suite.Kube.Create(t.Context(), o); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
