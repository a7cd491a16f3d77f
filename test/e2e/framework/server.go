package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Server is a claim and its MySQL server. The namespace also contains a pod from which the tests connect to the
// server.
type Server struct {
	// Namespace and Name are the namespace and the name of the claim. Database is the name of its database.
	Namespace, Name, Database string
	// User and Password are the credentials for queries.
	User, Password string

	// Spec is the spec with which Create creates the claim.
	Spec map[string]any
	// Claim is the claim as the test last created or changed it.
	Claim *unstructured.Unstructured

	// BackupPVCDeleted reports whether the test has deleted the backup PVC.
	BackupPVCDeleted bool
}

// NewServer returns a server in a new namespace, but does not create its claim. The claim is equal to
// examples/original-claim, except for the Composition.
func NewServer(t *testing.T, composition string) *Server {
	t.Helper()
	return NewServerIn(t, NewNamespace(t), composition)
}

// NewServerIn returns a server in a namespace that has no other server.
func NewServerIn(t *testing.T, ns, composition string) *Server {
	t.Helper()
	enforceSecurity(t, ns, securityOf(t, composition))
	claim := ReadObjects(t, "examples/original-claim/claim.yaml", ns)[0]
	s := &Server{Namespace: ns, Name: claim.GetName(), User: "root", Claim: claim}
	s.Spec, _, _ = unstructured.NestedMap(claim.Object, "spec")
	s.Spec["compositionRef"] = map[string]any{"name": composition}
	s.Database, _, _ = unstructured.NestedString(s.Spec, "database")
	s.Password, _, _ = unstructured.NestedString(s.Spec, "password")
	t.Cleanup(func() { s.Discard(t) })
	t.Cleanup(func() { documentedEventsOnly(t, ns) })
	StartToolbox(t, ns, "client", "")
	return s
}

// NewNamespacedServer returns a server of the namespaced API in a new namespace. Its Claim is the composite resource,
// and its password is generated.
func NewNamespacedServer(t *testing.T) *Server {
	t.Helper()
	ns := NewNamespace(t)
	enforceSecurity(t, ns, restricted)
	s := &Server{Namespace: ns, Name: "shop", Database: "shop", User: "root",
		Claim: NewObject("crossplane-mysql.io/v1alpha1", "MySQL", ns, "shop"),
		Spec:  map[string]any{"image": "mysql:9.7", "database": "shop", "storageSize": "1Gi"}}
	t.Cleanup(func() { s.Discard(t) })
	t.Cleanup(func() { documentedEventsOnly(t, ns) })
	StartToolbox(t, ns, "client", "")
	return s
}

// Neighbour returns another server with the same spec in the same namespace.
func (s *Server) Neighbour(t *testing.T, name string) *Server {
	t.Helper()
	n := *s
	n.Name, n.Spec = name, runtime.DeepCopyJSON(s.Spec)
	n.Claim = NewObject(s.Claim.GetAPIVersion(), s.Claim.GetKind(), s.Namespace, name)
	t.Cleanup(func() { n.Discard(t) })
	return &n
}

// Client returns a client of the server.
func (s *Server) Client() Client { return Client{s} }

// Backups gives access to the BackupRecords and archives of the claim, including those of previous instances.
func (s *Server) Backups() Backups { return Backups{s} }

// Pods returns the pods of the claim's server and Jobs.
func (s *Server) Pods() Pods { return Pods{s} }

// Create creates the claim.
func (s *Server) Create(t *testing.T) {
	t.Helper()
	s.Claim = NewObject(s.Claim.GetAPIVersion(), s.Claim.GetKind(), s.Namespace, s.Name)
	s.Claim.Object["spec"] = s.Spec
	s.Claim = s.Claim.DeepCopy()
	if err := Suite.Kube.Create(t.Context(), s.Claim); err != nil {
		t.Fatal(err)
	}
}

// Set sets fields in the claim's spec, and ends the test if that fails.
func (s *Server) Set(t *testing.T, fields map[string]any) {
	t.Helper()
	if err := s.TrySet(t.Context(), fields); err != nil {
		t.Fatal(err)
	}
}

// TrySet sets fields in the claim's spec, and returns the API server's error.
func (s *Server) TrySet(ctx context.Context, fields map[string]any) error {
	eventual := s.Claim.DeepCopy()
	patch := client.MergeFrom(s.Claim.DeepCopy())
	for k, v := range fields {
		if err := unstructured.SetNestedField(eventual.Object, v, "spec", k); err != nil {
			return err
		}
	}
	if err := Suite.Kube.Patch(ctx, eventual, patch); err != nil {
		return err
	}
	s.Claim = eventual
	return nil
}

// Annotate sets an annotation on the claim.
func (s *Server) Annotate(t *testing.T, key, value string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := Suite.Kube.Patch(t.Context(), s.Claim.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
}

// Message returns the message in the claim's status. If the claim cannot be read, it returns the error.
func (s *Server) Message(ctx context.Context) string {
	claim := s.Claim.DeepCopy()
	if err := Suite.Kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return err.Error()
	}
	message, _, _ := unstructured.NestedString(claim.Object, "status", "message")
	return message
}

// Eventually waits until the check succeeds. If it never succeeds, the test's failure includes the message in the
// claim's status.
func (s *Server) Eventually(t *testing.T, subject string, check func(context.Context) error) {
	t.Helper()
	if err := within(t.Context(), pause, check); err != nil {
		t.Fatalf("%s: %v; the claim says %s", subject, err, s.Message(context.WithoutCancel(t.Context())))
	}
}

// BecomesReady waits until the claim is Ready, and stores the claim in Claim.
func (s *Server) BecomesReady(t *testing.T) {
	t.Helper()
	s.Eventually(t, "the claim", func(ctx context.Context) error { return HasCondition(ctx, s.Claim, "Ready") })
}

// Says waits until the message in the claim's status contains the text.
func (s *Server) Says(t *testing.T, text string) {
	t.Helper()
	Eventually(t, "the message", func(ctx context.Context) error {
		if got := s.Message(ctx); !strings.Contains(got, text) {
			return fmt.Errorf("want %q in it, got %q", text, got)
		}
		return nil
	})
}

// Refuses waits until the claim's condition Accepted is not True and its message contains the text.
func (s *Server) Refuses(t *testing.T, text string) {
	t.Helper()
	Eventually(t, "the refusal", func(ctx context.Context) error {
		claim := s.Claim.DeepCopy()
		err := HasCondition(ctx, claim, "Accepted")
		if err == nil {
			return errors.New("it is accepted")
		}
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("want %q in it: %w", text, err)
		}
		return nil
	})
}

// IsHeld checks that the claim has no server, and has never had one.
func (s *Server) IsHeld(t *testing.T) {
	t.Helper()
	d := &appsv1.Deployment{}
	err := Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, d)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err == nil && (d.Spec.Replicas == nil || *d.Spec.Replicas != 0) {
		t.Errorf("want no server, its Deployment has %v replicas", d.Spec.Replicas)
	}
	if p, err := s.Pods().FindServer(t.Context()); err == nil {
		t.Errorf("want no server, pod %s runs", p.Name)
	}
	if _, err := s.Client().FindSecret(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("want no connection Secret before there is a server, got %v", err)
	}
}

// XR returns the composite resource of the claim.
func (s *Server) XR(ctx context.Context) (*unstructured.Unstructured, error) {
	claim := s.Claim.DeepCopy()
	if err := Suite.Kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return nil, err
	}
	if claim.GetAPIVersion() == "crossplane-mysql.io/v1alpha1" {
		return claim, nil // The namespaced API has no claims.
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "resourceRef", "name")
	xr := NewObject(claim.GetAPIVersion(), "XMySQL", "", name)
	return xr, Suite.Kube.Get(ctx, client.ObjectKeyFromObject(xr), xr)
}

// DataPVC returns the name of the PVC of the data.
func (s *Server) DataPVC() string { return s.volumesName() + "-pvc" }

// BackupPVC returns the name of the PVC of the backups.
func (s *Server) BackupPVC() string { return "backup-" + s.volumesName() + "-pvc" }

// VolumeOf returns the volume that is bound to a PVC, or nil. It searches all volumes, because the PVC may already be
// deleted.
func (s *Server) VolumeOf(ctx context.Context, pvc string) (*corev1.PersistentVolume, error) {
	var all corev1.PersistentVolumeList
	if err := Suite.Kube.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if ref := all.Items[i].Spec.ClaimRef; ref != nil && ref.Namespace == s.Namespace && ref.Name == pvc {
			return &all.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // There is no such volume, which is no error.
}

// MustFindDataVolume returns the data volume, and ends the test if there is none.
func (s *Server) MustFindDataVolume(t *testing.T) *corev1.PersistentVolume {
	t.Helper()
	v, err := s.VolumeOf(t.Context(), s.DataPVC())
	if err != nil || v == nil {
		t.Fatalf("cannot find the data volume: %v", err)
	}
	return v
}

// Rows selects the rows of the table that the example session creates.
const Rows = "SELECT id, name FROM test ORDER BY id"

// Begin creates the claim, runs the example session, and returns the rows in its table.
func (s *Server) Begin(t *testing.T) string {
	t.Helper()
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	return s.Client().MustQuery(t, Rows)
}

// StartDelete deletes the claim, but does not wait for the deletion.
func (s *Server) StartDelete(t *testing.T) {
	t.Helper()
	if err := Suite.Kube.Delete(t.Context(), s.Claim); err != nil {
		t.Fatal(err)
	}
}

// Delete deletes the claim, and waits until the claim and its objects no longer exist.
func (s *Server) Delete(t *testing.T) {
	t.Helper()
	s.StartDelete(t)
	s.Gone(t)
}

// ClaimGone waits until the claim no longer exists. Its objects may still exist.
func (s *Server) ClaimGone(t *testing.T) {
	t.Helper()
	s.Eventually(t, "the claim's end", func(ctx context.Context) error { return IsGone(ctx, s.Claim) })
}

// Gone waits until the claim, its Deployment, its data PVC and its Service no longer exist.
func (s *Server) Gone(t *testing.T) {
	t.Helper()
	s.ClaimGone(t)
	for _, o := range []*unstructured.Unstructured{
		NewObject("apps/v1", "Deployment", s.Namespace, s.Name),
		NewObject("v1", "PersistentVolumeClaim", s.Namespace, s.DataPVC()),
		NewObject("v1", "Service", s.Namespace, s.Name),
	} {
		Eventually(t, "its "+o.GetKind(), func(ctx context.Context) error { return IsGone(ctx, o) })
	}
}

// Discard deletes a claim and its data without a backup. Every test uses it to clean up.
func (s *Server) Discard(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()
	if t.Failed() {
		s.Dump(ctx, t)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":"Discard"}}`))
	if err := client.IgnoreNotFound(Suite.Kube.Patch(ctx, s.Claim, patch)); err != nil {
		t.Errorf("cannot discard the data: %v", err)
	}
	if err := client.IgnoreNotFound(Suite.Kube.Delete(ctx, s.Claim)); err != nil {
		t.Errorf("cannot delete the claim: %v", err)
	}
	if err := Poll(ctx, func() error { return IsGone(ctx, s.Claim) }); err != nil {
		t.Errorf("%v: %s", err, s.Message(ctx))
	}
}

// volumesName returns the part that both PVC names have in common. For a MySQL without a claim, it has a suffix,
// because a claim with the same name may exist in the namespace.
func (s *Server) volumesName() string {
	if s.Claim.GetAPIVersion() == "crossplane-mysql.io/v1alpha1" {
		return s.Name + ".mysql"
	}
	return s.Name
}
