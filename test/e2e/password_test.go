package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oddPasswords are what SQL, shells, option files, URIs and formats would change.
var oddPasswords = []string{
	`it's "quoted"`,
	`back\slash\\ \' end\`,
	"100%s %d %% %q",
	"semi;colon -- # /* no comment */",
	"$HOME `id` $(id) ${x}",
	" spaces at both ends ",
	"пароль-密码-😀", //nolint:gosmopolitan // That is what is tried.
	`{"json": ["a", 1]}`,
	"a=b&c=d?e#f@g:h/i+j",
	"'; DROP USER root; --",
}

// patch the claim's spec. A nil removes a field.
func (s *server) patch(t *testing.T, fields map[string]any) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"spec": fields})
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.kube.Patch(t.Context(), s.claim, client.RawPatch(types.MergePatchType, raw)); err != nil {
		t.Fatal(err)
	}
}

// xr of the claim.
func (s *server) xr(ctx context.Context) (*unstructured.Unstructured, error) {
	claim := s.claim.DeepCopy()
	if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return nil, err
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "resourceRef", "name")
	xr := object(claim.GetAPIVersion(), "XMySQL", "", name)
	return xr, suite.kube.Get(ctx, client.ObjectKeyFromObject(xr), xr)
}

// A visitor logs in twenty times a second, each time with the password that the connection Secret has at that moment.
type visitor struct {
	server  *server
	address string

	mu      sync.Mutex
	logins  map[string]int
	refused []error
}

const (
	// visits are this far apart.
	visits = 50 * time.Millisecond
	// settle is how long a client may take from reading the Secret to its login while one change follows another.
	settle = 5 * time.Second
)

// visit until the test is over, or the returned function is called, which waits for the last login.
func (v *visitor) visit(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) //nolint:gosec // Whoever called it calls that.
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(visits)
		defer tick.Stop()
		for ctx.Err() == nil {
			all.Go(func() { v.once(t.Context()) }) //nolint:contextcheck // A login that has begun comes to its end.
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

func (v *visitor) once(ctx context.Context) {
	start := time.Now()
	secret, err := v.server.connection(ctx)
	if err != nil {
		v.note("", fmt.Errorf("there is no connection Secret: %w", err))
		return
	}
	password := string(secret.Data["password"])
	err = login(ctx, v.address, password)
	switch {
	case err == nil:
		v.note(password, nil)
	case number(err) == accessDenied && time.Since(start) < settle:
		v.note(password, err)
	}
	// What else went wrong is the tunnel's fault, or that of a machine that took too long.
}

func (v *visitor) note(password string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		v.refused = append(v.refused, fmt.Errorf("with password %q: %w", password, err))
		return
	}
	v.logins[password]++
}

// came waits until a login with a password succeeded.
func (v *visitor) came(t *testing.T, password string) {
	t.Helper()
	eventually(t, "a login with "+password, func(context.Context) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.logins[password] == 0 {
			return fmt.Errorf("there was none; others: %v, refused: %v", v.logins, v.refused)
		}
		return nil
	})
}

// TestClientNeverFails: whoever reads the connection Secret and logs in is let in, at every moment of ten changes.
func TestClientNeverFails(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	s.create(t)
	s.version(t)
	s.connects(t, s.password)
	first := s.password
	v := &visitor{server: s, address: s.forward(t), logins: map[string]int{}}
	end := v.visit(t)
	for i, password := range oddPasswords {
		s.set(t, map[string]any{"password": password})
		if i == 3 {
			continue // The next one follows at once.
		}
		v.came(t, password)
		s.uri(t, password)
	}
	end()
	last := oddPasswords[len(oddPasswords)-1]
	if len(v.refused) > 0 {
		t.Errorf("want no login refused, got %v", v.refused)
	}
	t.Logf("logins: %v", v.logins)
	s.connects(t, last)
	for _, old := range []string{first, oddPasswords[3], oddPasswords[len(oddPasswords)-2]} {
		s.refused(t, old)
	}
}

// TestPasswordSources: by field, by Secret, while the server is down, and after a restore.
func TestPasswordSources(t *testing.T) {
	t.Parallel()
	repeats(t, "TestClientNeverFails has the field, TestPasswordSecretIsWrong the Secret, and TestCreateAgainDifferently another one than the backup's")
	s := newServer(t, classComposition)
	s.spec["password"], s.password = oddPasswords[0], oddPasswords[0]
	before := s.begin(t)
	s.set(t, map[string]any{"password": "by field"})
	s.connects(t, "by field")

	secret := s.secret(t, "mine", map[string]string{"root": "by Secret\n"})
	s.patch(t, map[string]any{"password": nil, "passwordSecretRef": map[string]any{"name": "mine", "key": "root"}})
	s.connects(t, "by Secret")
	s.fill(t, secret, map[string]string{"root": oddPasswords[1]})
	s.connects(t, oddPasswords[1])

	s.scaled(t, func() { s.fill(t, secret, map[string]string{"root": "while scaled down"}) })
	s.connects(t, "while scaled down")
	s.crash(t)
	s.fill(t, secret, map[string]string{"root": "after a crash"})
	s.connects(t, "after a crash")

	s.delete(t)
	s.spec["password"] = oddPasswords[2]
	s.create(t)
	s.connects(t, oddPasswords[2])
	if got := s.mustQuery(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.refused(t, "after a crash")
	s.set(t, map[string]any{"password": "after a restore"})
	s.connects(t, "after a restore")
}

// secret in the claim's namespace.
func (s *server) secret(t *testing.T, name string, data map[string]string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, StringData: data}
	if err := suite.kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// fill a Secret with something else.
func (s *server) fill(t *testing.T, secret *corev1.Secret, data map[string]string) {
	t.Helper()
	secret.Data, secret.StringData = nil, data
	if err := suite.kube.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// scaled to nothing is the server while something happens. Crossplane would start it again at once.
func (s *server) scaled(t *testing.T, meanwhile func()) {
	t.Helper()
	if err := s.pause(t.Context(), "true"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pause", func(ctx context.Context) error {
		xr, err := s.xr(ctx)
		if err != nil {
			return err
		}
		return paused(ctx, xr)
	})
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	if err := suite.kube.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its pod's end", func(ctx context.Context) error {
		if p, err := s.serverPod(ctx); err == nil {
			return fmt.Errorf("pod %s runs", p.Name)
		}
		return nil
	})
	meanwhile()
	s.credentials(t, "Changing", "Waiting for the server")
	last := time.Time{}
	eventually(t, "the end of the pause", func(ctx context.Context) error {
		if time.Since(last) > 5*time.Second { // Crossplane drops changes where there are many (its issue 7703).
			last = time.Now()
			if err := s.pause(ctx, "false"); err != nil {
				return err
			}
		}
		xr, err := s.xr(ctx)
		if err != nil {
			return err
		}
		return condition(ctx, xr, "Synced")
	})
}

// paused complains as long as Crossplane goes on with a claim or an XR.
func paused(ctx context.Context, u *unstructured.Unstructured) error {
	if err := condition(ctx, u, "Synced"); err == nil || !strings.Contains(err.Error(), "ReconcilePaused") {
		return fmt.Errorf("Crossplane goes on: %w", err)
	}
	return nil
}

func (s *server) pause(ctx context.Context, how string) error {
	xr, err := s.xr(ctx)
	if err != nil {
		return err
	}
	raw := fmt.Appendf(nil, `{"metadata":{"annotations":{"crossplane.io/paused":%q,"e2e/paused-at":%q}}}`, how, time.Now().Format(time.RFC3339Nano))
	return suite.kube.Patch(ctx, xr, client.RawPatch(types.MergePatchType, raw))
}

// credentials waits until the status says of the password what it should.
func (s *server) credentials(t *testing.T, state, text string) {
	t.Helper()
	eventually(t, "status.credentials", func(ctx context.Context) error {
		xr, err := s.xr(ctx)
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedStringMap(xr.Object, "status", "credentials")
		if got["state"] != state || !strings.Contains(got["message"], text) {
			return fmt.Errorf("want %s and %q, got %v", state, text, got)
		}
		return nil
	})
}

// crash the server: a signal of the kind that a fault in its code causes.
func (s *server) crash(t *testing.T) {
	t.Helper()
	p := s.mustServerPod(t)
	was := p.Status.ContainerStatuses[0].RestartCount
	if _, err := in(t.Context(), p.Namespace, p.Name, "", "bash", "-c", "kill -SEGV 1"); err != nil {
		t.Logf("the shell went with its server: %v", err)
	}
	eventually(t, "the crash", func(ctx context.Context) error {
		p, err := s.serverPod(ctx)
		if err != nil {
			return err
		}
		if p.Status.ContainerStatuses[0].RestartCount == was {
			return errors.New("it has not restarted")
		}
		return nil
	})
}
