package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// agentImage is the image in the Compositions for Jobs and init containers.
const agentImage = "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"

func TestNodesAreReady(t *testing.T) {
	var nodes corev1.NodeList
	if err := framework.Suite.Kube.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	if framework.Suite.Own != nil && len(nodes.Items) != 2 {
		t.Errorf("want 2 nodes, got %d", len(nodes.Items))
	}
	for _, n := range nodes.Items {
		ready := false
		for _, c := range n.Status.Conditions {
			ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		if !ready {
			t.Errorf("node %s is not Ready", n.Name)
		}
	}
}

func TestNamesAreResolved(t *testing.T) {
	ns := framework.NewNamespace(t)
	framework.StartToolbox(t, ns, "client", "")
	framework.Eventually(t, "DNS", func(ctx context.Context) error {
		out, err := framework.Exec(ctx, ns, "client", "", "getent", "hosts", "kubernetes.default.svc.cluster.local")
		if err == nil && strings.TrimSpace(out) == "" {
			return errors.New("it has no address")
		}
		return err
	})
}

// TestVolumes checks the features of volumes that the product requires. The data that a pod wrote must be available
// to the next pod, and a volume can be expanded.
func TestVolumes(t *testing.T) {
	ns := framework.NewNamespace(t)
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
		},
	}
	if err := framework.Suite.Kube.Create(t.Context(), pvc); err != nil {
		t.Fatal(err)
	}
	framework.StartToolbox(t, ns, "first", "data")
	if _, err := framework.Exec(t.Context(), ns, "first", "", "sh", "-c", "echo here >/data/file && sync"); err != nil {
		t.Fatal(err)
	}
	if err := framework.Suite.Kube.Delete(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "first"}}); err != nil {
		t.Fatal(err)
	}
	framework.StartToolbox(t, ns, "second", "data")
	out, err := framework.Exec(t.Context(), ns, "second", "", "cat", "/data/file")
	if err != nil || out != "here\n" {
		t.Fatalf("want what the first pod wrote, got %q, %v", out, err)
	}
	grow(t, pvc, "128Mi")
}

func grow(t *testing.T, pvc *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	want := resource.MustParse(size)
	framework.Eventually(t, "asking for more", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(pvc), pvc); err != nil {
			return err
		}
		pvc.Spec.Resources.Requests[corev1.ResourceStorage] = want
		return framework.Suite.Kube.Update(ctx, pvc)
	})
	framework.Eventually(t, "growth", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(pvc), pvc); err != nil {
			return err
		}
		if got := pvc.Status.Capacity[corev1.ResourceStorage]; got.Cmp(want) < 0 {
			return fmt.Errorf("its capacity is %s", got.String())
		}
		return nil
	})
}

func TestPackagesAreHealthy(t *testing.T) {
	for kind, names := range map[string][]string{
		"Function": {"crossplane-mysql-function-mysql"},
		"Configuration": {"crossplane-mysql-configuration-mysql", "crossplane-mysql-configuration-mysql-hostpath",
			"crossplane-mysql-configuration-database", "crossplane-mysql-configuration-mysql-namespaced"},
	} {
		for _, name := range names {
			for _, c := range []string{"Installed", "Healthy"} {
				if err := framework.HasCondition(t.Context(), framework.NewObject("pkg.crossplane.io/v1", kind, "", name),
					c); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for name, condition := range map[string]string{"xmysqls.otus.homework": "Offered", "xdatabases.zalando.org": "Offered",
		"mysqlinstances.crossplane-mysql.io": "Established"} { // This API has no claims.
		if err := framework.HasCondition(t.Context(),
			framework.NewObject("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "", name),
			condition); err != nil {
			t.Error(err)
		}
	}
}

// TestOwnPods checks that the pods of the function and the controller are unprivileged and have resource requests.
func TestOwnPods(t *testing.T) {
	for namespace, labels := range map[string]client.MatchingLabels{
		"crossplane-system":       {"pkg.crossplane.io/function": "crossplane-mysql-function-mysql"},
		"crossplane-mysql-system": {"app.kubernetes.io/name": "crossplane-mysql"},
	} {
		pods := &corev1.PodList{}
		if err := framework.Suite.Kube.List(t.Context(), pods, client.InNamespace(namespace), labels); err != nil ||
			len(pods.Items) == 0 {
			t.Fatalf("%s has no such pod: %v", namespace, err)
		}
		for _, p := range pods.Items {
			pod, c := p.Spec.SecurityContext, p.Spec.Containers[0]
			s := c.SecurityContext
			switch {
			case pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot || pod.SeccompProfile == nil ||
				pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
				t.Errorf("pod %s: %+v", p.Name, pod)
			case s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
				s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil ||
				len(s.Capabilities.Drop) != 1:
				t.Errorf("container of %s: %+v", p.Name, s)
			case c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() ||
				c.Resources.Limits.Memory().IsZero():
				t.Errorf("container of %s has %+v", p.Name, c.Resources)
			}
		}
	}
}

// TestImageRuns runs the product's image as it is built from the Dockerfile.
func TestImageRuns(t *testing.T) {
	ns := framework.NewNamespace(t)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "agent"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "agent", Image: agentImage, Args: []string{"--help"}}},
		},
	}
	framework.CreatePod(t, p)
	framework.Eventually(t, "the image", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("its pod is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		return nil
	})
}
