package framework

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Levels of the Pod Security Standards, and the namespace label with the level that the API server enforces.
const (
	securityLabel = "pod-security.kubernetes.io/enforce"
	privileged    = "privileged"
	baseline      = "baseline"
	restricted    = "restricted"
)

// securityOf returns the level that the product's pods need with a Composition. With hostPath volumes, one of their
// containers runs as root in order to change the owner of the directories.
func securityOf(t *testing.T, composition string) string {
	t.Helper()
	if _, _, input := readComposition(t, composition); input["volumes"] == "HostPath" {
		return baseline
	}
	return restricted
}

// enforceSecurity sets the Pod Security level that the API server enforces in a namespace.
func enforceSecurity(t *testing.T, namespace, level string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+securityLabel+`":"`+level+`"}}}`))
	if err := Suite.Kube.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		patch); err != nil {
		t.Fatal(err)
	}
}

// Relax sets the level of a namespace to baseline, for pods that do not belong to the product.
func Relax(t *testing.T, namespace string) {
	t.Helper()
	enforceSecurity(t, namespace, baseline)
}

// SecurityIs returns an error if the namespace does not enforce the given level.
func SecurityIs(ctx context.Context, namespace, level string) error {
	ns := &corev1.Namespace{}
	if err := Suite.Kube.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return err
	}
	if got := ns.Labels[securityLabel]; got != level {
		return fmt.Errorf("the namespace enforces %q", got)
	}
	return nil
}

// letIn lowers the Pod Security level that the pod's namespace enforces, if the API server would otherwise refuse the
// pod.
func letIn(t *testing.T, p *corev1.Pod) {
	t.Helper()
	ns := &corev1.Namespace{}
	if err := Suite.Kube.Get(t.Context(), client.ObjectKey{Name: p.Namespace}, ns); err != nil {
		t.Fatal(err)
	}
	levels := []string{privileged, baseline, restricted}
	current, needs := slices.Index(levels, ns.Labels[securityLabel]), restricted
	switch {
	case p.Spec.HostPID, slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
		needs = privileged
	case p.Spec.SecurityContext == nil || p.Spec.SecurityContext.RunAsNonRoot == nil:
		needs = baseline
	}
	if current > slices.Index(levels, needs) {
		enforceSecurity(t, p.Namespace, needs)
	}
}
