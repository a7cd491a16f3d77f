package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// systems returns the namespaces of Crossplane and the product, whose programs read claims and composite resources.
func systems() []string { return []string{"crossplane-system", "crossplane-mysql-system"} }

// TestEndlessNumbers checks that the API server refuses a quantity with a huge exponent when an object is created or
// patched. It tests every quantity in a MySQL and in a Database. All programs that read claims must keep working.
func TestEndlessNumbers(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestQuantitiesAreBounded has each field, and TestQuantityAttack those who read them")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	d := newDatabase(t, "database-mysql", map[string]any{"storageSize": "1Gi", "deletionPolicy": discard})
	d.Create(t)
	theController.RLock()
	defer theController.RUnlock()
	for _, server := range []*framework.Server{s, d} {
		for _, path := range quantitiesOf(server) {
			for _, good := range []string{"2Gi", "2e9"} {
				if err := tryQuantity(t.Context(), server, path, good, client.DryRunAll); err != nil {
					t.Fatalf("%s in %s: %v", good, strings.Join(path, "."), err)
				}
			}
			for _, text := range endless() {
				refusesQuantity(t, server, path, text)
			}
		}
	}
	systemsAreUnmoved(t)
	s.Set(t, map[string]any{"storage_size": "2Gi"})
	hasGrown(t, s, s.DataPVC())
	if got := s.Client().MustQuery(t, framework.Rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
}

// endless returns quantities with exponents of different lengths, and strings that are too long for a quantity.
func endless() []string {
	var out []string
	for _, digits := range []int{3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 28, 29, 30, 100, 10_000} {
		nines := strings.Repeat("9", digits)
		out = append(out, "1e-"+nines, "1e"+nines)
	}
	return append(out, " 1e-9999999", "12345678901234567890e9999999", strings.Repeat("9", 10_000))
}

// quantitiesOf returns the paths of the quantities in a claim's spec.
func quantitiesOf(s *framework.Server) [][]string {
	out := [][]string{{"storageSize"}, {"resources", "limits", "memory"}, {"resources", "requests", "memory"}}
	if _, legacy := s.Spec["storage_size"]; legacy {
		out[0][0] = "storage_size"
	}
	return out
}

// tryQuantity patches the existing claim with a quantity.
func tryQuantity(ctx context.Context, s *framework.Server, path []string, text string,
	opts ...client.PatchOption) error {
	spec := map[string]any{}
	if err := unstructured.SetNestedField(spec, text, path...); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	return framework.Suite.Kube.Patch(ctx, s.Claim.DeepCopy(), client.RawPatch(types.MergePatchType, patch), opts...)
}

// tryNewQuantity creates a claim with a different name and a quantity.
func tryNewQuantity(ctx context.Context, s *framework.Server, path []string, text string,
	opts ...client.CreateOption) error {
	claim := framework.NewObject(s.Claim.GetAPIVersion(), s.Claim.GetKind(), s.Namespace, "endless")
	claim.Object["spec"] = (&unstructured.Unstructured{Object: s.Spec}).DeepCopy().Object
	if err := unstructured.SetNestedField(claim.Object, text, append([]string{"spec"}, path...)...); err != nil {
		return err
	}
	return framework.Suite.Kube.Create(ctx, claim, opts...)
}

// refusesQuantity checks that the API server refuses the quantity and names the field.
func refusesQuantity(t *testing.T, s *framework.Server, path []string, text string) {
	t.Helper()
	for way, err := range map[string]error{"create": tryNewQuantity(t.Context(), s, path, text),
		"patch": tryQuantity(t.Context(), s, path, text)} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), path[0]) {
			t.Fatalf("%s %s with %s: %.40q must be refused, got %v", way, s.Claim.GetKind(), strings.Join(path, "."), text, err)
		}
	}
}

// systemsAreUnmoved checks that no pod of Crossplane or the product was OOM-killed.
func systemsAreUnmoved(t *testing.T) {
	t.Helper()
	for _, ns := range systems() {
		pods := &corev1.PodList{}
		if err := framework.Suite.Kube.List(t.Context(), pods, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) == 0 {
			t.Errorf("nothing runs in %s", ns)
		}
		for i := range pods.Items {
			if reason := outOfMemory(&pods.Items[i]); reason != "" {
				t.Error(reason)
			}
		}
	}
}

func outOfMemory(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if state.Terminated != nil && state.Terminated.Reason == "OOMKilled" {
				return fmt.Sprintf("container %s of pod %s/%s was killed for its memory", c.Name, p.Namespace, p.Name)
			}
		}
	}
	return ""
}
