package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
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

// patchSpec of the claim. A nil removes a field.
func patchSpec(t *testing.T, s *framework.Server, fields map[string]any) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"spec": fields})
	if err != nil {
		t.Fatal(err)
	}
	if err := framework.Suite.Kube.Patch(t.Context(), s.Claim, client.RawPatch(types.MergePatchType, raw)); err != nil {
		t.Fatal(err)
	}
}

// A visitor logs in up to twenty times a second, each time with the password that the connection Secret has at that
// moment.
type visitor struct {
	server  *framework.Server
	address string

	mu      sync.Mutex
	logins  map[string]int
	refused []error
}

const (
	// visits are this far apart, and no more than guests are under way: on a machine that is busy they would take all
	// connections, and keep the controller out.
	visits = 50 * time.Millisecond
	guests = 10
	// settle is how long a client may take from reading the Secret to its login while one change follows another.
	settle = 5 * time.Second
	// grace is how long an old password goes on to work.
	grace = 2 * time.Minute
)

// visit a server twenty times a second until the test is over, or the returned function is called, which waits for the
// last login.
func visit(t *testing.T, once func(context.Context)) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) //nolint:gosec // Whoever called it calls that.
	room := make(chan struct{}, guests)
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(visits)
		defer tick.Stop()
		for ctx.Err() == nil {
			room <- struct{}{}
			all.Go(func() { once(t.Context()); <-room }) //nolint:contextcheck // A login that has begun comes to its end.
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
	secret, err := v.server.Client().FindSecret(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) {
			v.note("", fmt.Errorf("there is no connection Secret: %w", err))
		}
		return
	}
	password := string(secret.Data["password"])
	err = framework.Login(ctx, v.address, password)
	switch {
	case err == nil:
		v.note(password, nil)
	case framework.ErrorNumber(err) == framework.AccessDenied && time.Since(start) < settle:
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
	framework.Eventually(t, "a login with "+password, func(context.Context) error {
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
	s := framework.NewServer(t, framework.ClassComposition)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().Connects(t, s.Password)
	first := s.Password
	v := &visitor{server: s, address: s.Client().Forward(t), logins: map[string]int{}}
	end := visit(t, v.once)
	for i, password := range oddPasswords {
		s.Set(t, map[string]any{"password": password})
		if i == 3 {
			continue // The next one follows at once.
		}
		v.came(t, password)
		uriLogsIn(t, s, password)
	}
	end()
	last := oddPasswords[len(oddPasswords)-1]
	if len(v.refused) > 0 {
		t.Errorf("want no login refused, got %v", v.refused)
	}
	t.Logf("logins: %v", v.logins)
	s.Client().Connects(t, last)
	for _, old := range []string{first, oddPasswords[3], oddPasswords[len(oddPasswords)-2]} {
		s.Client().Refused(t, old)
	}
}

// TestPasswordSources: by field, by Secret, while the server is down, and after a restore.
func TestPasswordSources(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestClientNeverFails has the field, TestNotAllowedPassword the Secret, and TestRealRestored "+
		"another one than the backup's")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["password"], s.Password = oddPasswords[0], oddPasswords[0]
	before := s.Begin(t)
	s.Set(t, map[string]any{"password": "by field"})
	s.Client().Connects(t, "by field")

	secret := newPasswordSecret(t, s, "mine", map[string]string{"root": "by Secret\n"})
	patchSpec(t, s, map[string]any{"password": nil, "passwordSecretRef": map[string]any{"name": "mine", "key": "root"}})
	s.Client().Connects(t, "by Secret")
	fillSecret(t, secret, map[string]string{"root": oddPasswords[1]})
	s.Client().Connects(t, oddPasswords[1])

	whileScaledDown(t, s, func() { fillSecret(t, secret, map[string]string{"root": "while scaled down"}) })
	s.Client().Connects(t, "while scaled down")
	crashServer(t, s)
	fillSecret(t, secret, map[string]string{"root": "after a crash"})
	s.Client().Connects(t, "after a crash")

	s.Delete(t)
	s.Spec["password"] = oddPasswords[2]
	s.Create(t)
	s.Client().Connects(t, oddPasswords[2])
	if got := s.Client().MustQuery(t, framework.Rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.Client().Refused(t, "after a crash")
	s.Set(t, map[string]any{"password": "after a restore"})
	s.Client().Connects(t, "after a restore")
}

// TestPasswordNotAllowed: what the platform does not let a password be, or be read from, gets into no server; one that
// has it goes on with it.
func TestPasswordNotAllowed(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestNotAllowedPassword has each rule")
	framework.SetPlatform(t, "requirePasswordLabel", true)
	framework.SetPlatform(t, "minPasswordLength", int64(2)) // No other test has one of a single character.
	s := framework.NewServer(t, framework.ClassComposition)
	secret := newPasswordSecret(t, s, "mine", map[string]string{"root": "allowed"})
	label := func(value string) { secret.Labels[passwordLabel] = value; fillSecret(t, secret, nil) }
	label("no")
	delete(s.Spec, "password")
	s.Spec["passwordSecretRef"] = map[string]any{"name": "mine", "key": "root"}
	s.Create(t)
	s.Refuses(t, `key "root" of Secret `+s.Namespace+
		"/mine: the platform requires the label crossplane-mysql.io/password=true")
	s.IsHeld(t)
	label("true")
	s.Client().Connects(t, "allowed")

	fillSecret(t, secret, map[string]string{"root": "x"})
	hasCredentials(t, s, "Failed", "Use at least 2 characters")
	s.Client().Connects(t, "allowed")
	fillSecret(t, secret, map[string]string{"root": "another"})
	s.Client().Connects(t, "another")

	label("no")
	s.Says(t, "Running, but spec.passwordSecretRef: key")
	fillSecret(t, secret, map[string]string{"root": "a third"})
	hasCredentials(t, s, "Failed", "The new password is not set in the server: the platform requires the label")
	s.Client().Connects(t, "another")
}

// TestOldPasswordUntilPublished: an application takes its password from the Secret that Crossplane publishes for the
// claim. While that has the old one, the server takes it, however long Crossplane is busy elsewhere.
func TestOldPasswordUntilPublished(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestPublished in package rotate has each step of it")
	s := framework.NewServer(t, framework.ClassComposition)
	secret := newPasswordSecret(t, s, "mine", map[string]string{"root": "first"})
	delete(s.Spec, "password")
	s.Spec["passwordSecretRef"] = map[string]any{"name": "mine", "key": "root"}
	s.Spec["writeConnectionSecretToRef"] = map[string]any{"name": "for-clients"}
	s.Create(t)
	s.Client().Connects(t, "first")
	publishes(t, s, "first")

	s.Annotate(t, "crossplane.io/paused", "true")
	framework.Eventually(t, "the pause", func(ctx context.Context) error { return paused(ctx, s.Claim.DeepCopy()) })
	fillSecret(t, secret, map[string]string{"root": "second"})
	s.Client().Connects(t, "second")
	hasCredentials(t, s, "InSync", "until Crossplane has published the new one in Secret "+s.Namespace+"/for-clients")
	time.Sleep(grace + 10*time.Second) // After it the old one would go.
	if _, err := s.Client().Query(t.Context(), "first", "SELECT 1"); err != nil {
		t.Errorf("want the published password to be taken, got %v", err)
	}

	s.Annotate(t, "crossplane.io/paused", "false")
	publishes(t, s, "second")
	s.Client().Refused(t, "first")
}

// publishes is what Crossplane does with a password, for the claim's clients.
func publishes(t *testing.T, s *framework.Server, password string) {
	t.Helper()
	framework.Eventually(t, "Crossplane's Secret", func(ctx context.Context) error {
		secret := &corev1.Secret{}
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: "for-clients"},
			secret); err != nil {
			return err
		}
		if got := string(secret.Data["password"]); got != password {
			return fmt.Errorf("it has password %q", got)
		}
		return nil
	})
}

// newPasswordSecret in the claim's namespace.
func newPasswordSecret(t *testing.T, s *framework.Server, name string, data map[string]string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name,
		Labels: map[string]string{passwordLabel: "true"}}, StringData: data}
	if err := framework.Suite.Kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// passwordLabel is on the Secrets of all tests: the platform asks for it while TestPasswordNotAllowed runs.
const passwordLabel = "crossplane-mysql.io/password"

// fillSecret with something else; nil is what it has.
func fillSecret(t *testing.T, secret *corev1.Secret, data map[string]string) {
	t.Helper()
	if data != nil {
		secret.Data, secret.StringData = nil, data
	}
	if err := framework.Suite.Kube.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// whileScaledDown to no server something happens. Crossplane would start it again at once.
func whileScaledDown(t *testing.T, s *framework.Server, meanwhile func()) {
	t.Helper()
	if err := pauseXR(t.Context(), s, "true"); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the pause", func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		return paused(ctx, xr)
	})
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	if err := framework.Suite.Kube.Patch(t.Context(), d,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "its pod's end", func(ctx context.Context) error {
		if p, err := s.Pods().FindServer(ctx); err == nil {
			return fmt.Errorf("pod %s runs", p.Name)
		}
		return nil
	})
	meanwhile()
	hasCredentials(t, s, "Changing", "Waiting for the server")
	last := time.Time{}
	framework.Eventually(t, "the end of the pause", func(ctx context.Context) error {
		if time.Since(last) > 5*time.Second { // Crossplane drops changes where there are many (its issue 7703).
			last = time.Now()
			if err := pauseXR(ctx, s, "false"); err != nil {
				return err
			}
		}
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		return framework.HasCondition(ctx, xr, "Synced")
	})
}

// paused complains as long as Crossplane goes on with a claim or an XR.
func paused(ctx context.Context, u *unstructured.Unstructured) error {
	if err := framework.HasCondition(ctx, u, "Synced"); err == nil || !strings.Contains(err.Error(), "ReconcilePaused") {
		return fmt.Errorf("Crossplane goes on: %w", err)
	}
	return nil
}

func pauseXR(ctx context.Context, s *framework.Server, form string) error {
	xr, err := s.XR(ctx)
	if err != nil {
		return err
	}
	raw := fmt.Appendf(nil, `{"metadata":{"annotations":{"crossplane.io/paused":%q,"e2e/paused-at":%q}}}`, form,
		time.Now().Format(time.RFC3339Nano))
	return framework.Suite.Kube.Patch(ctx, xr, client.RawPatch(types.MergePatchType, raw))
}

// hasCredentials waits until the status says of the password what it should.
func hasCredentials(t *testing.T, s *framework.Server, state, text string) {
	t.Helper()
	framework.Eventually(t, "status.internal.credentials", func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedStringMap(xr.Object, "status", "internal", "credentials")
		if got["state"] != state || !strings.Contains(got["message"], text) {
			return fmt.Errorf("want %s and %q, got %v", state, text, got)
		}
		return nil
	})
}

// crashServer by a signal of the kind that a fault in its code causes.
func crashServer(t *testing.T, s *framework.Server) {
	t.Helper()
	p := s.Pods().MustFindServer(t)
	restarts := p.Status.ContainerStatuses[0].RestartCount
	if _, err := framework.Exec(t.Context(), p.Namespace, p.Name, "", "bash", "-c", "kill -SEGV 1"); err != nil {
		t.Logf("the shell went with its server: %v", err)
	}
	framework.Eventually(t, "the crash", func(ctx context.Context) error {
		p, err := s.Pods().FindServer(ctx)
		if err != nil {
			return err
		}
		if p.Status.ContainerStatuses[0].RestartCount == restarts {
			return errors.New("it has not restarted")
		}
		return nil
	})
}

// uriLogsIn: that of the connection Secret leads to the same password.
func uriLogsIn(t *testing.T, s *framework.Server, password string) {
	t.Helper()
	secret, err := s.Client().FindSecret(t.Context())
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
