package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// subPath is the directory of the volume that the Deployment with an official image mounts.
const subPath = "mysql"

// startChart starts a StatefulSet like the one of Bitnami's chart for MySQL, with the release name shop. Its server
// runs with user 1001, and the data directory is the directory data of its volume.
func startChart(t *testing.T, ns string) *foreignServer {
	t.Helper()
	const name, bitnami = "shop-mysql", int64(1001)
	pod := foreignPod(ns, name, bitnami, "/bitnami/mysql")
	pod.Spec.SecurityContext.RunAsGroup = new(bitnami)
	pod.Spec.Containers[0].Args = []string{"--datadir=/bitnami/mysql/data", "--secure-file-priv=NULL"}
	labels := map[string]string{"app": name}
	framework.Make(t, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name, Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	})
	f := &foreignServer{namespace: ns, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-0"}}}
	f.awaitServer(t)
	return f
}

// TestImportBitnami imports the volume of a StatefulSet like the one of Bitnami's chart, with the commands of the page.
// Without the directory, the message must name it. While the server runs, the import must wait. No row may be missing
// when the first client connects, and the old server must still work.
func TestImportBitnami(t *testing.T) {
	framework.Repeats(t, "TestRealImportLayout imports the same layout, and TestImport the volume of another server")
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	f := startChart(t, s.Namespace)
	f.mustAsk(t, testdata(t, "rich.sql"))
	f.mustAsk(t, "CREATE TABLE shop.marks (id INT PRIMARY KEY); INSERT INTO shop.marks VALUES (1)")
	want := f.mustAsk(t, rowsOf)
	volume := map[string]any{"pvcRef": map[string]any{"name": "data-shop-mysql-0"}}

	unnamed := s.Neighbour(t, "unnamed")
	f.imports(unnamed, map[string]any{"volume": volume})
	unnamed.Spec["deletionPolicy"] = discard
	unnamed.Create(t)
	unnamed.Says(t, "spec.restore.import.volume.directory: data")
	unnamed.IsHeld(t)
	unnamed.Delete(t)

	f.imports(s, map[string]any{"volume": map[string]any{"pvcRef": volume["pvcRef"], "directory": "data"}})
	s.Create(t)
	s.Says(t, "a server still uses this data")
	s.IsHeld(t)
	framework.MustKubectl(t, "scale", "statefulset", "shop-mysql", "--replicas=0", "--namespace", s.Namespace)
	framework.MustKubectl(t, "wait", "--for=delete", "pod/shop-mysql-0", "--timeout=5m", "--namespace", s.Namespace)
	sees(t, s, want)
	s.Client().RunScript(t, "INSERT INTO shop.marks VALUES (2)")

	framework.MustKubectl(t, "scale", "statefulset", "shop-mysql", "--replicas=1", "--namespace", s.Namespace)
	f.awaitServer(t)
	if got := f.mustAsk(t, rowsOf); got != want {
		t.Errorf("the old server has %q now, want %q", got, want)
	}
	owner, err := framework.Exec(t.Context(), f.namespace, f.pod.Name, "", "stat", "--format=%u", "/bitnami/mysql/data/ibdata1")
	if err != nil || strings.TrimSpace(owner) != "1001" {
		t.Errorf("the files of the old server belong to %q, %v", owner, err)
	}
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
}

// startDeployment starts a Deployment with an official image, whose data is in the directory mysql of its volume.
func startDeployment(t *testing.T, ns string) *foreignServer {
	t.Helper()
	const name, volume = "old-mysql", "old-mysql-data"
	pod := foreignPod(ns, name, 999, "/var/lib/mysql")
	pod.Spec.Containers[0].VolumeMounts[0].SubPath = subPath
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volume}}})
	labels := map[string]string{"app": name}
	framework.Make(t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: volume},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	framework.Make(t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	})
	f := &foreignServer{namespace: ns}
	framework.Eventually(t, "the pod of the old server", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := framework.Suite.Kube.List(ctx, pods, client.InNamespace(ns), client.MatchingLabels(labels)); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("want one pod, got %d", len(pods.Items))
		}
		f.pod = &pods.Items[0]
		return nil
	})
	f.awaitServer(t)
	return f
}

// TestImportSubPath imports the volume of a Deployment with an official image and a subPath. The kubelet has created
// that directory as root.
func TestImportSubPath(t *testing.T) {
	framework.Repeats(t, "TestImportLayouts imports the same layout, and TestImport the volume of another server")
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	f := startDeployment(t, s.Namespace)
	f.mustAsk(t, testdata(t, "rich.sql"))
	f.mustAsk(t, "CREATE TABLE shop.marks (id INT PRIMARY KEY); INSERT INTO shop.marks VALUES (1)")
	want := f.mustAsk(t, rowsOf)
	framework.MustKubectl(t, "scale", "deployment", "old-mysql", "--replicas=0", "--namespace", s.Namespace)
	framework.Eventually(t, "the end of the old server", func(ctx context.Context) error {
		return framework.IsGone(ctx, f.pod)
	})
	f.imports(s, map[string]any{"volume": map[string]any{"pvcRef": map[string]any{"name": "old-mysql-data"},
		"directory": subPath}})
	s.Create(t)
	sees(t, s, want)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
}
