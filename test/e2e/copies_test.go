//go:build bench

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// original is the name of the real claim that is copied. In its objects, this text occurs only as the name, so that
// it can be replaced in each copy.
const original = "original-of-many"

// composedAs is the annotation of a composed resource that contains its name in the composition.
const composedAs = "crossplane.io/composition-resource-name"

// instanceObjects are the objects of a real instance that the controller reads. Benchmarks copy them, to simulate many
// instances with one server.
type instanceObjects struct {
	namespace string
	// If paused is true, Crossplane does not reconcile the copies.
	paused    bool
	claim, xr *unstructured.Unstructured
	pvc, pv   *unstructured.Unstructured
	service   *corev1.Service
}

// prototype creates the instance that is copied, and waits until it is idle.
func prototype(t *testing.T) *instanceObjects {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-many-"}}
	if err := framework.Suite.Kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	o := &instanceObjects{namespace: ns.Name,
		claim: framework.ReadObjects(t, "examples/original-claim/claim.yaml", ns.Name)[0]}
	o.claim.SetName(original)
	image, _, _ := unstructured.NestedString(o.claim.Object, "spec", "image")
	// All copies use the server of the original, but each copy has its own CA. The controller cannot verify the server,
	// so it must be allowed to connect without verification.
	framework.SetPlatform(t, "allowedPlaintextImages", []any{image})
	if err := framework.Suite.Kube.Create(t.Context(), o.claim); err != nil {
		t.Fatal(err)
	}
	s := &framework.Server{Namespace: ns.Name, Name: original, Claim: o.claim}
	framework.Eventually(t, "the claim", func(ctx context.Context) error {
		return framework.HasCondition(ctx, o.claim, "Ready")
	})
	waitUntilSettled(t, s)
	o.read(t)
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: original}, Provisioner: "example.org/nobody",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	if err := client.IgnoreAlreadyExists(framework.Suite.Kube.Create(t.Context(), class)); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *instanceObjects) read(t *testing.T) {
	t.Helper()
	xr, _, _ := unstructured.NestedString(o.claim.Object, "spec", "resourceRef", "name")
	o.xr = framework.NewObject("otus.homework/v1", "XMySQL", "", xr)
	o.pvc = framework.NewObject("v1", "PersistentVolumeClaim", o.namespace, original+"-pvc")
	o.service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: original}}
	for _, x := range []client.Object{o.xr, o.pvc, o.service} {
		if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(x), x); err != nil {
			t.Fatal(err)
		}
	}
	volume, _, _ := unstructured.NestedString(o.pvc.Object, "spec", "volumeName")
	o.pv = framework.NewObject("v1", "PersistentVolume", "", volume)
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(o.pv), o.pv); err != nil {
		t.Fatal(err)
	}
}

// copies creates copies of the instance's objects concurrently, and returns the names of the copied claims.
func (o *instanceObjects) copies(t *testing.T, many int) []string {
	t.Helper()
	names := make([]string, many)
	for n := range names {
		names[n] = fmt.Sprintf("idle-%04d", n)
	}
	atOnce(t, names, func(name string) error { return o.copy(t.Context(), name) })
	return names
}

// atOnce calls run for each name, with up to eight calls at the same time.
func atOnce(t *testing.T, names []string, run func(name string) error) {
	t.Helper()
	var wait sync.WaitGroup
	errs, next := make([]error, len(names)), make(chan int)
	for range 8 {
		wait.Go(func() {
			for n := range next {
				errs[n] = run(names[n])
			}
		})
	}
	for n := range names {
		next <- n
	}
	close(next)
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// copy creates a copy of the instance's objects with a different name. It creates the composite resource first, because
// the other objects contain its UID.
func (o *instanceObjects) copy(ctx context.Context, name string) error {
	names := strings.NewReplacer(o.xr.GetName(), "xr-"+name, o.pv.GetName(), "pv-"+name, original, name)
	xr, err := o.renamed(o.xr, names)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(xr.Object, "spec", "writeConnectionSecretToRef") // Crossplane sets this field.
	status, _ := xr.Object["status"].(map[string]any)
	if err := framework.Suite.Kube.Create(ctx, xr); err != nil {
		return err
	}
	remembered, _ := status["internal"].(map[string]any)
	// With a different UID, the controller would discard the status, including the permission to use an image without
	// TLS.
	remembered["uid"] = string(xr.GetUID())
	delete(status, "tls")
	delete(remembered, "authorities")
	delete(remembered, "credentials")
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if err := framework.Suite.Kube.Status().Patch(ctx, xr, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return err
	}
	names = strings.NewReplacer(string(o.xr.GetUID()), string(xr.GetUID()), o.xr.GetName(), "xr-"+name, o.pv.GetName(),
		"pv-"+name, original, name)
	all := []client.Object{&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: name,
			Annotations: map[string]string{composedAs: o.service.Annotations[composedAs]}},
		Spec: corev1.ServiceSpec{Selector: o.service.Spec.Selector, Ports: o.service.Spec.Ports},
	}}
	for _, u := range []*unstructured.Unstructured{o.pv, o.pvc, o.claim} {
		c, err := o.renamed(u, names)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	for _, x := range all {
		if err := framework.Suite.Kube.Create(ctx, x); err != nil {
			return fmt.Errorf("%s: %w", x.GetName(), err)
		}
	}
	return nil
}

// renamed returns a renamed copy of one of the instance's objects, without the fields that the API server sets. In a
// copy, the StorageClass has no provisioner.
func (o *instanceObjects) renamed(u *unstructured.Unstructured, names *strings.Replacer) (*unstructured.Unstructured,
	error) {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	c := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(names.Replace(string(raw))), &c.Object); err != nil {
		return nil, err
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(c.Object, "metadata", field)
	}
	if _, ok, _ := unstructured.NestedString(c.Object, "spec", "storageClassName"); ok {
		unstructured.RemoveNestedField(c.Object, "spec", "claimRef", "uid")
		unstructured.RemoveNestedField(c.Object, "spec", "claimRef", "resourceVersion")
		annotations := c.GetAnnotations()
		for key := range annotations {
			if !strings.HasPrefix(key, "crossplane-mysql.io/") && key != composedAs {
				delete(annotations, key)
			}
		}
		c.SetAnnotations(annotations)
		return c, unstructured.SetNestedField(c.Object, original, "spec", "storageClassName")
	}
	if o.paused {
		return c, unstructured.SetNestedField(c.Object, "true", "metadata", "annotations", "crossplane.io/paused")
	}
	return c, nil
}
