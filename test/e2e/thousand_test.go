//go:build bench

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

const (
	// many claims that nobody touches.
	many = 1000
	// original is a real claim, with a real server, that they are copies of. No other text has its name in it.
	original = "original-of-many"
)

// TestThousand measures the controller with 1,000 instances at rest. What it reads is there for each of them: claim,
// XR, volume and its claim, Service. There is one server for all, which each Service leads to, and no
// Deployments; Crossplane is stopped meanwhile, or it would make a thousand. It leaves the cluster unfit for other tests.
func TestThousand(t *testing.T) {
	if framework.Suite.Own == nil && os.Getenv("SPOIL") == "" {
		t.Skip("it spoils the cluster, and this one is somebody else's: with SPOIL=1 it does")
	}
	o := prototype(t)
	scale(t, "crossplane-system", "crossplane", 0)
	before := atRest(t)
	o.copies(t)
	must(t, "the controller", o.done)
	after := atRest(t)
	fmt.Printf("\n%-28s %14s %24s\n", "the controller at rest", "resident MiB", "CPU seconds in a minute")
	fmt.Printf("%-28s %14.0f %24.2f\n", "one claim", before.memory/(1<<20), before.cpu)
	fmt.Printf("%-28s %14.0f %24.2f\n", fmt.Sprintf("%d more", many), after.memory/(1<<20), after.cpu)
	fmt.Printf("%-28s %14s\n", "target", "< 100")
	fmt.Println("(one server answers for all of them; no pods, and Crossplane is stopped)")
}

// instanceObjects are the objects of an instance that the controller reads.
type instanceObjects struct {
	namespace string
	claim, xr *unstructured.Unstructured
	pvc, pv   *unstructured.Unstructured
	service   *corev1.Service
}

// prototype is one real instance at rest.
func prototype(t *testing.T) *instanceObjects {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-many-"}}
	if err := framework.Suite.Kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	o := &instanceObjects{namespace: ns.Name, claim: framework.ReadObjects(t, "examples/original-claim/claim.yaml", ns.Name)[0]}
	o.claim.SetName(original)
	if err := framework.Suite.Kube.Create(t.Context(), o.claim); err != nil {
		t.Fatal(err)
	}
	s := &framework.Server{Namespace: ns.Name, Name: original, Claim: o.claim}
	framework.Eventually(t, "the claim", func(ctx context.Context) error { return framework.HasCondition(ctx, o.claim, "Ready") })
	waitUntilSettled(t, s)
	o.read(t)
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: original}, Provisioner: "example.org/nobody", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
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

// copies of the prototype, a few at a time.
func (o *instanceObjects) copies(t *testing.T) {
	t.Helper()
	var wait sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	numbers := make(chan int)
	for range 8 {
		wait.Go(func() {
			for n := range numbers {
				err := o.copy(t.Context(), fmt.Sprintf("idle-%04d", n))
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for n := range many {
		numbers <- n
	}
	close(numbers)
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// copy under another name. The XR is first: the others name its UID.
func (o *instanceObjects) copy(ctx context.Context, name string) error {
	names := strings.NewReplacer(o.xr.GetName(), "xr-"+name, o.pv.GetName(), "pv-"+name, original, name)
	xr, err := renamed(o.xr, names)
	if err != nil {
		return err
	}
	status := xr.Object["status"]
	if err := framework.Suite.Kube.Create(ctx, xr); err != nil {
		return err
	}
	xr.Object["status"] = status
	if err := framework.Suite.Kube.Status().Update(ctx, xr); err != nil {
		return err
	}
	names = strings.NewReplacer(string(o.xr.GetUID()), string(xr.GetUID()), o.xr.GetName(), "xr-"+name, o.pv.GetName(), "pv-"+name, original, name)
	all := []client.Object{&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: name},
		Spec:       corev1.ServiceSpec{Selector: o.service.Spec.Selector, Ports: []corev1.ServicePort{{Port: 3306}}},
	}}
	for _, u := range []*unstructured.Unstructured{o.pv, o.pvc, o.claim} {
		c, err := renamed(u, names)
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

// renamed copy of an object, without what the API server adds to it, and on volumes of a class that nobody provides.
func renamed(u *unstructured.Unstructured, names *strings.Replacer) (*unstructured.Unstructured, error) {
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
			if !strings.HasPrefix(key, "otus.homework/") {
				delete(annotations, key)
			}
		}
		c.SetAnnotations(annotations)
		return c, unstructured.SetNestedField(c.Object, original, "spec", "storageClassName")
	}
	return c, nil
}

// done once each copy has its backup volume's claim, and a password that the controller has seen to.
func (o *instanceObjects) done(ctx context.Context) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := framework.Suite.Kube.List(ctx, claims, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	if len(claims.Items) < 2*(many+1) {
		return fmt.Errorf("%d of %d volume claims are there", len(claims.Items), 2*(many+1))
	}
	secrets := &corev1.SecretList{}
	if err := framework.Suite.Kube.List(ctx, secrets, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	connections := 0
	for i := range secrets.Items {
		if strings.HasSuffix(secrets.Items[i].Name, "-connection") {
			connections++
		}
	}
	if connections <= many {
		return fmt.Errorf("%d of %d connection Secrets are there", connections, many+1)
	}
	return nil
}

// must be so in the end: a thousand takes longer than one.
func must(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*framework.Patience)
	defer cancel()
	if err := framework.Poll(ctx, func() error { return check(ctx) }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// A load is what a process holds, and what it uses in a minute.
type load struct{ memory, cpu float64 }

// atRest measures the controller for a minute, once it has had nothing to do for ten seconds.
func atRest(t *testing.T) load {
	t.Helper()
	last, metrics, token := -1.0, framework.MetricsOf(t), framework.TokenWith(t, framework.NewNamespace(t), framework.MetricsRole)
	must(t, "the controller's rest", func(ctx context.Context) error {
		now, err := metrics.Value(ctx, token, "process_cpu_seconds_total")
		if err != nil {
			return err
		}
		used := now - last
		last = now
		if used > 0.2 {
			time.Sleep(10 * time.Second)
			return fmt.Errorf("it used %.2f s of CPU in 10 s", used)
		}
		return nil
	})
	before, err := metrics.Value(t.Context(), token, "process_cpu_seconds_total")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	after, err := metrics.Value(t.Context(), token, "process_cpu_seconds_total")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := metrics.Value(t.Context(), token, "process_resident_memory_bytes")
	if err != nil {
		t.Fatal(err)
	}
	return load{memory: memory, cpu: after - before}
}
