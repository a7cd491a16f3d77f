package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestRow14Database checks the second API, which exposes a server through a NodePort. When the Database is deleted,
// the server and the NodePort are deleted.
func TestRow14Database(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"Refused": typeRefused, "MongoStored": storageRefused, "Mongo": mongoDatabase, "MySQL": mysqlDatabase,
		"MySQLStored": mysqlStored,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// typeRefused checks that a missing or unknown type is refused with an error that lists the supported types.
func typeRefused(t *testing.T) {
	t.Helper()
	ns := framework.NewNamespace(t)
	for _, spec := range []map[string]any{{}, {"type": "oracle"}} {
		claim := framework.NewObject("zalando.org/v1", "Database", ns, "db")
		claim.Object["spec"] = spec
		err := framework.Suite.Kube.Create(t.Context(), claim)
		if err == nil || !strings.Contains(err.Error(), "mongo") || !strings.Contains(err.Error(), "mysql") {
			t.Errorf("want an error for spec %v that lists the types, got %v", spec, err)
		}
	}
}

// storageRefused checks that a MongoDB with storage is refused, because restoring a MongoDB backup is untested.
func storageRefused(t *testing.T) {
	t.Helper()
	claim := framework.NewObject("zalando.org/v1", "Database", framework.NewNamespace(t), "db")
	claim.Object["spec"] = map[string]any{"type": "mongo", "storageSize": "64Mi"}
	if err := framework.Suite.Kube.Create(t.Context(), claim); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "remove storageSize") {
		t.Errorf("want an error that says to remove storageSize, got %v", err)
	}
}

// newDatabase returns the claim of an example with some changed fields, in a new namespace with a client pod.
func newDatabase(t *testing.T, example string, fields map[string]any) *framework.Server {
	t.Helper()
	ns := framework.NewNamespace(t)
	claim := framework.ReadObjects(t, "examples/"+example+"/claim.yaml", ns)[0]
	s := &framework.Server{Namespace: ns, Name: claim.GetName(), Claim: claim}
	s.Spec, _, _ = unstructured.NestedMap(claim.Object, "spec")
	maps.Copy(s.Spec, fields)
	t.Cleanup(func() { discardDatabase(t, s) })
	framework.StartToolbox(t, ns, "client", "")
	return s
}

// discardDatabase deletes a Database after a test. If the Database has no volume, there is no data to discard.
func discardDatabase(t *testing.T, s *framework.Server) {
	t.Helper()
	if _, stored := s.Spec["storageSize"]; stored {
		s.Discard(t)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), framework.Patience)
	defer cancel()
	if t.Failed() {
		s.Dump(ctx, t)
	}
	if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(ctx, s.Claim)); err != nil {
		t.Errorf("cannot delete the claim: %v", err)
	}
	if err := framework.Poll(ctx, func() error { return framework.IsGone(ctx, s.Claim) }); err != nil {
		t.Error(err)
	}
}

// waitUntilReady waits until the claim is Ready, and returns the address of a node and the NodePort.
func waitUntilReady(t *testing.T, s *framework.Server) (host string, port int64) {
	t.Helper()
	s.BecomesReady(t)
	port, _, err := unstructured.NestedInt64(s.Claim.Object, "status", "endpoint", "nodePort")
	if err != nil || port == 0 {
		t.Fatalf("the status has no node port: %v, %v", s.Claim.Object["status"], err)
	}
	if text := s.Message(t.Context()); !strings.Contains(text, fmt.Sprintf("port %d of every node", port)) {
		t.Errorf("the message does not name the port %d: %q", port, text)
	}
	return anyNode(t), port
}

// anyNode returns the address of the last node. A NodePort is open on every node, regardless of the server's node.
func anyNode(t *testing.T) string {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := framework.Suite.Kube.List(t.Context(), nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("cannot find a node: %v", err)
	}
	for _, a := range nodes.Items[len(nodes.Items)-1].Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	t.Fatal("the node has no address")
	return ""
}

func mongoDatabase(t *testing.T) {
	t.Helper()
	s := newDatabase(t, "database-mongo", nil)
	s.Create(t)
	host, port := waitUntilReady(t, s)
	c := connectMongo(t, s, host, port)
	c.insert(t, "ephemeral")
	c.want(t, "ephemeral")
	if out, err := framework.Kubectl(t.Context(), "get", "db,dbs", "--namespace", s.Namespace, "--output",
		"name"); err != nil || !strings.Contains(out, s.Name) {
		t.Errorf("the short names show %q, %v", out, err)
	}
	sameNameRefused(t, s)
	c.want(t, "ephemeral")
	c.leave(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 0)
}

// sameNameRefused creates a MySQL with the name of the Database, which would take over the Deployment of the
// Database. The MySQL must wait, and its deletion must not affect the Database.
func sameNameRefused(t *testing.T, s *framework.Server) {
	t.Helper()
	other := &framework.Server{Namespace: s.Namespace, Name: s.Name,
		Claim: framework.NewObject("otus.homework/v1", "MySQL", s.Namespace, s.Name)}
	other.Spec = map[string]any{"database": "shop", "password": "secret", "storageSize": "64Mi"}
	other.Create(t)
	framework.Eventually(t, "the refusal", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(other.Claim), other.Claim); err != nil {
			return err
		}
		if text := fmt.Sprint(other.Claim.Object["status"]); !strings.Contains(text, "does not belong to this MySQL") {
			return fmt.Errorf("the claim says %s", text)
		}
		return nil
	})
	if err := framework.Suite.Kube.Delete(t.Context(), other.Claim); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the MySQL's end", func(ctx context.Context) error {
		return framework.IsGone(ctx, other.Claim)
	})
}

// throughPort runs a statement on a MySQL server through its NodePort.
func throughPort(t *testing.T, s *framework.Server, host string, port int64, password, statement string) (out string,
	err error) {
	t.Helper()
	options := fmt.Sprintf("[client]\nhost=%s\nport=%d\nuser=root\npassword=%q\n", host, port, password)
	// It takes a moment until the node forwards the port.
	err = framework.OnceConnected(t, func(ctx context.Context) (err error) {
		out, err = framework.Exec(ctx, s.Namespace, "client", options, "mysql", "--defaults-file=/dev/stdin",
			"--connect-timeout=5",
			"--batch", "--skip-column-names", "--execute="+statement)
		return err
	})
	return out, err
}

// generatedPassword returns the generated password in the connection Secret of a Database whose spec has no password.
func generatedPassword(t *testing.T, s *framework.Server) string {
	t.Helper()
	connection := &corev1.Secret{}
	if err := framework.Suite.Kube.Get(t.Context(),
		client.ObjectKey{Namespace: s.Namespace, Name: s.Name + ".database-connection"}, connection); err != nil {
		t.Fatal(err)
	}
	password := string(connection.Data["password"])
	if len(password) < 20 || password == "my_passwd" {
		t.Errorf("want a password that nobody knows, it has %d characters", len(password))
	}
	return password
}

func mysqlDatabase(t *testing.T) {
	t.Helper()
	s := newDatabase(t, "database-mysql", nil)
	s.Create(t)
	host, port := waitUntilReady(t, s)
	out, err := throughPort(t, s, host, port, generatedPassword(t, s),
		"CREATE DATABASE shop; CREATE TABLE shop.t (a INT); INSERT INTO shop.t VALUES (42); SELECT a FROM shop.t")
	if err != nil || out != "42\n" {
		t.Errorf("want 42 through port %d, got %q, %v", port, out, err)
	}
	s.Delete(t)
	s.Backups().AreVerified(t, 0)
	framework.Eventually(t, "its Secrets", func(ctx context.Context) error {
		left := &corev1.SecretList{}
		if err := framework.Suite.Kube.List(ctx, left, client.InNamespace(s.Namespace)); err != nil || len(left.Items) == 0 {
			return err
		}
		return fmt.Errorf("%s is still there", left.Items[0].Name)
	})
}

func mysqlStored(t *testing.T) {
	t.Helper()
	framework.Repeats(t, "MySQL has the port, and TestEverythingComesBack what is stored")
	const password = "better than my_passwd"
	s := newDatabase(t, "database-mysql", map[string]any{
		"storageSize": "1Gi", "passwordSecretRef": map[string]any{"name": "password", "key": "root"},
	})
	newPasswordSecret(t, s, "password", map[string]string{"root": password})
	s.Create(t)
	host, port := waitUntilReady(t, s)
	if _, err := throughPort(t, s, host, port, password,
		"CREATE DATABASE shop; CREATE TABLE shop.t (a INT); INSERT INTO shop.t VALUES (42)"); err != nil {
		t.Fatal(err)
	}
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	host, port = waitUntilReady(t, s)
	if out, err := throughPort(t, s, host, port, password, "SELECT a FROM shop.t"); err != nil || out != "42\n" {
		t.Errorf("want 42 through port %d, got %q, %v", port, out, err)
	}
}
