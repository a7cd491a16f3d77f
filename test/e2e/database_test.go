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
)

// TestRow14Database is the second API: a server behind a port of every node, both gone with the resource.
func TestRow14Database(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"Refused": typeRefused, "MongoStored": storageRefused, "Mongo": mongoDatabase, "MySQL": mysqlDatabase, "MySQLStored": mysqlStored,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// typeRefused: what has no type, or an unknown one, is an error that lists them.
func typeRefused(t *testing.T) {
	t.Helper()
	ns := namespace(t)
	for _, spec := range []map[string]any{{}, {"type": "oracle"}} {
		claim := object("zalando.org/v1", "Database", ns, "db")
		claim.Object["spec"] = spec
		err := suite.kube.Create(t.Context(), claim)
		if err == nil || !strings.Contains(err.Error(), "mongo") || !strings.Contains(err.Error(), "mysql") {
			t.Errorf("want an error for spec %v that lists the types, got %v", spec, err)
		}
	}
}

// storageRefused: nobody has proved that a backup of MongoDB comes back, so there is none to ask for.
func storageRefused(t *testing.T) {
	t.Helper()
	claim := object("zalando.org/v1", "Database", namespace(t), "db")
	claim.Object["spec"] = map[string]any{"type": "mongo", "storageSize": "64Mi"}
	if err := suite.kube.Create(t.Context(), claim); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "leave storageSize out") {
		t.Errorf("want an error that says to leave storageSize out, got %v", err)
	}
}

// newDatabase is an example's claim, with fields of its spec over it, in a namespace with a pod for its clients.
func newDatabase(t *testing.T, example string, fields map[string]any) *server {
	t.Helper()
	ns := namespace(t)
	claim := objects(t, "examples/"+example+"/claim.yaml", ns)[0]
	s := &server{namespace: ns, name: claim.GetName(), claim: claim, password: "my_passwd"}
	s.spec, _, _ = unstructured.NestedMap(claim.Object, "spec")
	maps.Copy(s.spec, fields)
	t.Cleanup(func() { s.letGo(t) })
	pod(t, ns, "client", "")
	return s
}

// letGo of a Database: one without a volume has nothing that could be discarded.
func (s *server) letGo(t *testing.T) {
	t.Helper()
	if _, stored := s.spec["storageSize"]; stored {
		s.discard(t)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if t.Failed() {
		s.dump(ctx, t)
	}
	if err := client.IgnoreNotFound(suite.kube.Delete(ctx, s.claim)); err != nil {
		t.Errorf("cannot delete the claim: %v", err)
	}
	if err := poll(ctx, func() error { return gone(ctx, s.claim) }); err != nil {
		t.Error(err)
	}
}

// ready waits until the claim is, and returns a node and its port.
func (s *server) ready(t *testing.T) (host string, port int64) {
	t.Helper()
	eventually(t, "the claim", func(ctx context.Context) error {
		if err := condition(ctx, s.claim, "Ready"); err != nil {
			return fmt.Errorf("%w: %s", err, s.message(ctx))
		}
		return nil
	})
	port, _, err := unstructured.NestedInt64(s.claim.Object, "status", "endpoint", "nodePort")
	if err != nil || port == 0 {
		t.Fatalf("the status has no node port: %v, %v", s.claim.Object["status"], err)
	}
	if text := s.message(t.Context()); !strings.Contains(text, fmt.Sprintf("port %d of every node", port)) {
		t.Errorf("the message does not name the port %d: %q", port, text)
	}
	return anyNode(t), port
}

// anyNode is the address of the last node: a port of every node is open there too, wherever the server runs.
func anyNode(t *testing.T) string {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := suite.kube.List(t.Context(), nodes); err != nil || len(nodes.Items) == 0 {
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
	s.create(t)
	host, port := s.ready(t)
	c := s.mongo(t, host, port)
	c.insert(t, "ephemeral")
	c.want(t, "ephemeral")
	if out, err := kubectl(t.Context(), "get", "db,dbs", "--namespace", s.namespace, "--output", "name"); err != nil || !strings.Contains(out, s.name) {
		t.Errorf("the short names show %q, %v", out, err)
	}
	s.sameNameRefused(t)
	c.want(t, "ephemeral")
	c.leave(t)
	s.delete(t)
	s.proven(t, 0)
}

// sameNameRefused: a MySQL of the same name would take the Database's Deployment over. It waits, and goes again
// without a trace.
func (s *server) sameNameRefused(t *testing.T) {
	t.Helper()
	other := &server{namespace: s.namespace, name: s.name, claim: object("otus.homework/v1", "MySQL", s.namespace, s.name)}
	other.spec = map[string]any{"database": "shop", "password": "secret", "storageSize": "64Mi"}
	other.create(t)
	eventually(t, "the refusal", func(ctx context.Context) error {
		if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(other.claim), other.claim); err != nil {
			return err
		}
		if text := fmt.Sprint(other.claim.Object["status"]); !strings.Contains(text, "does not belong to this MySQL") {
			return fmt.Errorf("the claim says %s", text)
		}
		return nil
	})
	if err := suite.kube.Delete(t.Context(), other.claim); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the MySQL's end", func(ctx context.Context) error { return gone(ctx, other.claim) })
}

// throughPort asks a MySQL at a node's port.
func (s *server) throughPort(ctx context.Context, host string, port int64, password, statement string) (string, error) {
	options := fmt.Sprintf("[client]\nhost=%s\nport=%d\nuser=root\npassword=%q\n", host, port, password)
	return in(ctx, s.namespace, "client", options, "mysql", "--defaults-file=/dev/stdin", "--connect-timeout=5",
		"--batch", "--skip-column-names", "--execute="+statement)
}

func mysqlDatabase(t *testing.T) {
	t.Helper()
	s := newDatabase(t, "database-mysql", nil)
	s.create(t)
	host, port := s.ready(t)
	out, err := s.throughPort(t.Context(), host, port, s.password, "CREATE DATABASE shop; CREATE TABLE shop.t (a INT); INSERT INTO shop.t VALUES (42); SELECT a FROM shop.t")
	if err != nil || out != "42\n" {
		t.Errorf("want 42 through port %d, got %q, %v", port, out, err)
	}
	s.delete(t)
	s.proven(t, 0)
	eventually(t, "its Secrets", func(ctx context.Context) error {
		left := &corev1.SecretList{}
		if err := suite.kube.List(ctx, left, client.InNamespace(s.namespace)); err != nil || len(left.Items) == 0 {
			return err
		}
		return fmt.Errorf("%s is still there", left.Items[0].Name)
	})
}

func mysqlStored(t *testing.T) {
	t.Helper()
	const password = "better than my_passwd"
	s := newDatabase(t, "database-mysql", map[string]any{
		"storageSize": "1Gi", "passwordSecretRef": map[string]any{"name": "password", "key": "root"},
	})
	secret := object("v1", "Secret", s.namespace, "password")
	secret.Object["stringData"] = map[string]any{"root": password}
	if err := suite.kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.create(t)
	host, port := s.ready(t)
	if _, err := s.throughPort(t.Context(), host, port, password, "CREATE DATABASE shop; CREATE TABLE shop.t (a INT); INSERT INTO shop.t VALUES (42)"); err != nil {
		t.Fatal(err)
	}
	s.delete(t)
	s.proven(t, 1)
	s.create(t)
	host, port = s.ready(t)
	if out, err := s.throughPort(t.Context(), host, port, password, "SELECT a FROM shop.t"); err != nil || out != "42\n" {
		t.Errorf("want 42 through port %d, got %q, %v", port, out, err)
	}
}
