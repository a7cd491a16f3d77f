package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestFirstStart uses a password with quotes and other special characters, which an official image cannot set
// correctly. It also kills the initialization at three moments. At the end, root must be able to log in with this
// password, and without any other.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRealKilledAtEachMoment kills one, and TestRealInitialize has passwords that an "+
		"entrypoint breaks on")
	for name, kills := range map[string][]time.Duration{
		"Whole":  nil,
		"Killed": {0, time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := framework.NewServer(t, framework.ClassComposition)
			s.Password = "it's \"no\" `$HOME`; -- # %s\\"
			s.Spec["password"] = s.Password
			s.Create(t)
			struck := 0
			for _, after := range kills {
				if killFirstStart(t, s, after) {
					struck++
				}
			}
			if len(kills) > 0 && struck == 0 {
				t.Errorf("want a kill in the midst of a first start, none of %d was", len(kills))
			}
			if got := s.Client().FirstAnswer(t, "SHOW DATABASES LIKE 'otus-database'"); got != s.Database+"\n" {
				t.Errorf("want the database, got %q", got)
			}
			opensByPasswordOnly(t, s)
		})
	}
}

// killFirstStart deletes the server's pod some time after its init container has started. It reports whether that
// container was still running.
func killFirstStart(t *testing.T, s *framework.Server, after time.Duration) bool {
	t.Helper()
	p := s.Pods().WaitFor(t, "server", func(p *corev1.Pod) bool {
		return p.DeletionTimestamp == nil && beganToInitialize(p)
	})
	time.Sleep(after)
	if err := client.IgnoreNotFound(framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(p), p)); err != nil {
		t.Fatal(err)
	}
	atWork := initializing(p).Running != nil
	if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(t.Context(), p,
		client.GracePeriodSeconds(0))); err != nil {
		t.Fatal(err)
	}
	return atWork
}

// beganToInitialize reports whether the init container is running or has already run.
func beganToInitialize(p *corev1.Pod) bool {
	c := initializing(p)
	return c.Running != nil || c.Terminated != nil
}

// initializing returns the state of the init container.
func initializing(p *corev1.Pod) corev1.ContainerState {
	for _, c := range p.Status.InitContainerStatuses {
		if c.Name == "initialize" {
			return c.State
		}
	}
	return corev1.ContainerState{}
}

// opensByPasswordOnly checks that root cannot log in without a password, either over TCP or through the socket in the
// container.
func opensByPasswordOnly(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "an answer", func(ctx context.Context) error {
		out, err := s.Client().Query(ctx, "", "SELECT 1")
		return refused(out, err)
	})
	p := s.Pods().MustFindServer(t)
	framework.Eventually(t, "an answer on the socket", func(ctx context.Context) error {
		out, err := framework.Exec(ctx, s.Namespace, p.Name, "", "mysql", "--no-defaults", "--user=root",
			"--socket=/var/run/mysqld/mysqld.sock", "--execute=SELECT 1")
		return refused(out, err)
	})
}

func refused(out string, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("root is let in without a password: %s", out)
	case !strings.Contains(err.Error(), "ERROR 1045"):
		return errors.Join(errors.New("want ERROR 1045"), err)
	}
	return nil
}
