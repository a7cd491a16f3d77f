package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestMountFails checks a pod whose volume cannot be mounted. Only an event of the kubelet reports that, so the claim
// must repeat it.
func TestMountFails(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWhyPodWaits has the words of such an event")
	s := framework.NewServer(t, framework.ClassComposition)
	changePods(t, s, `[
		JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{name: "absent", secret: Object.spec.volumes.secret{secretName: "absent"}}},
		JSONPatch{op: "add", path: "/spec/containers/0/volumeMounts/-", value: Object.spec.containers.volumeMounts{name: "absent", mountPath: "/absent"}}
	]`, hasMore)
	s.Create(t)
	s.Says(t, `FailedMount: MountVolume.SetUp failed for volume "absent" : secret "absent" not found`)
	isBlocked(t, s, "True", "PodFailure")
	newPasswordSecret(t, s, "absent", nil)
	s.Client().TypeSession(t)
	isBlocked(t, s, "False", "NotBlocked")
}

// TestNoNode checks a server that requests more CPU than any node has. The claim must repeat the scheduler's message.
// When the request is reduced, the server must start.
func TestNoNode(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWhyPodWaits has the words of a server that cannot start")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["resources"] = map[string]any{"requests": map[string]any{"cpu": "1000"}}
	s.Create(t)
	s.Says(t, "cannot be scheduled: 0/")
	s.Says(t, "Insufficient cpu")
	isBlocked(t, s, "True", "PodFailure")
	s.Set(t, map[string]any{"resources": nil})
	s.Client().TypeSession(t)
	isBlocked(t, s, "False", "NotBlocked")
}

// TestSidecar uses an admission policy to add a container that never exits to each pod of a Job. The backup must
// still be verified, the next server must be restored, and no pod may be left.
func TestSidecar(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestOutlived has pods with a container more")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	changePods(t, s, `object.spec.restartPolicy == "Never" ? [
		JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "sidecar", image: "`+framework.Toolbox+`", command: ["sleep", "3600"]}}
	] : []`, hasMore)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)

	s.Create(t)
	s.Client().SeesRows(t, before)
	framework.Eventually(t, "the end of what was beside the restore", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := framework.Suite.Kube.List(ctx, pods, client.InNamespace(s.Namespace),
			client.MatchingLabels{batchv1.JobNameLabel: "restore-" + s.Name + "-job"}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("pod %s is there", pods.Items[0].Name)
		}
		return nil
	})
}

// hasMore reports whether an admission policy has added a container or volume to a pod. Without it, the pod has one
// container, and one volume for its ServiceAccount token.
func hasMore(p *corev1.Pod) bool { return len(p.Spec.Containers)+len(p.Spec.Volumes) > 2 }

// changePods patches the pods of a namespace with CEL expressions when they are created, as a service mesh or a
// policy engine does. It waits until the policy is effective.
func changePods(t *testing.T, s *framework.Server, patches string, changed func(*corev1.Pod) bool) {
	t.Helper()
	framework.Relax(t, s.Namespace) // Additional containers rarely satisfy the restricted level.
	name := "e2e-" + s.Namespace + "-" + s.Name
	policy := framework.NewObject("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "", name)
	policy.Object["spec"] = map[string]any{
		"failurePolicy":      "Fail",
		"reinvocationPolicy": "Never",
		"matchConstraints": map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": s.Namespace}},
			"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"},
				"operations": []any{"CREATE"}, "resources": []any{"pods"}}},
		},
		"mutations": []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": patches}}},
	}
	binding := framework.NewObject("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "", name)
	binding.Object["spec"] = map[string]any{"policyName": name}
	for _, o := range []*unstructured.Unstructured{policy, binding} {
		if err := framework.Suite.Kube.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := framework.Suite.Kube.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		})
	}
	framework.Eventually(t, "the policy", func(ctx context.Context) error {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "to-try-a-policy",
				Labels: map[string]string{"app.kubernetes.io/component": "server"}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "first", Image: framework.Toolbox}}},
		}
		if err := framework.Suite.Kube.Create(ctx, p, client.DryRunAll); err != nil {
			return err
		}
		if !changed(p) {
			return errors.New("it changes nothing yet")
		}
		return nil
	})
}
