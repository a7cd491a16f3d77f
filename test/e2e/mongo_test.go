package e2e

import (
	"context"
	"net"
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A mongoClient uses MongoDB's Go driver through connections from a pod.
type mongoClient struct {
	*mongo.Collection

	client *mongo.Client
}

func connectMongo(t *testing.T, s *framework.Server, host string, port int64) *mongoClient {
	t.Helper()
	o := options.Client().ApplyURI("mongodb://" + net.JoinHostPort(host, strconv.FormatInt(port, 10)) +
		"/?directConnection=true").
		SetDialer(&podDialer{ctx: context.WithoutCancel(t.Context()), namespace: s.Namespace, pod: "client"}).
		SetServerSelectionTimeout(framework.Patience)
	c, err := mongo.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return &mongoClient{Collection: c.Database("shop").Collection("orders"), client: c}
}

// leave disconnects the client, because a server that is shutting down may wait for that.
func (c *mongoClient) leave(t *testing.T) {
	t.Helper()
	if err := c.client.Disconnect(t.Context()); err != nil {
		t.Errorf("cannot end the client: %v", err)
	}
}

// insert inserts a document with the given name into the collection.
func (c *mongoClient) insert(t *testing.T, name string) {
	t.Helper()
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "name", Value: name}, {Key: "price", Value: 42}}); err != nil {
		t.Fatalf("cannot write a document: %v", err)
	}
}

// want checks that the collection contains exactly one document, with the given name.
func (c *mongoClient) want(t *testing.T, name string) {
	t.Helper()
	cursor, err := c.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatalf("cannot read: %v", err)
	}
	var got []struct {
		Name  string `bson:"name"`
		Price int    `bson:"price"`
	}
	if err := cursor.All(t.Context(), &got); err != nil {
		t.Fatalf("cannot read: %v", err)
	}
	if len(got) != 1 || got[0].Name != name || got[0].Price != 42 {
		t.Errorf("want the document %q, got %v", name, got)
	}
}

// A podDialer opens connections from a pod, because this machine may not be able to reach the ports of the nodes.
type podDialer struct {
	ctx            context.Context //nolint:containedctx // A connection outlives the context in which it is dialed.
	namespace, pod string
}

// relay is a shell script. It runs in the pod, and connects its standard input and output to a TCP port.
const relay = `exec 3<>"/dev/tcp/$0/$1" || exit; cat <&3 & cat >&3; kill $!`

// DialContext opens a connection. If the server refuses it, the first use of the connection fails.
func (d *podDialer) DialContext(_ context.Context, _, address string) (net.Conn, error) { //nolint:contextcheck // The connection outlives the dial.
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	req := framework.Suite.Typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(d.namespace).Name(d.pod).
		SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"bash", "-c", relay, host, port}, Stdin: true, Stdout: true},
			scheme.ParameterCodec)
	exec, err := remotecommand.NewWebSocketExecutor(framework.Suite.Config, "GET", req.URL().String())
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(d.ctx)
	go func() {
		// Ignore the error, because the driver notices that the connection is closed.
		_ = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: far, Stdout: far})
		_ = far.Close()
	}()
	return &podConn{Conn: near, cancel: cancel}, nil
}

// A podConn is a connection that stops its relay in the pod when it is closed.
type podConn struct {
	net.Conn

	cancel context.CancelFunc
}

// Close closes the connection and stops its relay.
func (c *podConn) Close() error {
	defer c.cancel()
	return c.Conn.Close()
}
