package e2e

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// accessDenied is the server's number of a wrong password.
const accessDenied = 1045

// serverPod is the running pod of the server.
func (s *server) serverPod(ctx context.Context) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := suite.kube.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"app": s.name}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("none of %d pods runs", len(list.Items))
}

func (s *server) mustServerPod(t *testing.T) *corev1.Pod {
	t.Helper()
	p, err := s.serverPod(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// forward a port of this machine to the server, and return its address.
func (s *server) forward(t *testing.T) string {
	t.Helper()
	p := s.mustServerPod(t)
	to := suite.typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(to, suite.config)
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:3306"}, t.Context().Done(), ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- f.ForwardPorts() }()
	select {
	case err := <-ended:
		t.Fatalf("cannot forward to pod %s: %v", p.Name, err)
	case <-ready:
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
}

// dial a server and log in as root, with a driver that takes the password as it is.
func dial(ctx context.Context, address, password string) (driver.Conn, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.TLSConfig = "root", password, "tcp", address, "preferred"
	c.Timeout, c.ReadTimeout, c.WriteTimeout = patience, patience, patience
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

func login(ctx context.Context, address, password string) error {
	c, err := dial(ctx, address, password)
	if err != nil {
		return err
	}
	return c.Close()
}

// number of the server's error, 0 where it is another one's.
func number(err error) uint16 {
	if e := new(mysql.MySQLError); errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// connection Secret: what clients are told.
func (s *server) connection(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := suite.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name + "-connection"}, secret)
	return secret, err
}

// connects waits until the connection Secret has the password and the server takes it.
func (s *server) connects(t *testing.T, password string) {
	t.Helper()
	eventually(t, "the connection Secret", func(ctx context.Context) error {
		secret, err := s.connection(ctx)
		if err != nil {
			return err
		}
		if string(secret.Data["password"]) != password {
			return errors.New("it has another password")
		}
		return nil
	})
	eventually(t, "a login", func(ctx context.Context) error {
		_, err := s.query(ctx, password, "SELECT 1")
		return err
	})
	s.password = password
}

// uri of the connection Secret leads to the same password.
func (s *server) uri(t *testing.T, password string) {
	t.Helper()
	secret, err := s.connection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(secret.Data["uri"]))
	if err != nil {
		t.Fatalf("the connection Secret's uri cannot be read: %v", err)
	}
	if got, _ := u.User.Password(); got != password {
		t.Errorf("want the URI of password %q, it has %q", password, got)
	}
}
