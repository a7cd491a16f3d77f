package framework

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClassComposition puts data into volumes of a StorageClass.
const ClassComposition = "mysql"

// HostPathComposition is the one of the package with the name of a node, as a platform team with several nodes has it,
// and with more input if there is any.
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

// CopyOfComposition of the package with other input.
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

// readComposition with copies of its steps, and of them the input of the first.
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

// OnBoth Compositions, side by side.
func OnBoth(t *testing.T, run func(t *testing.T, composition string)) {
	t.Helper()
	OnEach(t, nil, run)
}

// Names of the tests on the two Compositions.
const (
	OnClass    = "StorageClass"
	OnHostPath = "HostPath"
)

// OnEach Composition a test runs. One that repeats the other runs where ALL is set, as Repeats says: where has the
// reason.
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
