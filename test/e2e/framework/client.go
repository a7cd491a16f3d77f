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

// A Client of a server has no more than its Service, its account and a pod.
type Client struct{ server *Server }

// Query the server as a client of its Service would. The password goes in by a file, never on a command line.
func (c Client) Query(ctx context.Context, password, statement string) (string, error) {
	return Exec(ctx, c.server.Namespace, "client", c.options(password), "mysql", "--defaults-file=/dev/stdin",
		"--connect-timeout=2",
		"--batch", "--skip-column-names", "--execute="+statement, c.server.Database)
}

// MustQuery a server that runs. On a busy machine a connection may take more than one try; a statement is sent once.
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

// OnceConnected asks until there is a connection, and returns what came of that.
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

// notConnected is true for an error of a client that found no server, or whose Service has no pod yet, before it could
// say anything; or that its kubelet, which has just begun, does not know yet.
func notConnected(err error) bool {
	for _, sign := range []string{"ERROR 2002", "ERROR 2003", "ERROR 2005", "ERROR 2026", "initial communication packet",
		"sending authentication information", "pod does not exist"} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return strings.Contains(err.Error(), "ERROR 2013") && strings.Contains(err.Error(), "reading ")
}

// FirstAnswer waits until the server answers at all. Whatever it answers then must be right: nobody may see a server
// that is not restored yet.
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

// SeesRows of the test's table in the server's first answer: these, and no others.
func (c Client) SeesRows(t *testing.T, want string) {
	t.Helper()
	if got := c.FirstAnswer(t, Rows); got != want {
		t.Errorf("want every row\n%s\ngot\n%s", want, got)
	}
}

// SeesVersion of the server, whose first answer it is, and waits until the claim is Ready.
func (c Client) SeesVersion(t *testing.T) {
	t.Helper()
	if got := c.FirstAnswer(t, "SELECT VERSION()"); !strings.HasPrefix(got, "9.7.") && Suite.Own != nil {
		t.Errorf("want MySQL 9.7, got %q", got)
	}
	c.server.BecomesReady(t)
}

// TypeSession types what the original operators' users typed.
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

// ChangePassword in the claim, and see that the running server takes the new one and, in the end, only that.
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

// Refused is the password, in the end.
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

// LogIn leaves the password in a file of the client's pod, and returns the command that uses it. What is typed there
// comes by standard input.
func (c Client) LogIn(ctx context.Context, options ...string) ([]string, error) {
	file := "/tmp/" + c.server.Name + "-" + c.server.User + ".cnf"
	if _, err := Exec(ctx, c.server.Namespace, "client", c.options(c.server.Password), "sh", "-c", `umask 77; cat >"$0"`,
		file); err != nil {
		return nil, err
	}
	return append([]string{"mysql", "--defaults-file=" + file, "--connect-timeout=2", "--default-character-set=utf8mb4"},
		append(options, c.server.Database)...), nil
}

// RunScript runs statements, however many.
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

// Forward a port of this machine to the server, and return its address.
func (c Client) Forward(t *testing.T) string {
	t.Helper()
	return forward(t, c.server.Pods().MustFindServer(t), 3306)
}

// forward a port of this machine to one of a pod, and return its address.
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

// FindSecret that clients are told: the connection Secret.
func (c Client) FindSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := Suite.Kube.Get(ctx, client.ObjectKey{Namespace: c.server.Namespace, Name: c.server.Name + "-connection"},
		secret)
	return secret, err
}

// Connects waits until the connection Secret has the password and the server takes it.
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

// options of the client: which server, and who asks it.
func (c Client) options(password string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	return fmt.Sprintf("[client]\nhost=%s\nuser=%s\npassword=\"%s\"\n", c.server.Name, c.server.User, quoted)
}

// hasEndpoint is a complaint as long as no connection to the Service can reach a server, whatever that would answer: to
// ask it then would cost a program in a pod each time.
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
