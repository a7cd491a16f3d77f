package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestWithoutClaim checks that a MySQL without a claim is backed up and restored. This must also work after a
// foreground deletion, as by Argo CD, in which the server is deleted before any finalizer is processed. Users of the
// namespace must not be able to write the fields that protect the data.
func TestWithoutClaim(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespacedServer(t)
	s.Create(t)
	s.Password = publishedPassword(t, s)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	rows := s.Client().MustQuery(t, framework.Rows)
	tenantIsRefused(t, s)

	if err := framework.Suite.Kube.Delete(t.Context(), s.Claim,
		client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.Gone(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	s.Password = publishedPassword(t, s)
	s.Client().SeesRows(t, rows)
}

// TestForegroundWithoutFinalizer checks a foreground deletion of a MySQL without a claim that has lost the controller's
// finalizer, or never had it. The MySQL then waits for its data PVC, which only the controller can release.
func TestForegroundWithoutFinalizer(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestForegroundDeletionBeforeProtection has the step, and TestWithoutClaim deletes in the foreground")
	s := framework.NewNamespacedServer(t)
	s.Create(t)
	s.Password = publishedPassword(t, s)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	rows := s.Client().MustQuery(t, framework.Rows)
	if err := framework.Suite.Kube.Delete(t.Context(), s.Claim,
		client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the removal of the controller's finalizer", func(ctx context.Context) error {
		xr := s.Claim.DeepCopy()
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(xr), xr); err != nil {
			return err
		}
		from := client.MergeFromWithOptions(xr.DeepCopy(), client.MergeFromWithOptimisticLock{})
		if !controllerutil.RemoveFinalizer(xr, "crossplane-mysql.io/protect-data") {
			return nil
		}
		return framework.Suite.Kube.Patch(ctx, xr, from)
	})
	s.Gone(t) // Nothing holds the MySQL any more, so its backup may not be verified yet. The next one waits for it.
	s.Create(t)
	s.Password = publishedPassword(t, s)
	s.Client().SeesRows(t, rows)
	s.Backups().AreVerified(t, 1)
}

// publishedPassword waits for the connection Secret and returns root's password.
func publishedPassword(t *testing.T, s *framework.Server) string {
	t.Helper()
	password := ""
	s.Eventually(t, "the connection Secret", func(ctx context.Context) error {
		secret := &corev1.Secret{}
		err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name + "-connection"}, secret)
		if password = string(secret.Data["password"]); err == nil && password == "" {
			err = fmt.Errorf("Secret %s has no password", secret.Name)
		}
		return err
	})
	return password
}

// TestMove moves an instance from a claim to a MySQL without a claim, and back, without losing a row. Both have the
// same name and spec, and name the other one in restore.from and restore.fromKind.
func TestMove(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWithoutClaim restores one, and TestDecide has backups of another instance")
	for _, name := range []string{"one", "two", "three"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := framework.NewServer(t, framework.ClassComposition)
			claim.Begin(t)
			claim.Client().MustQuery(t, fmt.Sprintf(oneRow, len(name)))
			rows := claim.Client().MustQuery(t, framework.Rows)
			claim.Delete(t)
			spec := map[string]any{"image": claim.Spec["image"], "database": claim.Database, "storageSize": "1Gi",
				"restore": map[string]any{"from": claim.Name, "fromKind": "MySQL"}}
			own := claim.Neighbour(t, claim.Name)
			own.Claim, own.Spec = framework.NewObject(apiVersionOwn, "MySQL", claim.Namespace, claim.Name), spec
			own.Create(t)
			own.Password = publishedPassword(t, own)
			own.Client().SeesRows(t, rows)
			own.Client().MustQuery(t, fmt.Sprintf(oneRow, 100))
			rows = own.Client().MustQuery(t, framework.Rows)
			own.Delete(t)
			claim.Spec["restore"] = map[string]any{"from": own.Name, "fromKind": "MySQL.crossplane-mysql.io"}
			claim.Create(t)
			claim.Client().SeesRows(t, rows)
		})
	}
}

const apiVersionOwn = "crossplane-mysql.io/v1alpha1"

// TestTenant checks that a user with the role edit or admin in a namespace cannot destroy the data of a MySQL without
// a claim. The user tries to change each status field, the finalizers, annotations and labels of all of the
// instance's objects, and Backups. Changes that are accepted must have no effect: no row is lost after the instance
// is deleted and recreated.
func TestTenant(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWithoutClaim tries what decides about the data")
	for _, role := range []string{"edit", "admin"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			s := framework.NewNamespacedServer(t)
			s.Create(t)
			s.Password = publishedPassword(t, s)
			s.Client().SeesVersion(t)
			s.Client().TypeSession(t)
			rows := s.Client().MustQuery(t, framework.Rows)
			request(t, s, "before", "Cold", "Verified")
			s.Client().FirstAnswer(t, framework.Rows)
			tenant := newTenant(t, s, clusterRole(role), clusterRole("crossplane-"+role))
			writesEachStatusField(t, s, tenant)
			marksEverything(t, s, tenant)
			forgesBackups(t, s, tenant)
			s.Client().SeesRows(t, rows)
			s.Delete(t)
			s.Backups().AreVerified(t, 2)
			s.Create(t)
			s.Password = publishedPassword(t, s)
			s.Client().SeesRows(t, rows)
		})
	}
}

// writesEachStatusField checks that writes to all status fields in the CRD are refused.
func writesEachStatusField(t *testing.T, s *framework.Server, tenant client.Client) {
	t.Helper()
	crd := framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "mysqlinstances.crossplane-mysql.io")
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	fields, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status",
		"properties")
	if err != nil || len(fields) < 5 {
		t.Fatalf("the CRD has the fields %v of a status, %v", fields, err)
	}
	for field := range fields {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{%q:null}}`, field))
		if err := tenant.Status().Patch(t.Context(), s.Claim.DeepCopy(), patch); !kerrors.IsForbidden(err) &&
			!kerrors.IsInvalid(err) {
			t.Errorf("want the status field %s to be refused, got %v", field, err)
		}
	}
}

// marksEverything sets the product's annotations and labels on the objects in the namespace, as a malicious user
// could. They must have no effect there.
func marksEverything(t *testing.T, s *framework.Server, tenant client.Client) {
	t.Helper()
	marks := map[string]string{}
	for _, key := range []string{"choice", "image", "backup-store", "backup-number", "namespace-uid", "claim-name", "version",
		"deletion-policy", "retained-volume", "without-outside-data", "leave-alone", "take-over", "restore", "skip-backup",
		"delete-archive", "nothing-to-lose", "instance", "xr"} {
		marks["crossplane-mysql.io/"+key] = "mine"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": marks, "labels": marks}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"apps/v1/Deployment", "v1/Service", "v1/Secret", "v1/PersistentVolumeClaim", "v1/ConfigMap",
		"crossplane-mysql.io/v1alpha1/MySQL", "crossplane-mysql.io/v1alpha1/Backup"} {
		objects, err := listKind(t.Context(), kind, s.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		for i := range objects {
			if objects[i].GetName() == "kube-root-ca.crt" {
				continue
			}
			err := tenant.Patch(t.Context(), objects[i].DeepCopy(), client.RawPatch("application/merge-patch+json", patch))
			t.Logf("%s %s: %v", kind, objects[i].GetName(), err)
			finalizers := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := tenant.Patch(t.Context(), objects[i].DeepCopy(), finalizers); err == nil && kind == "crossplane-mysql.io/v1alpha1/MySQL" {
				t.Errorf("want the finalizers of %s %s to stay", kind, objects[i].GetName())
			}
		}
	}
}

// forgesBackups creates Backups for missing instances and Backups with a status, and deletes an existing Backup.
func forgesBackups(t *testing.T, s *framework.Server, tenant client.Client) {
	t.Helper()
	forged := newBackup(s, "forged")
	forged.Object["spec"] = map[string]any{"instance": map[string]any{"kind": "MySQL", "name": "of-others"}}
	forged.Object["status"] = map[string]any{"record": "theirs", "origin": "Deletion", "conditions": []any{map[string]any{
		"type": "Complete", "status": "True", "reason": "Verified", "message": "",
		"lastTransitionTime": "2026-01-01T00:00:00Z"}}}
	if err := tenant.Create(t.Context(), forged.DeepCopy()); err != nil {
		t.Fatalf("a tenant cannot ask for a backup: %v", err)
	}
	if err := tenant.Status().Update(t.Context(), forged.DeepCopy()); err == nil {
		t.Error("want a tenant to be refused the status of a Backup")
	}
	s.Eventually(t, "what the forged Backup says", func(ctx context.Context) error {
		b := newBackup(s, "forged")
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if complete := completeOf(b); complete != "Waiting" {
			return fmt.Errorf("it is %q", complete)
		}
		return nil
	})
	before := newBackup(s, "before")
	if err := tenant.Delete(t.Context(), before); err != nil {
		t.Errorf("a tenant cannot delete a Backup: %v", err)
	}
	isSeen(t, s, "before")
}

// tenantIsRefused checks that a tenant with all permissions that a Role can grant cannot change the fields on which
// the data depends.
func tenantIsRefused(t *testing.T, s *framework.Server) {
	t.Helper()
	const name = "tenant"
	framework.Make(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}})
	tenant := newTenant(t, s, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name})
	patch := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	now := func() *unstructured.Unstructured { return s.Claim.DeepCopy() }
	for field, attack := range map[string]func() error{
		"status": func() error {
			return tenant.Status().Patch(t.Context(), now(), patch(`{"status":{"internal":{"started":false,"previousBackup":"None"}}}`))
		},
		"finalizers": func() error { return tenant.Patch(t.Context(), now(), patch(`{"metadata":{"finalizers":null}}`)) },
		"resourceRefs": func() error {
			return tenant.Patch(t.Context(), now(), patch(`{"spec":{"crossplane":{"resourceRefs":[]}}}`))
		},
	} {
		if err := attack(); err == nil {
			t.Errorf("want the tenant to be refused %s", field)
		}
	}
}

// clusterRole refers to a ClusterRole of Kubernetes or Crossplane. Both provide roles for users of a namespace.
// Crossplane's roles include the kinds of the XRDs.
func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

// newTenant returns a client for a user with the given roles in the server's namespace. It waits until the
// permissions are effective.
func newTenant(t *testing.T, s *framework.Server, roles ...rbacv1.RoleRef) client.Client {
	t.Helper()
	const name = "tenant"
	for _, role := range roles {
		framework.Make(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-" + role.Name},
			RoleRef:  role,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}})
	}
	config := rest.CopyConfig(framework.Suite.Config)
	config.Impersonate.UserName = name
	tenant, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the tenant's rights", func(ctx context.Context) error {
		return tenant.Patch(ctx, s.Claim.DeepCopy(), client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"example.org/note":"mine"}}}`)))
	})
	return tenant
}
