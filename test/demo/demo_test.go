package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestShownIsDone runs the shown commands in a real shell. Their kubectl calls must be the same as those of the demo.
func TestShownIsDone(t *testing.T) {
	for _, tc := range []struct{ api, namespace, image string }{
		{api: apiClaim, namespace: defaultNamespace}, {api: apiClaim, namespace: "other"},
		{api: apiClaim, namespace: "other", image: "registry.example:5000/mysql:8.4@sha256:0"},
		{api: apiNamespaced, namespace: defaultNamespace},
		{api: apiNamespaced, namespace: "other", image: "registry.example:5000/mysql:9.7@sha256:0"},
	} {
		t.Run(tc.api+tc.namespace+tc.image, func(t *testing.T) {
			log := fake(t)
			d := testDemo(t, tc.api)
			d.namespace, d.image = tc.namespace, tc.image
			if tc.namespace != defaultNamespace {
				d.kube.namespace = tc.namespace
			}
			session, err := d.sessionCommand()
			if err != nil {
				t.Fatal(err)
			}
			apply, err := d.applyCommand()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(apply.stdin, tc.image) {
				t.Errorf("want a manifest with image %s, got %s", tc.image, apply.stdin)
			}
			for _, c := range append(d.changeCommands(),
				apply, session, d.sql(d.originalPassword, selectRows), d.sql("it's", `SELECT "a b" FROM test`),
				d.passwordCommand(), command{args: []string{"get", "mysql", "-o", "jsonpath={.status}", ""}},
			) {
				compareWithShell(t, d, c, log)
			}
		})
	}
}

// testDemo returns a demo that runs in the root directory of the repository. Its kubectl records its calls.
func testDemo(t *testing.T, name string) *demo {
	t.Helper()
	t.Chdir("../..")
	a, err := apiOf(name)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := a.read()
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{
		screen: newScreen(io.Discard), api: a, name: manifest.Name, database: manifest.Spec.Database,
		originalPassword: "a generated one", timeout: time.Minute,
	}
	if a.stated {
		d.originalPassword = *manifest.Spec.Password
	}
	d.kube = &kubectl{path: "kubectl", env: os.Environ(), screen: d.screen}
	return d
}

// TestAPI checks the commands for each of the two APIs, and that any other name is refused.
func TestAPI(t *testing.T) {
	for name, want := range map[string][]string{
		apiClaim:      {"mysql/mysql-instance", "backup-mysql-instance-pvc", "MySQL", `{"spec":{"password":"n3w-password"}}`},
		apiNamespaced: {"mysqlinstance/shop", "backup-shop.mysql-pvc", "MySQL.crossplane-mysql.io", `{"spec":{"passwordSecretRef":{"name":"shop-password","key":"password"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDemo(t, name)
			changes := d.changeCommands()
			got := []string{d.api.resource + "/" + d.name, v1.Instance{Kind: d.api.instanceKind, Name: d.name}.BackupPVCName(),
				d.api.instanceKind, changes[len(changes)-1].stdin}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
	t.Setenv("DEMO_API", "both")
	if out, err := self(t).CombinedOutput(); exitCode(t, err) == 0 ||
		!strings.Contains(string(out), `DEMO_API=both is not an API: set it to "claim" or "namespaced"`) {
		t.Errorf("DEMO_API=both: %v: %s", err, out)
	}
}

// TestConfiguration checks that the demo installs the Configuration of the namespaced API, and uses the same name for
// it as package/install.yaml.
func TestConfiguration(t *testing.T) {
	log := fake(t)
	d := testDemo(t, apiNamespaced)
	c, err := d.installCommand()
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: pkg.crossplane.io/v1
kind: Configuration
metadata:
  name: crossplane-mysql-configuration-mysql-namespaced
spec:
  package: ghcr.io/crossplane-mysql/configuration-mysql-namespaced:v0.1.0
`
	if diff := cmp.Diff(want, c.stdin); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	compareWithShell(t, d, c, log)
}

// TestGeneratedPassword checks that a generated password is read from the connection Secret and never printed.
func TestGeneratedPassword(t *testing.T) {
	log := fake(t)
	t.Setenv(answerVariable, "s3cret")
	var shown bytes.Buffer
	d := testDemo(t, apiNamespaced)
	d.screen.out, d.applied = &shown, true
	d.kube.env = os.Environ()
	if err := d.learnPassword(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []call{{Args: []string{"get", "secret", "shop-connection", "--output=go-template={{.data.password | base64decode}}"}}}
	if diff := cmp.Diff(want, calls(t, log)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if d.password != "s3cret" || d.originalPassword != "s3cret" {
		t.Errorf("want the password of the Secret, got %q and %q", d.password, d.originalPassword)
	}
	d.goOn()
	if strings.Contains(shown.String(), "s3cret") || !strings.Contains(shown.String(), "which Secret shop-connection has") {
		t.Errorf("want the Secret's name and no password in\n%s", &shown)
	}
}

func compareWithShell(t *testing.T, d *demo, c command, log string) {
	t.Helper()
	if err := d.kube.run(t.Context(), c, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	done := calls(t, log)
	bash := exec.CommandContext(t.Context(), "bash", "-e")
	before := "password=" + quote(d.originalPassword) + "\n" + strings.TrimPrefix(d.sqlFunction(), "$ ")
	bash.Stdin = strings.NewReader(before + d.kube.shell(c) + " </dev/null\n")
	if c.stdin != "" {
		bash.Stdin = strings.NewReader(before + d.kube.shell(c) + "\n")
	}
	if out, err := bash.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", d.kube.shell(c), err, out)
	}
	shown := calls(t, log)
	for i := range shown {
		// A here-string ends with a newline.
		shown[i].Stdin, done[i].Stdin = strings.TrimSpace(shown[i].Stdin), strings.TrimSpace(done[i].Stdin)
		// The shell removes the last newline of a command substitution.
		shown[i].Args, done[i].Args = trimmed(shown[i].Args), trimmed(done[i].Args)
	}
	if diff := cmp.Diff(done, shown); diff != "" {
		t.Errorf("%s is not what is done (-done, +shown):\n%s", d.kube.shell(c), diff)
	}
}

func trimmed(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.TrimSuffix(a, "\n")
	}
	return out
}

// TestFailure checks that the demo reports the failed step and the reason.
func TestFailure(t *testing.T) {
	fake(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "kubeconfig"))
	t.Setenv(failVariable, "get")
	out, err := self(t).CombinedOutput()
	if code := exitCode(t, err); code != 1 {
		t.Errorf("want exit code 1, got %d", code)
	}
	for _, want := range []string{"$ kubectl get nodes\n", "The connection was refused", "FAILED in step 1/7",
		"Nothing of it is left."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}

func TestInterrupt(t *testing.T) {
	log := fake(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "kubeconfig"))
	t.Setenv(hangVariable, "get")
	cmd := self(t)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for b, err := os.ReadFile(log); err != nil || len(b) == 0; b, err = os.ReadFile(log) {
		if pause(ctx) != nil {
			t.Fatal("it does not call kubectl")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, cmd.Wait()); code != interrupted {
		t.Errorf("want exit code %d, got %d", interrupted, code)
	}
	if !strings.Contains(out.String(), "Interrupted in step 1/7") {
		t.Errorf("want the step in\n%s", &out)
	}
}

func TestUsage(t *testing.T) {
	if out, err := self(t, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "--namespace") {
		t.Errorf("--help: %v: %s", err, out)
	}
	if out, err := self(t, "--patience=0s").CombinedOutput(); exitCode(t, err) == 0 ||
		!strings.Contains(string(out), "--patience") {
		t.Errorf("--patience=0s: %v: %s", err, out)
	}
}

func TestLine(t *testing.T) {
	dying := func(step string, percent int32, message string) claim {
		var c claim
		c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		c.Status.Message = "Deleting. " + message
		c.Status.Deletion = &v1.DeletionStatus{Phase: v1.DeletionPhase(step), Percent: percent, Message: message}
		return c
	}
	var living claim
	living.Status.Message = "Running"
	for name, tc := range map[string]struct {
		reason string
		claim  claim
		want   string
	}{
		"Living":   {"The function's own words.", living, "Running"},
		"Deleting": {"How far it is.", dying("BackingUp", 42, "Backing up the data"), "BackingUp   42%  Backing up the data"},
		"NoStep":   {"Deleted, and nobody has begun.", dying("", 0, "x"), "Deleting. x"},
		"Nothing":  {"Nothing is known yet.", claim{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.claim.line(); got != tc.want {
				t.Errorf("\n%s\nline(): want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// TestStamper checks that the demo prints each line of another program, and replaces the time at its beginning with
// the time since the start of the demo.
func TestStamper(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	s.start = time.Now().Add(-time.Hour)
	p := &stamper{screen: s}
	for _, part := range []string{"[  1.2s] boo", "ting\n[ 13.0s] up\nplain\n"} {
		if _, err := io.WriteString(p, part); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(line, "] ")
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"booting\n", "up\n", "plain\n"}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestInstall checks that the packages have the names that the Composition and Crossplane use, and the same version.
func TestInstall(t *testing.T) {
	t.Chdir("../..")
	b, err := os.ReadFile(packagesFile)
	if err != nil {
		t.Fatal(err)
	}
	composition, err := os.ReadFile("apis/composition-mysql.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for part := range strings.SplitSeq(string(b), "\n---\n") {
		var p struct {
			APIVersion string `json:"apiVersion"`
			Kind       string
			Metadata   struct{ Name string }
			Spec       struct{ Package string }
		}
		if err := yaml.Unmarshal([]byte(part), &p); err != nil {
			t.Fatal(err)
		}
		group, _, _ := strings.Cut(p.APIVersion, "/")
		found[strings.ToLower(p.Kind)+"."+group+"/"+p.Metadata.Name] = p.Spec.Package
	}
	want := map[string]string{
		functionName:      "ghcr.io/crossplane-mysql/function-mysql:v0.1.0",
		configurationName: "ghcr.io/crossplane-mysql/configuration-mysql:v0.1.0",
		// The runtime of the function, and the clients that may call the function.
		"deploymentruntimeconfig.pkg.crossplane.io/crossplane-mysql-function-mysql": "",
		"networkpolicy.networking.k8s.io/crossplane-mysql-function-mysql":           "",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("%s (-want, +got):\n%s", packagesFile, diff)
	}
	_, name, _ := strings.Cut(functionName, "/")
	if !strings.Contains(string(composition), "name: "+name+"\n") {
		t.Errorf("the Composition does not call %s", name)
	}
}

// TestRemind checks that a program is reported as still running only if it prints nothing.
func TestRemind(t *testing.T) {
	for name, line := range map[string]string{"Quiet": "", "Speaks": "hello\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var shown bytes.Buffer
				p := &stamper{screen: newScreen(&shown)}
				stop := p.remind("go run x", silence)
				for range 20 {
					if _, err := p.Write([]byte(line)); err != nil {
						t.Error(err)
					}
					time.Sleep(silence / 4)
				}
				stop()
				synctest.Wait()
				if got := strings.Count(shown.String(), "go run x still runs"); (got > 3) != (line == "") || line != "" && got > 0 {
					t.Errorf("it says %d times that it runs:\n%s", got, &shown)
				}
			})
		})
	}
}
