package framework

import (
	"context"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AllowReuse adds a namespace to the platform's reusableNamespaces until the test ends.
func AllowReuse(t *testing.T, namespace string) {
	t.Helper()
	Allow(t, "reusableNamespaces", namespace)
}

// AllowServiceAnnotation allows claims to set an annotation on their Service, until the test ends or calls forbid.
func AllowServiceAnnotation(t *testing.T, key string) (forbid func()) {
	t.Helper()
	return Allow(t, "allowedServiceAnnotations", key)
}

// AllowBackupStore allows claims to use the named BackupStore until the test ends.
func AllowBackupStore(t *testing.T, name string) {
	t.Helper()
	Allow(t, "allowedBackupStores", name)
}

// Allow adds an entry to a list of the Platform, which all tests share. The entry is removed when the test ends or
// calls forbid.
func Allow(t *testing.T, list, entry string) (forbid func()) {
	t.Helper()
	changePlatform(t, list, func(entries []string) []string { return append(entries, entry) })
	forbid = sync.OnceFunc(func() {
		changePlatform(t, list, func(entries []string) []string {
			return slices.DeleteFunc(entries, func(e string) bool { return e == entry })
		})
	})
	t.Cleanup(forbid)
	return forbid
}

// SetPlatform sets a field of the Platform until the test ends. The value must not affect claims of other tests.
func SetPlatform(t *testing.T, field string, value any) {
	t.Helper()
	updatePlatform(t, func(spec map[string]any) error { spec[field] = value; return nil })
	t.Cleanup(func() { updatePlatform(t, func(spec map[string]any) error { delete(spec, field); return nil }) })
}

func changePlatform(t *testing.T, list string, change func([]string) []string) {
	t.Helper()
	updatePlatform(t, func(spec map[string]any) error {
		entries, _, err := unstructured.NestedStringSlice(spec, list)
		if err != nil {
			return err
		}
		return unstructured.SetNestedStringSlice(spec, change(entries), list)
	})
}

func updatePlatform(t *testing.T, change func(spec map[string]any) error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p := NewObject("crossplane-mysql.io/v1alpha1", "Platform", "", "crossplane-mysql")
		if err := Suite.Kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		spec, _, err := unstructured.NestedMap(p.Object, "spec")
		if err != nil {
			return err
		}
		if err := change(spec); err != nil {
			return err
		}
		p.Object["spec"] = spec
		return Suite.Kube.Update(ctx, p)
	})
	if err != nil {
		t.Error(err)
	}
}
