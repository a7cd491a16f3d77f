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
)

// systems are the namespaces of what reads claims and XRs.
func systems() []string { return []string{"crossplane-system", "crossplane-mysql-system"} }

// TestEndlessNumbers: who creates or patches a claim with a number that nobody could calculate with is refused, in
// every field that holds a quantity, of both kinds; and whoever reads claims goes on with everybody's.
func TestEndlessNumbers(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	before := s.begin(t)
	d := newDatabase(t, "database-mysql", map[string]any{"storageSize": "1Gi", "deletionPolicy": "Discard"})
	d.create(t)
	for _, of := range []*server{s, d} {
		for _, path := range of.quantities() {
			for _, good := range []string{"2Gi", "2e9"} {
				if err := of.tryQuantity(t.Context(), path, good, client.DryRunAll); err != nil {
					t.Fatalf("%s in %s: %v", good, strings.Join(path, "."), err)
				}
			}
			for _, text := range endless() {
				of.refusesQuantity(t, path, text)
			}
		}
	}
	s.unmoved(t)
	s.set(t, map[string]any{"storage_size": "2Gi"})
	s.grown(t, s.name+"-pvc")
	if got := s.mustQuery(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
}

// endless numbers, with exponents of every length that a quantity's text could have, and some longer.
func endless() []string {
	var out []string
	for _, digits := range []int{3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 28, 29, 30, 100, 10_000} {
		nines := strings.Repeat("9", digits)
		out = append(out, "1e-"+nines, "1e"+nines)
	}
	return append(out, " 1e-9999999", "12345678901234567890e9999999", strings.Repeat("9", 10_000))
}

// quantities of a claim's spec, by their paths.
func (s *server) quantities() [][]string {
	out := [][]string{{"storageSize"}, {"resources", "limits", "memory"}, {"resources", "requests", "memory"}}
	if _, legacy := s.spec["storage_size"]; legacy {
		out[0][0] = "storage_size"
	}
	return out
}

// tryQuantity in the claim that is there.
func (s *server) tryQuantity(ctx context.Context, path []string, text string, opts ...client.PatchOption) error {
	spec := map[string]any{}
	if err := unstructured.SetNestedField(spec, text, path...); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	return suite.kube.Patch(ctx, s.claim.DeepCopy(), client.RawPatch(types.MergePatchType, patch), opts...)
}

// tryNewQuantity in a claim of another name.
func (s *server) tryNewQuantity(ctx context.Context, path []string, text string, opts ...client.CreateOption) error {
	claim := object(s.claim.GetAPIVersion(), s.claim.GetKind(), s.namespace, "endless")
	claim.Object["spec"] = (&unstructured.Unstructured{Object: s.spec}).DeepCopy().Object
	if err := unstructured.SetNestedField(claim.Object, text, append([]string{"spec"}, path...)...); err != nil {
		return err
	}
	return suite.kube.Create(ctx, claim, opts...)
}

// refusesQuantity: the API server does, by the name of the field.
func (s *server) refusesQuantity(t *testing.T, path []string, text string) {
	t.Helper()
	for way, err := range map[string]error{"create": s.tryNewQuantity(t.Context(), path, text), "patch": s.tryQuantity(t.Context(), path, text)} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), path[0]) {
			t.Fatalf("%s %s with %s: %.40q must be refused, got %v", way, s.claim.GetKind(), strings.Join(path, "."), text, err)
		}
	}
}

// unmoved is what reads claims: nothing of it was killed for the memory that it took.
func (s *server) unmoved(t *testing.T) {
	t.Helper()
	for _, ns := range systems() {
		pods := &corev1.PodList{}
		if err := suite.kube.List(t.Context(), pods, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) == 0 {
			t.Errorf("nothing runs in %s", ns)
		}
		for i := range pods.Items {
			if why := outOfMemory(&pods.Items[i]); why != "" {
				t.Error(why)
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
