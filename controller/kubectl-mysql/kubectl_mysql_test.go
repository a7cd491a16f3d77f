package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/doctor"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // A constant time.

// parse a claim.
func parse(t *testing.T, text string) *instance.Composite {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return instance.Decode(u)
}

const whole = `apiVersion: otus.homework/v1
kind: MySQL
metadata: {name: shop, namespace: team}
spec:
  image: mysql:8.4
  database: orders
  password: secret
  storageSize: 1Gi
  compositeDeletePolicy: Background
  resourceRef: {apiVersion: otus.homework/v1, kind: XMySQL, name: shop-x}
  writeConnectionSecretToRef: {name: for-shop}
  backup: {request: one, method: Cold, keep: 5, schedule: "0 2 * * *"}
  restore: {policy: Latest}
status:
  message: Running
  servedImage: mysql:8.4
  pendingImage: mysql:9.7
  endpoint: {host: shop.team.svc, port: 3306}
  binding: {name: shop-connection}
  credentials: {state: InSync, changedAt: "2026-11-27T09:00:00Z"}
  tls: {authorities: x, servedNotAfter: "2027-02-20T00:00:00Z"}
  backupStore: offsite
  backups:
  - {name: c, phase: Failed}
  - {name: b, phase: Proven, provenAt: "2026-11-27T02:00:30Z", dataBytes: 12897485}
  - {name: a, phase: Proven, provenAt: "2026-11-26T02:00:30Z", dataBytes: 12897485}
  requestedBackup: {request: one, phase: Running, method: Cold, begunAt: "2026-11-27T11:59:00Z", percent: 40, message: Backing up the data}
  backupSchedule: {schedule: "0 2 * * *", timeZone: Europe/Berlin, nextAt: "2026-11-28T01:00:00Z"}
  conditions:
  - {type: Ready, status: "True", reason: Available}
  - {type: Serving, status: "True", reason: Serving}
  - {type: Blocked, status: "True", reason: PodFailure, message: no node has room}
  - {type: Updated, status: "False", reason: UpdateWaits, message: An update waits}
`

const wantScreen = `MySQL team/shop
  Status        Running
  Server        ready, mysql:8.4 (mysql:9.7 waits) at shop.team.svc:3306
  Log in with   Secret shop-connection
  Password      InSync, changed 3h ago
  Certificate   until 2027-02-20
  Last backup   b, 9h ago; the next one is in store offsite
  Asked for     "one", Cold, begun 60s ago: Running 40 % Backing up the data
  Next backup   2026-11-28T01:00:00Z by 0 2 * * * Europe/Berlin
  Waits for     Blocked, PodFailure: no node has room
`

// TestScreen of one claim, and the line of it.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := summarize(parse(t, whole))
	if err := writeScreen(&out, s, now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantScreen, out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	out.Reset()
	if err := writeTable(&out, []Summary{s, {Namespace: "team", Name: "new", Message: "Waiting"}}, now); err != nil {
		t.Fatal(err)
	}
	want := "NAMESPACE   NAME   READY   IMAGE       LAST-BACKUP   MESSAGE\nteam        shop   true    mysql:8.4   9h ago        Running\nteam        new    false               none          Waiting\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestNewest: what a server's own time has taken is newer than what was there before it, and may be older than what is listed.
func TestNewest(t *testing.T) {
	listed := "backups: [{name: x, phase: Failed}, {name: old, phase: Proven}]"
	for status, want := range map[string]string{
		"{}":               "",
		"{" + listed + "}": "old",
		"{" + listed + `, requestedBackup: {request: a, phase: Failed, begunAt: "2026-11-27T03:00:00Z"}}`:                                                                                                                                                           "old",
		"{" + listed + `, requestedBackup: {request: a, phase: Proven, backup: asked, begunAt: "2026-11-27T03:00:00Z"}}`:                                                                                                                                            "asked",
		`{requestedBackup: {request: a, phase: Proven, backup: asked, begunAt: "2026-11-27T03:00:00Z"}, scheduledBackup: {request: b, phase: Proven, backup: planned, begunAt: "2026-11-27T04:00:00Z"}}`:                                                            "planned",
		`{backups: [{name: tonight, phase: Proven, provenAt: "2026-11-27T02:00:00Z"}], requestedBackup: {request: a, phase: Proven, backup: may, begunAt: "2026-05-01T03:00:00Z"}, scheduledBackup: {request: b, phase: Running, begunAt: "2026-11-27T11:00:00Z"}}`: "tonight",
		`{backups: [{name: broken, phase: Failed}, {name: april, phase: Proven, provenAt: "2026-04-01T02:00:00Z"}], requestedBackup: {request: a, phase: Proven, backup: may, begunAt: "2026-05-01T03:00:00Z"}}`:                                                    "may",
	} {
		s := summarize(parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nstatus: "+status))
		if got := s.Newest; (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("%s: want %q, got %+v", status, want, got)
		}
	}
}

// TestScreenOfDeletion has nothing that it does not know.
func TestScreenOfDeletion(t *testing.T) {
	var out bytes.Buffer
	s := summarize(parse(t, `apiVersion: otus.homework/v1
kind: MySQL
metadata: {name: shop, namespace: team, deletionTimestamp: "2026-11-27T11:59:00Z"}
status:
  deletion: {phase: BackingUp, percent: 7, message: Backing up the data}
`))
	if err := writeScreen(&out, s, now); err != nil {
		t.Fatal(err)
	}
	want := "MySQL team/shop\n  Server        not ready\n  Last backup   none yet; the next one is on a volume\n  Deletion      BackingUp 7 % Backing up the data\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestBackupPatch: what the claim is asked, and what it cannot be asked.
func TestBackupPatch(t *testing.T) {
	cases := map[string]struct {
		claim   string
		request string
		method  v1.BackupMethod
		want    string
		says    string
	}{
		"Online":   {claim: "spec: {}", request: "a", want: `{"spec":{"backup":{"method":"Online","request":"a"}}}`},
		"Claims":   {claim: "spec: {backup: {method: Cold}}", request: "a", want: `{"spec":{"backup":{"method":"Cold","request":"a"}}}`},
		"Said":     {claim: "spec: {backup: {method: Cold}}", request: "a", method: v1.MethodOnline, want: `{"spec":{"backup":{"method":"Online","request":"a"}}}`},
		"Again":    {claim: "spec: {backup: {request: a, method: Cold}}", request: "a", says: `asks for "a" already`},
		"Answered": {claim: "spec: {backup: {request: b}}\nstatus: {requestedBackup: {request: a, phase: Proven, begunAt: null}}", request: "a", says: "has asked for \"a\" before (Proven)"},
		"Planned":  {claim: "spec: {backup: {schedule: 0 2 * * *, method: Online}}", request: "a", method: v1.MethodCold, says: "spec.backup.method, too, which is Online"},
		"AsPlan":   {claim: "spec: {backup: {schedule: 0 2 * * *, method: Cold}}", request: "a", method: v1.MethodCold, want: `{"spec":{"backup":{"method":"Cold","request":"a"}}}`},
		"Off":      {claim: "spec: {suspended: true}", request: "a", says: "once spec.suspended is false"},
		"Deletion": {claim: "spec: {}", request: "a", says: "is being deleted"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\n"+tc.claim)
			if name == "Deletion" {
				c.SetDeletionTimestamp(&metav1.Time{Time: now})
			}
			got, err := backupPatch(c, tc.request, tc.method)
			if string(got) != tc.want || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// TestLookAtBackup: how far one is that was asked for, and how it ends.
func TestLookAtBackup(t *testing.T) {
	cases := map[string]struct {
		status string
		line   string
		done   bool
		says   string
	}{
		"Before":  {status: "{requestedBackup: {request: zero, phase: Proven, begunAt: null}}", line: "Waiting for it to begin"},
		"Planned": {status: `{scheduledBackup: {request: noon, phase: Running, begunAt: null}}`, line: "Waiting for it to begin, after that of backup.schedule at noon"},
		"Missed":  {status: `{conditions: [{type: BackedUp, status: "False", reason: BackupMissed, message: No room}]}`, line: "Waiting for it to begin"},
		"Refused": {status: `{conditions: [{type: Accepted, status: "False", reason: Invalid, message: Say method}]}`, line: "Waiting for it to begin; Invalid: Say method"},
		"Running": {status: "{requestedBackup: {request: one, phase: Running, begunAt: null, percent: 5, message: Copying}}", line: "Running 5 % Copying"},
		"Failing": {status: "{requestedBackup: {request: one, phase: Failing, begunAt: null, message: No room}}", line: "Failing No room"},
		"Failed":  {status: "{requestedBackup: {request: one, phase: Failed, begunAt: null, message: No room}}", done: true, says: "has failed: No room"},
		"Proven":  {status: "{requestedBackup: {request: one, phase: Proven, begunAt: null, backup: b}}", line: "Proven", done: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nspec: {backup: {request: one}}\nstatus: "+tc.status)
			line, done, err := (&awaitedBackup{request: "one", now: time.Now}).look(c)
			if line != tc.line || done != tc.done || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %q, %v, %v", line, done, err)
			}
		})
	}
	c := parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nspec: {backup: {request: of Git}}\nstatus: {requestedBackup: {request: one, phase: Running, begunAt: null}}")
	if line, done, err := (&awaitedBackup{request: "one", now: time.Now}).look(c); line != "Running" || done || err != nil {
		t.Errorf("it does not wait for what has begun: %q, %v", line, err)
	}
	c = parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nspec: {backup: {request: of Git}}")
	if _, done, err := (&awaitedBackup{request: "one", now: time.Now}).look(c); !done || err == nil {
		t.Errorf("it waits for what nobody asks any more: %v", err)
	}
}

// TestLookBehind: another backup was asked for and begun between two looks. Ours is over by then, and is found by when it was proven.
func TestLookBehind(t *testing.T) {
	const head = "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nspec: {backup: {request: two}}\nstatus: "
	ran := parse(t, head+`{requestedBackup: {request: one, phase: Running, method: Online, begunAt: "2026-11-27T11:00:00Z", percent: 90, message: Copying}}`)
	next := `requestedBackup: {request: two, phase: Running, begunAt: "2026-11-27T11:10:00Z"}, backups: [{name: torn, phase: Failed}, `
	for listed, want := range map[string]string{
		`{name: ours, phase: Proven, provenAt: "2026-11-27T11:09:59Z"}, {name: before, phase: Proven, provenAt: "2026-11-27T10:00:00Z"}]`: "ours",
		`{name: before, phase: Proven, provenAt: "2026-11-27T10:00:00Z"}]`:                                                                "",
	} {
		w := &awaitedBackup{request: "one", now: time.Now}
		if _, done, err := w.look(ran); done || err != nil {
			t.Fatalf("it runs: %v, %v", done, err)
		}
		line, done, err := w.look(parse(t, head+"{"+next+listed+"}"))
		if got := w.answer; !done || (err == nil) != (want != "") || want != "" && (line != "Proven" || got.Backup != want || got.Request != "one" || got.Phase != v1.LastBackupProven || got.Percent != 0) {
			t.Errorf("want %q, got %q, %v, %v, %+v", want, line, done, err, got)
		}
		if err != nil && !strings.Contains(err.Error(), `"two"`) {
			t.Errorf("it says %v", err)
		}
	}
}

// TestRestored: a claim asks for what the other one does, but for what was that one's alone.
func TestRestored(t *testing.T) {
	of := parse(t, whole).Unstructured
	before := of.DeepCopy()
	got, err := yaml.Marshal((&restoreCommand{From: "shop", To: "shop-2"}).restored(of, "team").Object)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: otus.homework/v1
kind: MySQL
metadata:
  name: shop-2
  namespace: team
spec:
  backup:
    keep: 5
    method: Cold
    schedule: 0 2 * * *
  database: orders
  image: mysql:8.4
  password: secret
  restore:
    from: shop
  storageSize: 1Gi
  writeConnectionSecretToRef:
    name: shop-2-published
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, of); diff != "" {
		t.Errorf("it changed the other one: %s", diff)
	}
	named := &restoreCommand{From: "shop", To: "shop-2", Backup: "b", InsteadOf: "a"}
	if got := named.restored(of, "team").Object["spec"].(map[string]any)["restore"]; !cmp.Equal(got, map[string]any{"backup": "b", "insteadOf": "a"}) {
		t.Errorf("of a backup by name: %v", got)
	}
}

// TestLookAtRestore waits until the server takes clients, and not for what is refused.
func TestLookAtRestore(t *testing.T) {
	cases := map[string]struct {
		status string
		backup string
		line   string
		done   bool
		says   string
	}{
		"Unseen":    {status: "{}", line: "Waiting for Crossplane"},
		"Not made":  {status: `{conditions: [{type: Synced, status: "False", reason: ReconcileError, message: no Composition}]}`, line: "Waiting for Crossplane; ReconcileError: no Composition"},
		"Restoring": {status: "{message: Restoring}", line: "Restoring"},
		"Other's":   {status: "{message: Restoring, restore: {backup: shop-1, phase: Running}, backups: [{name: shop-2-1, phase: Proven}]}", line: "Restoring"},
		"Own":       {status: "{message: Restoring, restore: {backup: shop-2-1, phase: Running}, backups: [{name: shop-2-1, phase: Proven}]}", done: true, says: "starts from shop-2-1, the newest backup of an earlier shop-2"},
		"Named":     {status: "{message: Restoring, restore: {backup: shop-2-1, phase: Running}, backups: [{name: shop-2-1, phase: Proven}]}", backup: "shop-2-1", line: "Restoring"},
		"Not named": {status: "{message: Restoring, restore: {backup: shop-2-1, phase: Running}}", backup: "shop-1", done: true, says: "starts from shop-2-1"},
		"Failed":    {status: `{conditions: [{type: Restored, status: "False", reason: RestoreFailed, message: No room}]}`, done: true, says: "No room"},
		"Off":       {status: `{conditions: [{type: Serving, status: "False", reason: Suspended, message: Suspended}]}`, done: true, says: "as the manifest wants it"},
		"Refused":   {status: `{conditions: [{type: Accepted, status: "False", reason: Invalid, message: No such backup}]}`, done: true, says: "No such backup"},
		"Ready":     {status: `{message: Running, conditions: [{type: Ready, status: "True"}]}`, line: "Running", done: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &restoreCommand{From: "shop", To: "shop-2", Backup: tc.backup}
			line, done, err := c.look(parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop-2, namespace: team}\nstatus: "+tc.status))
			if line != tc.line || done != tc.done || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %q, %v, %v", line, done, err)
			}
		})
	}
}

// TestClientOptions: no value ends its line.
func TestClientOptions(t *testing.T) {
	got := clientOptions(map[string][]byte{"username": []byte("root"), "password": []byte("a\"b\\c\n[client]\nx=y"), "database": []byte("orders")}, "4711", "/tmp/ca.crt")
	want := "[client]\nhost=127.0.0.1\nprotocol=TCP\nport=4711\nuser=\"root\"\npassword=\"a\\\"b\\\\c\\n[client]\\nx=y\"\nssl-mode=VERIFY_CA\nssl-ca=\"/tmp/ca.crt\"\n[mysql]\ndatabase=\"orders\"\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// newSession with a cluster that has these claims.
func newSession(t *testing.T, claims ...client.Object) (s *session, out, progress *bytes.Buffer) {
	t.Helper()
	scheme, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	out, progress = &bytes.Buffer{}, &bytes.Buffer{}
	return &session{
		kube: fake.NewClientBuilder().WithScheme(scheme).WithObjects(claims...).Build(), kind: instance.ClaimKind, namespace: "team",
		out: out, progress: progress, now: func() time.Time { return now }, pause: time.Millisecond,
	}, out, progress
}

// TestCommands say what there is, in both forms, and what there is not.
func TestCommands(t *testing.T) {
	s, out, _ := newSession(t, parse(t, whole).Unstructured)
	if err := (&statusCommand{Name: "shop"}).run(t.Context(), s); err != nil || out.String() != wantScreen {
		t.Errorf("%v, %s", err, out)
	}
	out.Reset()
	s.json = true
	if err := (&listCommand{AllNamespaces: true}).run(t.Context(), s); err != nil {
		t.Error(err)
	}
	var all []Summary
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != 1 || all[0].Endpoint != "shop.team.svc:3306" || all[0].Newest.Name != "b" {
		t.Errorf("%v, %s", err, out)
	}
	if err := (&statusCommand{Name: "shpo"}).run(t.Context(), s); err == nil || !strings.Contains(err.Error(), `no MySQL "shpo" in namespace team`) {
		t.Errorf("of none: %v", err)
	}
	if err := (&restoreCommand{From: "shop", To: "shop"}).run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "apply that claim again") {
		t.Errorf("onto itself: %v", err)
	}
	if err := (&restoreCommand{From: "gone", To: "new"}).run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "--filename") {
		t.Errorf("of one that is gone: %v", err)
	}
}

// TestRestoreFromFile makes the claim of a manifest, in the namespace of the session, and refuses another kind.
func TestRestoreFromFile(t *testing.T) {
	s, out, _ := newSession(t)
	file := filepath.Join(t.TempDir(), "claim.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(whole, "namespace: team", "namespace: team, labels: {cost-center: '7', otus.homework/claim-name: x}, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}", 1))
	c := &restoreCommand{From: "gone", To: "new", Filename: file, Wait: true, Timeout: time.Millisecond}
	if err := c.run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "kubectl mysql status new --namespace team") {
		t.Errorf("it does not say how to go on: %v, %s", err, out)
	}
	made, err := s.find(t.Context(), "new")
	if err != nil || made.Spec.Restore.From == nil || *made.Spec.Restore.From != "gone" {
		t.Errorf("it made %+v, %v", made, err)
	}
	if err := c.run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "give another name with --to") {
		t.Errorf("once more: %v", err)
	}
	if labels := made.GetLabels(); !cmp.Equal(labels, map[string]string{"cost-center": "7"}) {
		t.Errorf("its labels are %v", labels)
	}
	write(strings.Replace(whole, "namespace: team", "namespace: prod", 1))
	if err := c.run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "--namespace prod") {
		t.Errorf("another namespace: %v", err)
	}
	write("apiVersion: v1\nkind: Secret\n")
	if err := c.run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "Secret") {
		t.Errorf("another kind: %v", err)
	}
}

// TestModel of a claim that is off, to look at the copy beside it: the copy is not off, and has its spec and nothing else.
func TestModel(t *testing.T) {
	labelled := strings.Replace(whole, "namespace: team}", "namespace: team, labels: {cost-center: '7'}}", 1)
	s, _, _ := newSession(t, parse(t, strings.Replace(labelled, "spec:", "spec:\n  suspended: true", 1)).Unstructured)
	of, err := (&restoreCommand{From: "shop", To: "new"}).claim(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if spec := of.Object["spec"].(map[string]any); spec["suspended"] != nil || spec["image"] != "mysql:8.4" || len(of.GetLabels()) != 0 || len(of.Object) != 4 {
		t.Errorf("it is %v", of.Object)
	}
}

// TestPrograms get what was asked for also where nothing is waited for.
func TestPrograms(t *testing.T) {
	s, out, _ := newSession(t, parse(t, whole).Unstructured)
	s.json = true
	if err := (&backupCommand{Name: "shop", Request: "two"}).run(t.Context(), s); err != nil || out.String() != "{\n  \"request\": \"two\"\n}\n" {
		t.Errorf("backup: %v, %s", err, out)
	}
	out.Reset()
	if err := (&restoreCommand{From: "shop", To: "new"}).run(t.Context(), s); err != nil || !strings.Contains(out.String(), `"name": "new"`) {
		t.Errorf("restore: %v, %s", err, out)
	}
}

// TestAwait: a claim that goes is no reason to wait on, and each line is said once.
func TestAwait(t *testing.T) {
	claim := parse(t, whole).Unstructured
	s, _, progress := newSession(t, claim)
	n := 0
	_, err := s.await(t.Context(), "shop", time.Minute, func(*instance.Composite) (string, bool, error) {
		if n++; n == 5 {
			if err := s.kube.Delete(t.Context(), claim); err != nil {
				t.Error(err)
			}
		}
		return "the same", false, nil
	})
	if err == nil || !strings.Contains(err.Error(), "there is no MySQL") || progress.String() != "the same\n" {
		t.Errorf("%v, %q", err, progress)
	}
}

// fakeForward is a kubectl that says this, and runs that.
func fakeForward(says, script string) func(ctx context.Context, _ ...string) *exec.Cmd {
	return func(ctx context.Context, _ ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", says+script)
	}
}

const (
	saysPort    = "echo 'Forwarding from 127.0.0.1:4711 -> 3306'; "
	untilItEnds = "trap 'exit 0' TERM; while :; do sleep 0.01; done"
	breaksOff   = "echo lost connection to pod >&2; exit 3"
)

// TestAwaitInTrouble: whoever cannot look says so, once, and why at the end; what no other look would mend ends it, and the claim goes on.
func TestAwaitInTrouble(t *testing.T) {
	never := func(*instance.Composite) (string, bool, error) { return "", false, nil }
	for name, tc := range map[string]struct {
		err        error
		says, ends string
	}{
		"Network": {errors.New("connection refused"), "Cannot see how far it is: connection refused\n", "no way to see it: connection refused"},
		"Login":   {kerrors.NewUnauthorized("log in again"), "", "log in again"},
	} {
		s, _, progress := newSession(t)
		s.kube = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return tc.err
		}})
		_, err := s.await(t.Context(), "shop", 50*time.Millisecond, never)
		if err == nil || !strings.Contains(err.Error(), tc.ends) || !strings.Contains(err.Error(), "it goes on: kubectl mysql status shop") || progress.String() != tc.says {
			t.Errorf("%s: %v, %q", name, err, progress)
		}
	}
}

// TestBegins: what has long begun elsewhere has not here, and nobody says why. The time counts from when nothing was in its way.
func TestBegins(t *testing.T) {
	const serving = `{type: Serving, status: "True"}`
	of := func(status string) *instance.Composite {
		return parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nspec: {backup: {request: one}}\nstatus: "+status)
	}
	for status, want := range map[string]bool{
		"{conditions: [" + serving + "]}": true,
		"{conditions: [" + serving + "], requestedBackup: {request: zero, phase: Proven, begunAt: null}}":        true,
		"{conditions: [" + serving + `, {type: BackedUp, status: "False", reason: BackupMissed}]}`:               true,
		"{conditions: [" + serving + "], requestedBackup: {request: one, phase: Running, begunAt: null}}":        false,
		"{conditions: [" + serving + "], scheduledBackup: {request: noon, phase: Running, begunAt: null}}":       false,
		"{conditions: [" + serving + `, {type: Accepted, status: "False", reason: Invalid, message: Say more}]}`: false,
		"{}": false,
	} {
		at := now
		w := &awaitedBackup{request: "one", now: func() time.Time { return at }}
		for minute := range 4 {
			at = now.Add(time.Duration(minute) * time.Minute)
			_, done, err := w.look(of(status))
			if fails := want && minute == 3; done || (err != nil) != fails {
				t.Errorf("%s: in minute %d: %v, %v", status, minute, done, err)
			}
		}
	}
	at := now
	w := &awaitedBackup{request: "one", now: func() time.Time { return at }}
	for _, status := range []string{"{conditions: [" + serving + "]}", "{}", "{conditions: [" + serving + "]}"} { // A server that starts again.
		if _, _, err := w.look(of(status)); err != nil {
			t.Errorf("%s: it does not wait: %v", status, err)
		}
		at = at.Add(soonBegins + time.Second)
	}
}

// TestForwardOnly: it ends when it is told to, and when kubectl ends, with what that has said.
func TestForwardOnly(t *testing.T) {
	for name, script := range map[string]string{"Told": untilItEnds, "Ended": breaksOff} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := newSession(t, parse(t, whole).Unstructured, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"}})
			lines, out := io.Pipe()
			s.out = out
			s.kubectl = fakeForward(saysPort, script)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- (&connectCommand{Name: "shop", ForwardOnly: true}).run(ctx, s) }()
			if line, err := bufio.NewReader(lines).ReadString('\n'); err != nil || line != "127.0.0.1:4711\n" {
				t.Fatalf("it prints %q, %v", line, err)
			}
			if name == "Told" {
				stop()
			}
			select {
			case err := <-ended:
				if (err != nil) != (name == "Ended") || err != nil && !strings.Contains(err.Error(), "lost connection to pod") {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it does not end")
			}
		})
	}
}

// TestConnect runs the client with files that only it reads, and that are gone afterwards. Whoever stops it before there is a port gets none.
func TestConnect(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	client := filepath.Join(t.TempDir(), "client")
	text := "#!/bin/sh\ncat \"${1#--defaults-file=}\"\ntest -e \"$MYSQL_TEST_LOGIN_FILE\" || echo no login file: $2\n"
	if err := os.WriteFile(client, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, out, _ := newSession(t, parse(t, whole).Unstructured, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"}, Data: map[string][]byte{"username": []byte("root"), "password": []byte("secret")},
	})
	s.kubectl = fakeForward(saysPort, untilItEnds)
	c := &connectCommand{Name: "shop", Client: client, Args: []string{"--batch"}}
	if err := c.run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "port=4711\n") || !strings.Contains(got, `password="secret"`) || !strings.HasSuffix(got, "no login file: --batch\n") {
		t.Errorf("the client got\n%s", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}

	out.Reset()
	s.kubectl = fakeForward("", "exec sleep 60")
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if err := c.run(ctx, s); err == nil || out.Len() > 0 {
		t.Errorf("stopped before there is a port: %v, %s", err, out)
	}
}

// TestConnectToUnknown: Crossplane has met an error while the server ran, and says Unknown of what the function had said. Who wants to log in
// is let try.
func TestConnectToUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		serves string // Its condition.
		may    bool
	}{
		"Unknown": {"It runs, as far as anybody knows.", `{type: Serving, status: Unknown, reason: FatalError}`, true},
		"Not":     {"The function says that it does not.", `{type: Serving, status: "False", reason: Starting}`, false},
		"Silent":  {"Nobody has looked at the claim yet.", `{type: Synced, status: "True"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			claim := strings.Replace(whole, `{type: Serving, status: "True", reason: Serving}`, tc.serves, 1)
			s, out, _ := newSession(t, parse(t, claim).Unstructured, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"}})
			s.kubectl = fakeForward(saysPort, untilItEnds)
			err := (&connectCommand{Name: "shop", Client: "true"}).run(t.Context(), s)
			if may := err == nil || !strings.Contains(err.Error(), "takes no clients"); may != tc.may || may && err != nil {
				t.Errorf("%s Got %v, %s", tc.reason, err, out)
			}
		})
	}
}

// TestQuit: Ctrl-\ ends what runs, and leaves nothing behind.
func TestQuit(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	client := filepath.Join(t.TempDir(), "client")
	if err := os.WriteFile(client, []byte("#!/bin/sh\nls \"$TMPDIR\"\nkill -QUIT $PPID\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, out, _ := newSession(t, parse(t, whole).Unstructured, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"}, Data: map[string][]byte{"password": []byte("secret")},
	})
	s.kubectl = fakeForward(saysPort, untilItEnds)
	began := time.Now()
	if err := (&connectCommand{Name: "shop", Client: client}).run(t.Context(), s); err == nil || time.Since(began) > time.Minute {
		t.Errorf("it goes on: %v", err)
	}
	if !strings.HasPrefix(out.String(), "kubectl-mysql-") {
		t.Errorf("the client sees %q", out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// TestForgedText: what somebody wrote into a status is one cell of one line, and no word to a terminal.
func TestForgedText(t *testing.T) {
	const forged = "x\nprod\tdb\ttrue\x1b[2J"
	c := parse(t, whole)
	c.Status.Message, c.Status.ServedImage, c.Status.BackupWarning = forged, forged, forged
	var out bytes.Buffer
	if err := errors.Join(writeTable(&out, []Summary{summarize(c)}, now), writeScreen(&out, summarize(c), now)); err != nil {
		t.Fatal(err)
	}
	s, _, progress := newSession(t)
	s.sayNews(new(string), forged)
	out.Write(progress.Bytes())
	out.WriteString(plainf("it cannot be done: %s", forged).Error())
	if text := out.String(); strings.Contains(text, "\x1b") || strings.Contains(text, "\nprod") || strings.Count(text, "x prod db true [2J") != 7 {
		t.Errorf("it prints\n%q", text)
	}
}

// TestDiscard: nobody is told of a next backup where the end takes none.
func TestDiscard(t *testing.T) {
	for change, want := range map[string]string{
		"spec: {deletionPolicy: Discard}": "none yet; a deletion takes none: spec.deletionPolicy is Discard",
		"spec: {deletionPolicy: Backup}":  "none yet; the next one is on a volume",
	} {
		s := summarize(parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\n"+change))
		if got := s.backupText(now); got != want {
			t.Errorf("%s: %q", change, got)
		}
	}
	s := summarize(parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team, annotations: {otus.homework/skip-backup: u}}"))
	if got := s.backupText(now); !strings.Contains(got, "a deletion takes none: the annotation") {
		t.Errorf("skipped: %q", got)
	}
}

// TestManifests: of a file with more than a claim that claim is taken, and of more than one the one that is restored.
func TestManifests(t *testing.T) {
	claim := func(name string) string {
		return "---\napiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: " + name + "}\n"
	}
	const secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: password}\n"
	for text, want := range map[string]string{
		"# Of the shop.\n" + claim("any") + secret: "any",
		secret + claim("orders") + claim("shop"):   "shop",
		claim("orders") + claim("crm"):             "!more than one MySQL",
		claim("shop") + claim("shop"):              "!2 of them are called shop",
		secret:                                     "!has no otus.homework/v1, Kind=MySQL, but a /v1, Kind=Secret",
		"":                                         "!has no otus.homework/v1",
		"kind: {":                                  "!is no manifest",
	} {
		file := filepath.Join(t.TempDir(), "claims.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := (&restoreCommand{From: "shop", Filename: file}).read(instance.ClaimKind)
		says, fails := strings.CutPrefix(want, "!")
		if (err != nil) != fails || err != nil && !strings.Contains(err.Error(), says) || err == nil && got.GetName() != want {
			t.Errorf("%q: want %q, got %v, %v", text, want, got, err)
		}
	}
}

// TestKeepImage: a copy has the image that the instance got, and not today's default; what is said is as it was.
func TestKeepImage(t *testing.T) {
	for text, want := range map[string]any{
		"spec: {image: mysql:5.7}\nstatus: {image: mysql:8.0, servedImage: mysql:8.0}": "mysql:5.7",
		"status: {image: mysql:8.4, servedImage: mysql:8.0}":                           "mysql:8.0",
		"status: {image: mysql:8.4}":                                                   "mysql:8.4",
		"status: {}":                                                                   nil,
	} {
		of := parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\n"+text).Unstructured
		if got := (&restoreCommand{From: "shop", To: "new"}).restored(of, "team").Object["spec"].(map[string]any)["image"]; got != want {
			t.Errorf("%s: want %v, got %v", text, want, got)
		}
	}
}

// TestAdvises: notes say what to type, too.
func TestAdvises(t *testing.T) {
	note := doctor.Finding{Severity: doctor.Note, Advice: "kubectl delete job x"}
	for _, r := range []*doctor.Report{{Cluster: []doctor.Finding{note}}, {Rest: []doctor.Finding{note}}, {Instances: []doctor.Instance{{Findings: []doctor.Finding{note}}}}} {
		if !advises(r) {
			t.Errorf("it does not see %+v", r)
		}
	}
	if advises(&doctor.Report{Rest: []doctor.Finding{{Text: "look"}}}) {
		t.Error("it sees advice in none")
	}
}

// TestEphemeral: a Database without a volume has no backups, and one that is no MySQL nothing to log in with.
func TestEphemeral(t *testing.T) {
	c := parse(t, "apiVersion: zalando.org/v1\nkind: Database\nmetadata: {name: cache, namespace: team}\nspec: {name: cache, type: mongo}\nstatus: {message: Running}\n")
	if s := summarize(c); !strings.Contains(s.backupText(time.Now()), "goes with the pod") {
		t.Errorf("it has %+v", s)
	}
	s, _, _ := newSession(t, c.Unstructured)
	s.kind = c.GroupVersionKind()
	if err := (&connectCommand{Name: "cache"}).run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "of type mongo") {
		t.Errorf("want it said, got %v", err)
	}
	s.where = (&cli{Context: "prod"}).cluster()
	if got := s.statusOf("cache"); got != "kubectl mysql status cache --namespace team --kind Database --context prod" {
		t.Errorf("it is shown by %s", got)
	}
}

// TestDoctorIsBlind: no cluster is no reason to say that all is well, and no finding.
func TestDoctorIsBlind(t *testing.T) {
	err := (&doctorCommand{}).Run(t.Context(), &cli{Kubeconfig: filepath.Join(t.TempDir(), "none")})
	if code := agent.CodeOf(err); code != doctor.ExitBlind {
		t.Errorf("it ends with %d: %v", code, err)
	}
}

// TestNamespaceIsNotMeant: what a flag of all commands says is not passed over in silence.
func TestNamespaceIsNotMeant(t *testing.T) {
	for want, args := range map[string][]string{
		"the doctor looks at the whole cluster":    {"doctor", "--namespace", "shop"},
		"--map names the namespaces":               {"adopt", "--store", "offsite", "--namespace", "shop"},
		"--system-namespace says where the Secret": {"store-key", "offsite", "--namespace", "shop"},
		"--map a=b=c":                     {"adopt", "--store", "offsite", "--map", "a=b=c", "--kubeconfig", kubeconfig(t)},
		"--map is for backups in a store": {"adopt", "--volume", "backup-db-pvc", "--map", "a=b", "--kubeconfig", kubeconfig(t)},
	} {
		k, err := newParser(t.Context(), &cli{}).Parse(args)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		} else if err := k.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q, got %v", args, want, err)
		}
	}
}

// kubeconfig of a cluster that is not there.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
