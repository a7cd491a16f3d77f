//go:build providersql

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestProviderSQL checks that provider-sql can create the objects in docs/how-to/users-and-databases.md with the
// unchanged connection Secret. It must still work after root's password was changed, and a restore must contain the
// users and databases.
func TestProviderSQL(t *testing.T) {
	s := framework.NewServer(t, framework.ClassComposition)
	startProviderSQL(t)
	s.Create(t)
	s.Client().SeesVersion(t)
	claim := s.Claim.DeepCopy()
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(claim.Object, "status", "binding", "name"); name != s.Name+"-connection" {
		t.Errorf("the claim is bound to by Secret %q", name)
	}
	file := appliesProviderSQL(t, s)

	shop := *s
	shop.User, shop.Database, shop.Password = "shop", "orders", passwordOfUser(t, s.Namespace, "orders-of-shop")
	s.Client().MustQuery(t, "CREATE TABLE orders.a (id INT PRIMARY KEY)")
	shop.Client().MustQuery(t, "INSERT INTO a VALUES (1)")
	if out, err := shop.Client().Query(t.Context(), shop.Password, "DROP TABLE a"); err == nil ||
		!strings.Contains(err.Error(), "DROP command denied") {
		t.Errorf("it may do more than it was granted: %v, %s", err, out)
	}

	s.Client().ChangePassword(t, "another-of-root")
	s.Spec["password"] = "another-of-root" // The next instance uses this password, too.
	framework.MustKubectl(t, "patch", "--namespace", s.Namespace, "grant.mysql.sql.m.crossplane.io/shop-on-orders",
		"--type=merge",
		"--patch", `{"spec":{"forProvider":{"privileges":["SELECT","INSERT","UPDATE","DELETE","DROP"]}}}`)
	framework.Eventually(t, "a grant with root's other password", func(ctx context.Context) error {
		_, err := shop.Client().Query(ctx, shop.Password, "DROP TABLE a")
		return err
	})

	s.Client().MustQuery(t, "CREATE TABLE orders.b (id INT PRIMARY KEY)")
	s.Delete(t)
	s.Create(t)
	s.Client().SeesVersion(t)
	shop.Client().MustQuery(t, "INSERT INTO b VALUES (1)")
	framework.MustKubectl(t, "delete", "--namespace", s.Namespace, "--filename", file, "--timeout=2m")
	if out := s.Client().MustQuery(t, "SELECT COUNT(*) FROM mysql.user WHERE user = 'shop'"); out != "0\n" {
		t.Errorf("there are %s accounts of it", strings.TrimSpace(out))
	}
}

// appliesProviderSQL applies the objects of docs/how-to/users-and-databases.md to the server, and returns the file.
func appliesProviderSQL(t *testing.T, s *framework.Server) string {
	t.Helper()
	file := filepath.Join(framework.Repository(), "docs/clients/provider-sql.yaml")
	framework.MustKubectl(t, "apply", "--namespace", s.Namespace, "--filename", file)
	framework.MustKubectl(t, "wait", "--namespace", s.Namespace, "--for=condition=Ready", "--timeout=2m",
		"user.mysql.sql.m.crossplane.io/shop", "grant.mysql.sql.m.crossplane.io/shop-on-orders")
	t.Cleanup(func() { // provider-sql must be running, because it deletes the objects.
		_, _ = framework.Kubectl(context.WithoutCancel(t.Context()), "delete", "--namespace", s.Namespace, "--filename", file,
			"--ignore-not-found", "--timeout=20s")
	})
	return file
}

func passwordOfUser(t *testing.T, namespace, name string) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name},
		secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["password"])
}

// startProviderSQL starts provider-sql in a pod that is deleted after the test.
func startProviderSQL(t *testing.T) {
	t.Helper()
	program := builds(t, "providersql", "github.com/crossplane-contrib/provider-sql", "package/crds")
	ns := framework.NewNamespace(t)
	framework.Make(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "provider-sql-of-a-test"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "default"}},
	})
	framework.StartPod(t, framework.ToolboxPod(ns, "provider-sql", ""))
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = framework.ExecStream(t.Context(), ns, "provider-sql", file, &strings.Builder{}, "sh", "-c",
		"cat >/tmp/provider && chmod +x /tmp/provider && (nohup /tmp/provider --poll=5s --debug >/tmp/log 2>&1 &)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := framework.Exec(context.WithoutCancel(t.Context()), ns, "provider-sql", "", "sh", "-c",
				"grep -v DEBUG /tmp/log | cut -c1-400 | tail -n 20; grep -o '\"error\": .[^\"]*' /tmp/log | sort | uniq -c")
			t.Logf("provider-sql: %v\n%s", err, out)
		}
	})
}
