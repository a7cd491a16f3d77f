package framework

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClassComposition is the name of the Composition that stores data in volumes of a StorageClass.
const ClassComposition = "mysql"

// HostPathComposition creates a copy of the packaged hostPath Composition that specifies a node, as a platform team
// with several nodes would do. input contains further fields for the function.
func HostPathComposition(t *testing.T, input map[string]any) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := Suite.Kube.List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("cannot find a node: %v", err)
	}
	all := map[string]any{"hostPathNode": nodes.Items[0].Name}
	maps.Copy(all, input)
	return CopyOfComposition(t, "mysql-hostpath", all)
}

// CopyOfComposition creates a copy of a packaged Composition with changed input. It deletes the copy after the test.
func CopyOfComposition(t *testing.T, name string, input map[string]any) string {
	t.Helper()
	packaged, steps, given := readComposition(t, name)
	c := NewObject("apiextensions.crossplane.io/v1", "Composition", "", "")
	c.SetGenerateName("e2e-" + name + "-")
	c.Object["spec"] = packaged.Object["spec"]
	maps.Copy(given, input)
	if err := unstructured.SetNestedSlice(c.Object, steps, "spec", "pipeline"); err != nil {
		t.Fatal(err)
	}
	if err := Suite.Kube.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Suite.Kube.Delete(context.WithoutCancel(t.Context()), c); err != nil {
			t.Error(err)
		}
	})
	return c.GetName()
}

// readComposition returns a Composition, a copy of its pipeline steps, and the input of the first step.
func readComposition(t *testing.T, name string) (c *unstructured.Unstructured, steps []any, input map[string]any) {
	t.Helper()
	c = NewObject("apiextensions.crossplane.io/v1", "Composition", "", name)
	if err := Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	steps, _, err := unstructured.NestedSlice(c.Object, "spec", "pipeline")
	if err != nil {
		t.Fatal(err)
	}
	first, ok := steps[0].(map[string]any)
	input, isMap := first["input"].(map[string]any)
	if !ok || !isMap {
		t.Fatalf("Composition %s has no input in its first step", name)
	}
	return c, steps, input
}

// OnBoth runs a test with each of the two Compositions, in parallel.
func OnBoth(t *testing.T, run func(t *testing.T, composition string)) {
	t.Helper()
	OnEach(t, nil, run)
}

// Names of the subtests for the two Compositions.
const (
	OnClass    = "StorageClass"
	OnHostPath = "HostPath"
)

// OnEach runs a test with each Composition. A Composition in exceptions is skipped unless ALL is set (see Repeats).
// The value in exceptions is the reason.
func OnEach(t *testing.T, exceptions map[string]string, run func(t *testing.T, composition string)) {
	t.Helper()
	for name, composition := range map[string]func(*testing.T) string{
		OnClass:    func(*testing.T) string { return ClassComposition },
		OnHostPath: func(t *testing.T) string { t.Helper(); return HostPathComposition(t, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if reason := exceptions[name]; reason != "" {
				Repeats(t, reason)
			}
			run(t, composition(t))
		})
	}
}
