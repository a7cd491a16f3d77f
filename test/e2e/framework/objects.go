package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewNamespace creates a namespace and deletes it after the test.
func NewNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	if err := Suite.Kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(Suite.Kube.Delete(context.Background(), ns)); err != nil {
			t.Errorf("cannot remove namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// Make creates an object and deletes it after the test.
func Make(t *testing.T, o client.Object) {
	t.Helper()
	if err := Suite.Kube.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(Suite.Kube.Delete(context.WithoutCancel(t.Context()), o)); err != nil {
			t.Error(err)
		}
	})
}

// ReadObjects returns the objects in a YAML file, in the given namespace.
func ReadObjects(t *testing.T, file, namespace string) []*unstructured.Unstructured {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Repository(), filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := d.Decode(u)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("cannot read %s: %v", file, err)
		}
		u.SetNamespace(namespace)
		all = append(all, u)
	}
}

// NewObject returns an object that has only a kind and a name.
func NewObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// HasCondition returns an error if the condition of the object is not True.
func HasCondition(ctx context.Context, u *unstructured.Unstructured, kind string) error {
	c, err := FindCondition(ctx, u, kind)
	if err != nil {
		return err
	}
	if c["status"] == "True" {
		return nil
	}
	return fmt.Errorf("%s %s: %s is %v: %v %v", u.GetKind(), u.GetName(), kind, c["status"], c["reason"], c["message"])
}

// FindCondition reads the current object, and returns its condition of the given type.
func FindCondition(ctx context.Context, u *unstructured.Unstructured, kind string) (map[string]any, error) {
	if err := Suite.Kube.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return nil, err
	}
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s %s has no condition %s", u.GetKind(), u.GetName(), kind)
}

// IsGone returns an error if the object still exists.
func IsGone(ctx context.Context, o client.Object) error {
	err := Suite.Kube.Get(ctx, client.ObjectKeyFromObject(o), o)
	if IsUnknown(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is still there", o.GetName())
}

// SystemNamespace is the controller's namespace.
const SystemNamespace = "crossplane-mysql-system"

// IsUnknown reports whether the object does not exist or the API server does not serve its kind.
func IsUnknown(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// NewList returns an empty list of a kind, which is specified as apiVersion/Kind.
func NewList(kind string) *unstructured.UnstructuredList {
	slash := strings.LastIndex(kind, "/")
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(kind[:slash])
	list.SetKind(kind[slash+1:] + "List")
	return list
}
