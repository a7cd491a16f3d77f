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

// oddPasswords contain characters that have a meaning in SQL, shells, option files, URIs or format strings.
var oddPasswords = []string{
	`it's "quoted"`,
	`back\slash\\ \' end\`,
	"100%s %d %% %q",
	"semi;colon -- # /* no comment */",
	"$HOME `id` $(id) ${x}",
	" spaces at both ends ",
	"пароль-密码-😀", //nolint:gosmopolitan // The test needs such characters.
	`{"json": ["a", 1]}`,
	"a=b&c=d?e#f@g:h/i+j",
	"'; DROP USER root; --",
}

// patchSpec changes fields in the claim's spec. A nil value removes a field.
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

// A visitor simulates an application. It logs in up to 20 times a second, each time with the current password in the
// connection Secret.
type visitor struct {
	server  *framework.Server
	address string

	mu      sync.Mutex
	logins  map[string]int
	refused []error
}

const (
	// visits is the interval between two logins, and guests is the maximum number of concurrent logins. Without this
	// maximum, the logins could use up all connections of a slow server, so that the controller could not connect.
	visits = 50 * time.Millisecond
	guests = 10
	// settle is the maximum time between reading the Secret and logging in. A login that takes longer may fail, because
	// the test changes the password several times in a row.
	settle = 5 * time.Second
	// grace is the time for which an old password remains valid.
	grace = 2 * time.Minute
)

// visit calls once 20 times a second, for example to log in, until the test ends or calls end. end also waits for the
// calls in progress.
func visit(t *testing.T, once func(context.Context)) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) //nolint:gosec // The caller calls it.
	room := make(chan struct{}, guests)
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(visits)
		defer tick.Stop()
		for ctx.Err() == nil {
			room <- struct{}{}
			all.Go(func() { once(t.Context()); <-room }) //nolint:contextcheck // A login that has started is completed.
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
			v.entry("", fmt.Errorf("there is no connection Secret: %w", err))
		}
		return
	}
	password := string(secret.Data["password"])
	err = framework.Login(ctx, v.address, password)
	switch {
	case err == nil:
		v.entry(password, nil)
	case framework.ErrorNumber(err) == framework.AccessDenied && time.Since(start) < settle:
		v.entry(password, err)
	}
	// Ignore all other errors. They come from the port forwarding, or mean that the machine is too slow.
}

func (v *visitor) entry(password string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		v.refused = append(v.refused, fmt.Errorf("with password %q: %w", password, err))
		return
	}
	v.logins[password]++
}

// came waits until the simulated application has logged in with the given password.
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

// TestClientNeverFails checks that a client that reads the connection Secret can log in at any time during ten
// password changes.
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
			continue // The next change follows immediately.
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

// TestPasswordSources changes the password in the spec, in a Secret, while the server is stopped, and after a
// restore.
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

// TestPasswordNotAllowed checks that a password or a Secret is not used if the platform does not allow it. A running
// server keeps its previous password.
func TestPasswordNotAllowed(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestNotAllowedPassword has each rule")
	framework.SetPlatform(t, "requirePasswordLabel", true)
	framework.SetPlatform(t, "minPasswordLength", int64(2)) // No other test uses a password of one character.
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

// TestOldPasswordUntilPublished checks an application that reads the password from the Secret that Crossplane
// publishes for the claim. The server must accept the old password until Crossplane has published the new one,
// regardless of how long that takes.
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
	time.Sleep(grace + 10*time.Second) // By then, the grace period is over, and the old password would be invalid.
	if _, err := s.Client().Query(t.Context(), "first", "SELECT 1"); err != nil {
		t.Errorf("want the published password to be taken, got %v", err)
	}

	s.Annotate(t, "crossplane.io/paused", "false")
	publishes(t, s, "second")
	s.Client().Refused(t, "first")
}

// publishes waits until Crossplane has published the password for the claim's clients.
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

// newPasswordSecret creates a Secret with a password in the claim's namespace.
func newPasswordSecret(t *testing.T, s *framework.Server, name string, data map[string]string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name,
		Labels: map[string]string{passwordLabel: "true"}}, StringData: data}
	if err := framework.Suite.Kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// passwordLabel is a label on the Secrets of all tests, because the platform requires it while TestPasswordNotAllowed
// is running.
const passwordLabel = "crossplane-mysql.io/password"

// fillSecret replaces the data of the Secret. If data is nil, it only updates the object.
func fillSecret(t *testing.T, secret *corev1.Secret, data map[string]string) {
	t.Helper()
	if data != nil {
		secret.Data, secret.StringData = nil, data
	}
	if err := framework.Suite.Kube.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// whileScaledDown calls meanwhile while the Deployment has no replicas. It pauses Crossplane, which would otherwise
// scale up the Deployment immediately.
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
		if time.Since(last) > 5*time.Second { // Crossplane drops changes if there are too many (its issue 7703).
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

// paused returns an error unless Crossplane has stopped reconciling a claim or a composite resource, as its condition
// Synced reports.
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

// hasCredentials waits until status.internal.credentials has the given state, and its message contains the text.
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

// crashServer sends the server the signal of a segmentation fault.
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

// uriLogsIn checks that the URI in the connection Secret contains the password.
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
