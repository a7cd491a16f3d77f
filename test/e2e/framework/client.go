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
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/portforward"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Client runs SQL statements on a server from a pod in the same namespace. Like any user, it uses only the server's
// Service and an account.
type Client struct{ server *Server }

// Query runs a statement through the server's Service. It passes the password through standard input, so that the
// password does not appear on a command line.
func (c Client) Query(ctx context.Context, password, statement string) (string, error) {
	return Exec(ctx, c.server.Namespace, "client", c.options(password), "mysql", "--defaults-file=/dev/stdin",
		"--connect-timeout=2",
		"--batch", "--skip-column-names", "--execute="+statement, c.server.Database)
}

// MustQuery runs a statement, and ends the test if the statement fails. It retries the connection, which may fail on
// a busy machine, but sends the statement only once.
func (c Client) MustQuery(t *testing.T, statement string) string {
	t.Helper()
	var out string
	err := OnceConnected(t, func(ctx context.Context) (err error) {
		out, err = c.Query(ctx, c.server.Password, statement)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// OnceConnected calls ask until the client can connect to the server, and returns the result of the last call.
func OnceConnected(t *testing.T, ask func(context.Context) error) error {
	t.Helper()
	var refused error
	eventuallyWith(t, pauseInAPod, "a connection", func(ctx context.Context) error {
		err := ask(ctx)
		if err != nil && notConnected(err) {
			return err
		}
		refused = err
		return nil
	})
	return refused
}

// notConnected reports whether the client failed before the server could process a statement. For example, the
// Service may have no pod, or a kubelet that has just started may not list the pod yet.
func notConnected(err error) bool {
	for _, sign := range []string{"ERROR 2002", "ERROR 2003", "ERROR 2005", "ERROR 2026", "initial communication packet",
		"sending authentication information", "pod does not exist"} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return strings.Contains(err.Error(), "ERROR 2013") && strings.Contains(err.Error(), "reading ")
}

// FirstAnswer waits for the server's first response, and ends the test if it is an error. A client must never see a
// server that is not completely restored.
func (c Client) FirstAnswer(t *testing.T, statement string) string {
	t.Helper()
	var out string
	var wrong error
	c.server.Eventually(t, "the server", func(ctx context.Context) error {
		err := c.hasEndpoint(ctx)
		if err != nil {
			return err
		}
		out, err = c.Query(ctx, c.server.Password, statement)
		if err != nil && (ctx.Err() != nil || notConnected(err) || strings.Contains(err.Error(), "ERROR 2013")) {
			return err
		}
		wrong = err
		return nil
	})
	if wrong != nil {
		t.Fatalf("the first answer is an error: %v", wrong)
	}
	return out
}

// SeesRows checks that the rows of the test's table are equal to want in the server's first response.
func (c Client) SeesRows(t *testing.T, want string) {
	t.Helper()
	if got := c.FirstAnswer(t, Rows); got != want {
		t.Errorf("want every row\n%s\ngot\n%s", want, got)
	}
}

// SeesVersion checks the MySQL version in the server's first response, and waits until the claim is Ready.
func (c Client) SeesVersion(t *testing.T) {
	t.Helper()
	if got := c.FirstAnswer(t, "SELECT VERSION()"); !strings.HasPrefix(got, "9.7.") && Suite.Own != nil {
		t.Errorf("want MySQL 9.7, got %q", got)
	}
	c.server.BecomesReady(t)
}

// TypeSession runs the SQL statements from examples/original-claim, which create a table with two rows.
func (c Client) TypeSession(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Repository(), "examples", "original-claim", "session.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.MustQuery(t, string(b)); got != "1\tsome data\n2\tsome data-2\n" {
		t.Errorf("want two rows, got %q", got)
	}
}

// ChangePassword changes the password in the claim. It waits until the running server accepts the new password and
// refuses the old one.
func (c Client) ChangePassword(t *testing.T, password string) {
	t.Helper()
	c.server.Set(t, map[string]any{"password": password})
	eventuallyWith(t, pauseInAPod, "the new password", func(ctx context.Context) error {
		_, err := c.Query(ctx, password, "SELECT 1")
		return err
	})
	c.Refused(t, c.server.Password)
	c.server.Password = password
}

// Refused waits until the server refuses the password.
func (c Client) Refused(t *testing.T, password string) {
	t.Helper()
	eventuallyWith(t, pauseInAPod, "the old password's end", func(ctx context.Context) error {
		_, err := c.Query(ctx, password, "SELECT 1")
		if err == nil {
			return errors.New("it is still accepted")
		}
		if !strings.Contains(err.Error(), "ERROR 1045") {
			return err
		}
		return nil
	})
}

// LogIn writes the password to a file in the client's pod, and returns a mysql command that uses this file. The
// command reads statements from its standard input.
func (c Client) LogIn(ctx context.Context, options ...string) ([]string, error) {
	file := "/tmp/" + c.server.Name + "-" + c.server.User + ".cnf"
	if _, err := Exec(ctx, c.server.Namespace, "client", c.options(c.server.Password), "sh", "-c", `umask 77; cat >"$0"`,
		file); err != nil {
		return nil, err
	}
	return append([]string{"mysql", "--defaults-file=" + file, "--connect-timeout=2", "--default-character-set=utf8mb4"},
		append(options, c.server.Database)...), nil
}

// RunScript runs any number of statements in one session and returns their output.
func (c Client) RunScript(t *testing.T, statements string) string {
	t.Helper()
	client, err := c.LogIn(t.Context(), "--batch", "--raw", "--skip-column-names")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = OnceConnected(t, func(ctx context.Context) error {
		out.Reset()
		return ExecStream(ctx, c.server.Namespace, "client", strings.NewReader(statements), &out, client...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Forward forwards a local port to the server, and returns its address.
func (c Client) Forward(t *testing.T) string {
	t.Helper()
	return forward(t, c.server.Pods().MustFindServer(t), 3306)
}

// forward forwards a local port to a port of a pod, and returns its address.
func forward(t *testing.T, p *corev1.Pod, port int) string {
	t.Helper()
	target := Suite.Typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).
		SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(target, Suite.Config)
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)},
		t.Context().Done(), ready, io.Discard, io.Discard)
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

// FindSecret returns the connection Secret, from which clients read how to connect.
func (c Client) FindSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := Suite.Kube.Get(ctx, client.ObjectKey{Namespace: c.server.Namespace, Name: c.server.Name + "-connection"},
		secret)
	return secret, err
}

// Connects waits until the connection Secret contains the password and the server accepts it.
func (c Client) Connects(t *testing.T, password string) {
	t.Helper()
	Eventually(t, "the connection Secret", func(ctx context.Context) error {
		secret, err := c.FindSecret(ctx)
		if err != nil {
			return err
		}
		if string(secret.Data["password"]) != password {
			return errors.New("it has another password")
		}
		return nil
	})
	Eventually(t, "a login", func(ctx context.Context) error {
		_, err := c.Query(ctx, password, "SELECT 1")
		return err
	})
	c.server.Password = password
}

// options returns an option file for the mysql client, with the host, the user and the password.
func (c Client) options(password string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	return fmt.Sprintf("[client]\nhost=%s\nuser=%s\npassword=\"%s\"\n", c.server.Name, c.server.User, quoted)
}

// hasEndpoint returns an error if the Service has no serving endpoint. A caller can wait for this before it runs the
// client with an expensive exec into its pod.
func (c Client) hasEndpoint(ctx context.Context) error {
	l := &discoveryv1.EndpointSliceList{}
	if err := Suite.Kube.List(ctx, l, client.InNamespace(c.server.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: c.server.Name}); err != nil {
		return err
	}
	for _, slice := range l.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Serving == nil || *e.Conditions.Serving {
				return nil
			}
		}
	}
	return fmt.Errorf("no server is behind Service %s", c.server.Name)
}
