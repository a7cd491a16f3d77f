package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// query the server as a client of its Service would. The password goes in by a file, never on a command line.
func (s *server) query(ctx context.Context, password, statement string) (string, error) {
	return in(ctx, s.namespace, "client", s.options(password), "mysql", "--defaults-file=/dev/stdin", "--connect-timeout=2",
		"--batch", "--skip-column-names", "--execute="+statement, s.database)
}

// options of the client: which server, and who asks it.
func (s *server) options(password string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	return fmt.Sprintf("[client]\nhost=%s\nuser=%s\npassword=\"%s\"\n", s.name, s.user, quoted)
}

// mustQuery a server that runs. On a busy machine a connection may take more than one try; a statement is sent once.
func (s *server) mustQuery(t *testing.T, statement string) string {
	t.Helper()
	var out string
	var refused error
	eventuallyWith(t, pauseInAPod, "a connection", func(ctx context.Context) error {
		var err error
		if out, err = s.query(ctx, s.password, statement); err == nil || !notConnected(err) {
			refused = err
			return nil
		}
		return err
	})
	if refused != nil {
		t.Fatal(refused)
	}
	return out
}

// notConnected is true for an error of a client that found no server, or whose Service has no pod yet, before it could
// say anything.
func notConnected(err error) bool {
	for _, sign := range []string{"ERROR 2002", "ERROR 2003", "ERROR 2005", "initial communication packet"} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return strings.Contains(err.Error(), "ERROR 2013") && strings.Contains(err.Error(), "reading ")
}

// hasEndpoint is a complaint as long as no connection to the Service can reach a server, whatever that would answer: to
// ask it then would cost a program in a pod each time.
func (s *server) hasEndpoint(ctx context.Context) error {
	l := &discoveryv1.EndpointSliceList{}
	if err := suite.kube.List(ctx, l, client.InNamespace(s.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.name}); err != nil {
		return err
	}
	for _, slice := range l.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Serving == nil || *e.Conditions.Serving {
				return nil
			}
		}
	}
	return fmt.Errorf("no server is behind Service %s", s.name)
}

// firstAnswer waits until the server answers at all. Whatever it answers then must be right: nobody may see a server
// that is not restored yet.
func (s *server) firstAnswer(t *testing.T, statement string) string {
	t.Helper()
	var out string
	var wrong error
	eventually(t, "the server", func(ctx context.Context) error {
		err := s.hasEndpoint(ctx)
		if err != nil {
			return fmt.Errorf("%w; the claim says %s", err, s.message(ctx))
		}
		out, err = s.query(ctx, s.password, statement)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w; the claim says %s", err, s.message(context.WithoutCancel(ctx)))
		}
		if notConnected(err) || strings.Contains(err.Error(), "ERROR 2013") {
			return fmt.Errorf("%w; the claim says %s", err, s.message(ctx))
		}
		wrong = err
		return nil
	})
	if wrong != nil {
		t.Fatalf("the first answer is an error: %v", wrong)
	}
	return out
}

func (s *server) version(t *testing.T) {
	t.Helper()
	if got := s.firstAnswer(t, "SELECT VERSION()"); !strings.HasPrefix(got, "9.7.") && suite.own != nil {
		t.Errorf("want MySQL 9.7, got %q", got)
	}
	eventually(t, "the claim", func(ctx context.Context) error { return condition(ctx, s.claim, "Ready") })
}

// begin with the session, and return the rows that it leaves.
func (s *server) begin(t *testing.T) string {
	t.Helper()
	s.create(t)
	s.version(t)
	s.session(t)
	return s.mustQuery(t, rows)
}

// session types what the original operators' users typed.
func (s *server) session(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository(), "examples", "original-claim", "session.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.mustQuery(t, string(b)); got != "1\tsome data\n2\tsome data-2\n" {
		t.Errorf("want two rows, got %q", got)
	}
}

// changePassword in the claim, and see that the running server takes the new one and, in the end, only that.
func (s *server) changePassword(t *testing.T, password string) {
	t.Helper()
	s.set(t, map[string]any{"password": password})
	eventuallyWith(t, pauseInAPod, "the new password", func(ctx context.Context) error {
		_, err := s.query(ctx, password, "SELECT 1")
		return err
	})
	s.refused(t, s.password)
	s.password = password
}

// refused is the password, in the end.
func (s *server) refused(t *testing.T, password string) {
	t.Helper()
	eventuallyWith(t, pauseInAPod, "the old password's end", func(ctx context.Context) error {
		_, err := s.query(ctx, password, "SELECT 1")
		if err == nil {
			return errors.New("it is still accepted")
		}
		if !strings.Contains(err.Error(), "ERROR 1045") {
			return err
		}
		return nil
	})
}
