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

// Levels of Pod Security, which the API server enforces by a label of the namespace.
const (
	securityLabel = "pod-security.kubernetes.io/enforce"
	privileged    = "privileged"
	baseline      = "baseline"
	restricted    = "restricted"
)

// securityOf the product's pods with a Composition: one on folders of a node has them made over by root.
func securityOf(t *testing.T, composition string) string {
	t.Helper()
	if _, _, input := readComposition(t, composition); input["volumes"] == "HostPath" {
		return baseline
	}
	return restricted
}

// enforceSecurity in a namespace.
func enforceSecurity(t *testing.T, namespace, level string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+securityLabel+`":"`+level+`"}}}`))
	if err := Suite.Kube.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		patch); err != nil {
		t.Fatal(err)
	}
}

// Relax what a namespace enforces, for pods that are not the product's.
func Relax(t *testing.T, namespace string) {
	t.Helper()
	enforceSecurity(t, namespace, baseline)
}

// SecurityIs enforced at this level in a namespace, still.
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

// letIn a test's own pod, which may be one that the namespace of a server does not allow.
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
