package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/doctor"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // A constant time.

// parse returns a claim from its YAML.
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
  backup: {method: Cold, keep: 5, schedule: "0 2 * * *"}
  restore: {policy: Latest}
status:
  message: Running
  reason: Running
  endpoint: {host: shop.team.svc, port: 3306}
  binding: {name: shop-connection}
  tls: {presentedExpirationTime: "2027-02-20T00:00:00Z"}
  backups:
    store: offsite
    recent:
    - {name: c, phase: Failed}
    - {name: b, phase: Verified, completionTime: "2026-11-27T02:00:30Z", size: 13Mi}
    - {name: a, phase: Verified, completionTime: "2026-11-26T02:00:30Z", size: 13Mi}
  internal:
    authorities: x
    servedImage: mysql:8.4
    pendingImage: mysql:9.7
    credentials: {state: InSync, changedAt: "2026-11-27T09:00:00Z"}
    backupStore: offsite
    requestedBackup: {request: one, phase: Running, method: Cold, begunAt: "2026-11-27T11:59:00Z", percent: 40, message: Backing up the data}
    backupSchedule: {schedule: "0 2 * * *", timeZone: Europe/Berlin, nextAt: "2026-11-28T01:00:00Z"}
  conditions:
  - {type: Ready, status: "True", reason: Available}
  - {type: Serving, status: "True", reason: Serving}
  - {type: Blocked, status: "True", reason: PodFailure, message: no node has room}
  - {type: PendingRestart, status: "True", reason: UpdateWaits, message: An update waits}
`

const wantScreen = `MySQL team/shop
  Status        Running
  Server        ready, mysql:8.4 (mysql:9.7 waits) at shop.team.svc:3306
  Log in with   Secret shop-connection
  Password      InSync, changed 3h ago
  Certificate   until 2027-02-20
  Last backup   b, 9h ago; the next one is in store offsite
  On demand     "one", Cold, started 60s ago: Running 40 % Backing up the data
  Next backup   2026-11-28T01:00:00Z by 0 2 * * * Europe/Berlin
  Waits for     Blocked, PodFailure: no node has room
`

// TestScreen checks the full summary of a claim, and its line in a table.
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
	want := "NAMESPACE   NAME   READY   IMAGE       LAST-BACKUP   MESSAGE\nteam        shop   true    mysql:8.4   9h " +
		"ago        Running\nteam        new    false               none          Waiting\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestNewest checks which backup is returned as the newest. An on-demand or scheduled backup may be newer or older
// than the list entries.
func TestNewest(t *testing.T) {
	listed := "backups: {recent: [{name: x, phase: Failed}, {name: old, phase: Verified}]}"
	for status, want := range map[string]string{
		"{}":               "",
		"{" + listed + "}": "old",
		"{" + listed +
			`, internal: {requestedBackup: {request: a, phase: Failed, begunAt: "2026-11-27T03:00:00Z"}}}`: "old",
		"{" + listed +
			`, internal: {requestedBackup: {request: a, phase: Verified, backup: asked, begunAt: "2026-11-27T03:00:00Z"}}}`: "asked",
		`{internal: {requestedBackup: {request: a, phase: Verified, backup: asked, begunAt: "2026-11-27T03:00:00Z"}, scheduledBackup: {request: b, phase: Verified, backup: planned, begunAt: "2026-11-27T04:00:00Z"}}}`:                                                                            "planned",
		`{backups: {recent: [{name: tonight, phase: Verified, completionTime: "2026-11-27T02:00:00Z"}]}, internal: {requestedBackup: {request: a, phase: Verified, backup: may, begunAt: "2026-05-01T03:00:00Z"}, scheduledBackup: {request: b, phase: Running, begunAt: "2026-11-27T11:00:00Z"}}}`: "tonight",
		`{backups: {recent: [{name: broken, phase: Failed}, {name: april, phase: Verified, completionTime: "2026-04-01T02:00:00Z"}]}, internal: {requestedBackup: {request: a, phase: Verified, backup: may, begunAt: "2026-05-01T03:00:00Z"}}}`:                                                    "may",
	} {
		s := summarize(
			parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nstatus: "+status))
		if got := s.Newest; (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("%s: want %q, got %+v", status, want, got)
		}
	}
}

// TestScreenOfDeletion checks the summary of a claim that is being deleted, without unknown fields.
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
	want := "MySQL team/shop\n  Server        not ready\n  Last backup   none yet; the next one is on a volume\n  " +
		"Deletion      BackingUp 7 % Backing up the data\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestNewBackup checks the created Backup, and the errors for instances that cannot be backed up.
func TestNewBackup(t *testing.T) {
	cases := map[string]struct {
		claim  string
		method v1.BackupMethod
		says   string
	}{
		"Default":  {claim: "spec: {}"},
		"Cold":     {claim: "spec: {}", method: v1.MethodCold},
		"Off":      {claim: "spec: {suspend: true}", says: "set spec.suspend to false first"},
		"Deletion": {claim: "spec: {}", says: "is being deleted"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\n"+tc.claim)
			if name == "Deletion" {
				c.SetDeletionTimestamp(&metav1.Time{Time: now})
			}
			s, _, _ := newSession(t)
			got, err := newBackup(s, c, "a", tc.method)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("got %v", err)
			}
			if want := (v1.BackupObjectSpec{Instance: v1.InstanceReference{Kind: v1.KindMySQL, Name: "shop"},
				Method: tc.method}); err == nil && (got.Spec != want || got.Namespace != "team" || got.Name != "a") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestDefaultBackupName checks that the name is valid for a Backup.
func TestDefaultBackupName(t *testing.T) {
	for instance, want := range map[string]string{
		"shop":                        "shop-20261127-120000",
		strings.Repeat("x", 60):       strings.Repeat("x", 47) + "-20261127-120000",
		strings.Repeat("x-", 30)[:60]: strings.TrimRight(strings.Repeat("x-", 30)[:47], "-") + "-20261127-120000",
	} {
		if got := defaultBackupName(instance, time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)); got != want {
			t.Errorf("%s: want %s, got %s", instance, want, got)
		}
	}
}

func orEmpty(status string) string {
	if status == "" {
		return "{}"
	}
	return status
}

// backupThat returns a Backup with a message and a condition of type Complete. The condition has the given reason.
func backupThat(reason, message string) *v1.Backup {
	b := &v1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if reason != "" {
		b.Status.Message = message
		b.Status.Conditions = []metav1.Condition{{Type: v1.ConditionComplete, Reason: reason}}
	}
	return b
}

// TestLookAtBackup checks the progress lines and the result while a command waits for an on-demand backup.
func TestLookAtBackup(t *testing.T) {
	cases := map[string]struct {
		backup *v1.Backup
		status string
		line   string
		done   bool
		says   string
	}{
		"Before": {backup: backupThat("", ""), line: "Waiting for the backup to start"},
		"Planned": {backup: backupThat(v1.ReasonBackupWaiting, "later"),
			status: `{internal: {scheduledBackup: {request: noon, phase: Running, begunAt: null}}}`,
			line:   "Waiting for the backup to start, after the scheduled backup of noon"},
		"Refused": {backup: backupThat("", ""),
			status: `{conditions: [{type: Accepted, status: "False", reason: Invalid, message: Say method}]}`,
			line:   "Waiting for the backup to start; Invalid: Say method"},
		"Running":  {backup: backupThat(v1.ReasonBackupInProgress, "Copying"), line: "Copying"},
		"Failed":   {backup: backupThat(v1.ReasonBackupFailed, "No room"), done: true, says: "has failed: No room"},
		"Verified": {backup: backupThat(v1.ReasonBackupVerified, ""), line: v1.ReasonBackupVerified, done: true},
		"Deleted":  {done: true, says: "was deleted"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nstatus: "+
				orEmpty(tc.status))
			w := &awaitedBackup{now: time.Now, read: func() (*v1.Backup, error) {
				if tc.backup == nil {
					return nil, kerrors.NewNotFound(schema.GroupResource{Resource: "backups"}, "one")
				}
				return tc.backup, nil
			}}
			line, done, err := w.look(c)
			if line != tc.line || done != tc.done || (err == nil) != (tc.says == "") || err != nil &&
				!strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %q, %v, %v", line, done, err)
			}
		})
	}
}

// TestRestored checks that the new claim has the spec of the source claim, except for fields that are valid only
// there.
func TestRestored(t *testing.T) {
	source := parse(t, whole).Unstructured
	before := source.DeepCopy()
	got, err := yaml.Marshal((&restoreCommand{From: "shop", To: "shop-2"}).restored(source, "team").Object)
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
	if diff := cmp.Diff(before, source); diff != "" {
		t.Errorf("it changed the other one: %s", diff)
	}
	moment := &restoreCommand{From: "shop", To: "shop-2", At: "2026-11-22T18:00:00Z"}
	if got := moment.restored(source, "team").Object["spec"].(map[string]any)["restore"]; !cmp.Equal(got,
		map[string]any{"from": "shop", "at": "2026-11-22T18:00:00Z"}) {
		t.Errorf("want a recovery to the time, got %v", got)
	}
	named := &restoreCommand{From: "shop", To: "shop-2", Backup: "b", InsteadOf: "a"}
	if got := named.restored(source, "team").Object["spec"].(map[string]any)["restore"]; !cmp.Equal(got,
		map[string]any{"backup": "b", "insteadOf": "a"}) {
		t.Errorf("of a backup by name: %v", got)
	}
}

// TestLookAtRestore checks that the command waits until the server accepts clients, and stops waiting if the
// restore is refused.
func TestLookAtRestore(t *testing.T) {
	cases := map[string]struct {
		status string
		backup string
		line   string
		done   bool
		says   string
	}{
		"Unseen": {status: "{}", line: "Waiting for Crossplane"},
		"Not made": {
			status: `{conditions: [{type: Synced, status: "False", reason: ReconcileError, message: no Composition}]}`,
			line:   "Waiting for Crossplane; ReconcileError: no Composition"},
		"Restoring": {status: "{message: Restoring}", line: "Restoring"},
		"Other's": {status: "{message: Restoring, restore: {backup: shop-1, phase: Running}, backups: {recent: [{name: shop-2-1, " +
			"phase: Verified}]}}", line: "Restoring"},
		"Own": {status: "{message: Restoring, restore: {backup: shop-2-1, phase: Running}, backups: {recent: [{name: " +
			"shop-2-1, phase: Verified}]}}", done: true, says: "restored from shop-2-1, the newest backup of a previous claim shop-2"},
		"Named": {status: "{message: Restoring, restore: {backup: shop-2-1, phase: Running}, backups: {recent: [{name: " +
			"shop-2-1, phase: Verified}]}}", backup: "shop-2-1", line: "Restoring"},
		"Not named": {status: "{message: Restoring, restore: {backup: shop-2-1, phase: Running}}", backup: "shop-1",
			done: true, says: "restored from shop-2-1"},
		"Failed": {status: `{conditions: [{type: Restored, status: "False", reason: RestoreFailed, message: No room}]}`,
			done: true, says: "No room"},
		"Off": {status: `{conditions: [{type: Serving, status: "False", reason: Suspended, message: Suspended}]}`,
			done: true, says: "because the manifest suspends it"},
		"Refused": {status: `{conditions: [{type: Accepted, status: "False", reason: Invalid, message: No such backup}]}`,
			done: true, says: "No such backup"},
		"Ready": {status: `{message: Running, conditions: [{type: Ready, status: "True"}]}`, line: "Running", done: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &restoreCommand{From: "shop", To: "shop-2", Backup: tc.backup}
			line, done, err := c.look(parse(t,
				"apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop-2, namespace: team}\nstatus: "+tc.status))
			if line != tc.line || done != tc.done || (err == nil) != (tc.says == "") || err != nil &&
				!strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %q, %v, %v", line, done, err)
			}
		})
	}
}

// TestClientOptions checks that the values in the option file are quoted, so that none can add another line.
func TestClientOptions(t *testing.T) {
	got := clientOptions(map[string][]byte{"username": []byte("root"), "password": []byte("a\"b\\c\n[client]\nx=y"),
		"database": []byte("orders")}, "4711", "/tmp/ca.crt")
	want :=
		"[client]\nhost=127.0.0.1\nprotocol=TCP\nport=4711\nuser=\"root\"\n" +
			"password=\"a\\\"b\\\\c\\n[client]\\nx=y\"\nssl-mode=VERIFY_CA\nssl-ca=\"/tmp/ca.crt\"\n[mysql]\ndatabase=\"orders\"\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// newSession returns a session for a cluster with these claims.
func newSession(t *testing.T, claims ...client.Object) (s *session, out, progress *bytes.Buffer) {
	t.Helper()
	scheme, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	out, progress = &bytes.Buffer{}, &bytes.Buffer{}
	return &session{
		kube: fake.NewClientBuilder().WithScheme(scheme).WithObjects(claims...).Build(), kind: instance.ClaimKind,
		namespace: "team",
		out:       out, progress: progress, now: func() time.Time { return now }, pause: time.Millisecond,
	}, out, progress
}

// TestCommands checks the output of list, status and other commands as text and as JSON, and their errors.
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
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != 1 || all[0].Endpoint != "shop.team.svc:3306" ||
		all[0].Newest.Name != "b" {
		t.Errorf("%v, %s", err, out)
	}
	if err := (&statusCommand{Name: "shpo"}).run(t.Context(), s); err == nil ||
		!strings.Contains(err.Error(), `no MySQL "shpo" in namespace team`) {
		t.Errorf("of none: %v", err)
	}
	if err := (&restoreCommand{From: "shop", To: "shop"}).run(t.Context(), s); err == nil ||
		!strings.Contains(err.Error(), "apply the claim again") {
		t.Errorf("onto itself: %v", err)
	}
	if err := (&restoreCommand{From: "gone", To: "new"}).run(t.Context(), s); err == nil ||
		!strings.Contains(err.Error(), "--filename") {
		t.Errorf("of one that is gone: %v", err)
	}
}

// TestRestoreFromFile checks that the claim of a manifest is created in the session's namespace, and that other
// kinds are refused.
func TestRestoreFromFile(t *testing.T) {
	s, out, _ := newSession(t)
	file := filepath.Join(t.TempDir(), "claim.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(whole, "namespace: team",
		"namespace: team, labels: {cost-center: '7', crossplane-mysql.io/claim-name: x}, annotations: "+
			"{kubectl.kubernetes.io/last-applied-configuration: '{}'}", 1))
	c := &restoreCommand{From: "gone", To: "new", Filename: file, Wait: true, Timeout: time.Millisecond}
	if err := c.run(t.Context(), s); err == nil ||
		!strings.Contains(err.Error(), "kubectl mysql status new --namespace team") {
		t.Errorf("it does not say how to go on: %v, %s", err, out)
	}
	made, err := s.find(t.Context(), "new")
	if err != nil || made.Spec.Restore.From == nil || *made.Spec.Restore.From != "gone" {
		t.Errorf("it made %+v, %v", made, err)
	}
	if err := c.run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "choose another name with --to") {
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

// TestModel checks a copy of a suspended claim. The copy is not suspended, and otherwise has only the claim's spec.
func TestModel(t *testing.T) {
	labelled := strings.Replace(whole, "namespace: team}", "namespace: team, labels: {cost-center: '7'}}", 1)
	s, _, _ := newSession(t, parse(t, strings.Replace(labelled, "spec:", "spec:\n  suspend: true", 1)).Unstructured)
	source, err := (&restoreCommand{From: "shop", To: "new"}).claim(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if spec := source.Object["spec"].(map[string]any); spec["suspend"] != nil || spec["image"] != "mysql:8.4" ||
		len(source.GetLabels()) != 0 || len(source.Object) != 4 {
		t.Errorf("it is %v", source.Object)
	}
}

// TestPrograms checks that commands without --wait also print JSON.
func TestPrograms(t *testing.T) {
	s, out, _ := newSession(t, parse(t, whole).Unstructured)
	s.json = true
	if err := (&backupCommand{Name: "shop", As: "two"}).run(t.Context(), s); err != nil ||
		!strings.Contains(out.String(), `"name": "two"`) || !strings.Contains(out.String(), `"kind": "Backup"`) {
		t.Errorf("backup: %v, %s", err, out)
	}
	out.Reset()
	if err := (&restoreCommand{From: "shop", To: "new"}).run(t.Context(), s); err != nil ||
		!strings.Contains(out.String(), `"name": "new"`) {
		t.Errorf("restore: %v, %s", err, out)
	}
}

// TestAwait checks that await stops if the claim is deleted, and that each line is printed once.
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

// fakeForward replaces kubectl with a shell script that runs the two given commands.
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

// TestAwaitInTrouble checks errors while waiting. A temporary error is printed once and repeated when the wait ends.
// A permanent error stops the wait.
func TestAwaitInTrouble(t *testing.T) {
	never := func(*instance.Composite) (string, bool, error) { return "", false, nil }
	for name, tc := range map[string]struct {
		err        error
		says, ends string
	}{
		"Network": {errors.New("connection refused"), "Cannot read the progress: connection refused\n",
			"the state cannot be read: connection refused"},
		"Login": {kerrors.NewUnauthorized("log in again"), "", "log in again"},
	} {
		s, _, progress := newSession(t)
		s.kube = interceptor.NewClient(fake.NewClientBuilder().Build(),
			interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
				...client.GetOption) error {
				return tc.err
			}})
		_, err := s.await(t.Context(), "shop", 50*time.Millisecond, never)
		if err == nil || !strings.Contains(err.Error(), tc.ends) ||
			!strings.Contains(err.Error(), "The operation continues: kubectl mysql status shop") || progress.String() != tc.says {
			t.Errorf("%s: %v, %q", name, err, progress)
		}
	}
}

// TestBegins checks that a backup which does not start is reported if no condition says why. The time starts when
// nothing prevents the backup any longer.
func TestBegins(t *testing.T) {
	const serving = `{type: Serving, status: "True"}`
	composite := func(status string) *instance.Composite {
		return parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\nspec: "+
			"{}\nstatus: "+
			status)
	}
	for status, want := range map[string]bool{
		"{conditions: [" + serving + "]}": true,
		"{conditions: [" + serving + "], internal: {requestedBackup: {request: zero, phase: Verified, begunAt: null}}}": true,
		"{conditions: [" + serving + `, {type: LastBackupSucceeded, status: "False", reason: BackupMissed}]}`:           true,
		"{conditions: [" + serving + "], internal: {scheduledBackup: {request: noon, phase: Running, begunAt: null}}}":  false,
		"{conditions: [" + serving + `, {type: Accepted, status: "False", reason: Invalid, message: Say more}]}`:        false,
		"{}": false,
	} {
		timestamp := now
		w := &awaitedBackup{now: func() time.Time { return timestamp },
			read: func() (*v1.Backup, error) { return backupThat("", ""), nil }}
		for minute := range 4 {
			timestamp = now.Add(time.Duration(minute) * time.Minute)
			_, done, err := w.look(composite(status))
			if fails := want && minute == 3; done || (err != nil) != fails {
				t.Errorf("%s: in minute %d: %v, %v", status, minute, done, err)
			}
		}
	}
	timestamp := now
	w := &awaitedBackup{now: func() time.Time { return timestamp },
		read: func() (*v1.Backup, error) { return backupThat("", ""), nil }}
	// The server restarts.
	for _, status := range []string{"{conditions: [" + serving + "]}", "{}", "{conditions: [" + serving + "]}"} {
		if _, _, err := w.look(composite(status)); err != nil {
			t.Errorf("%s: it does not wait: %v", status, err)
		}
		timestamp = timestamp.Add(soonBegins + time.Second)
	}
}

// TestForwardOnly checks that the command exits if it is stopped, and that it returns kubectl's error if kubectl
// exits.
func TestForwardOnly(t *testing.T) {
	for name, script := range map[string]string{"Told": untilItEnds, "Ended": breaksOff} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := newSession(t, parse(t, whole).Unstructured,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"}})
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

// TestConnect checks that only the user can read the client's files, and that the files are deleted after the client
// has exited. No client runs if the command is stopped before a port is forwarded.
func TestConnect(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	client := filepath.Join(t.TempDir(), "client")
	text := "#!/bin/sh\ncat \"${1#--defaults-file=}\"\ntest -e \"$MYSQL_TEST_LOGIN_FILE\" || echo no login file: $2\n"
	if err := os.WriteFile(client, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, out, _ := newSession(t, parse(t, whole).Unstructured, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"},
		Data:       map[string][]byte{"username": []byte("root"), "password": []byte("secret")},
	})
	s.kubectl = fakeForward(saysPort, untilItEnds)
	c := &connectCommand{Name: "shop", Client: client, Args: []string{"--batch"}}
	if err := c.run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "port=4711\n") || !strings.Contains(got, `password="secret"`) ||
		!strings.HasSuffix(got, "no login file: --batch\n") {
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

// TestConnectToUnknown checks a claim whose conditions are Unknown because Crossplane had an error while the server
// runs. The user may still log in.
func TestConnectToUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		serves string // The condition Serving.
		may    bool
	}{
		"Unknown": {"It runs, as far as anybody knows.", `{type: Serving, status: Unknown, reason: FatalError}`, true},
		"Not":     {"The function says that it does not.", `{type: Serving, status: "False", reason: Starting}`, false},
		"Silent":  {"Nobody has looked at the claim yet.", `{type: Synced, status: "True"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			claim := strings.Replace(whole, `{type: Serving, status: "True", reason: Serving}`, tc.serves, 1)
			s, out, _ := newSession(t, parse(t, claim).Unstructured,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"}})
			s.kubectl = fakeForward(saysPort, untilItEnds)
			err := (&connectCommand{Name: "shop", Client: "true"}).run(t.Context(), s)
			if may := err == nil || !strings.Contains(err.Error(), "does not accept "+
				"clients"); may != tc.may || may && err != nil {
				t.Errorf("%s Got %v, %s", tc.reason, err, out)
			}
		})
	}
}

// TestQuit checks that Ctrl-\ stops the command, and that no files are left.
func TestQuit(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	client := filepath.Join(t.TempDir(), "client")
	if err := os.WriteFile(client, []byte("#!/bin/sh\nls \"$TMPDIR\"\nkill -QUIT $PPID\nexec sleep 60\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	s, out, _ := newSession(t, parse(t, whole).Unstructured, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-connection"},
		Data:       map[string][]byte{"password": []byte("secret")},
	})
	s.kubectl = fakeForward(saysPort, untilItEnds)
	began := time.Now()
	if err := (&connectCommand{Name: "shop", Client: client}).run(t.Context(), s); err == nil ||
		time.Since(began) > time.Minute {
		t.Errorf("it goes on: %v", err)
	}
	if !strings.HasPrefix(out.String(), "kubectl-mysql-") {
		t.Errorf("the client sees %q", out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// TestForgedText checks that text from a status stays in one cell of one line, without control sequences.
func TestForgedText(t *testing.T) {
	const forged = "x\nprod\tdb\ttrue\x1b[2J"
	c := parse(t, whole)
	c.Status.Message, c.Status.ServedImage, c.Status.BackupWarning = forged, forged, forged
	var out bytes.Buffer
	if err := errors.Join(writeTable(&out, []Summary{summarize(c)}, now),
		writeScreen(&out, summarize(c), now)); err != nil {
		t.Fatal(err)
	}
	s, _, progress := newSession(t)
	s.printNews(new(string), forged)
	out.Write(progress.Bytes())
	out.WriteString(plainf("the restore is not possible: %s", forged).Error())
	if text := out.String(); strings.Contains(text, "\x1b") || strings.Contains(text, "\nprod") ||
		strings.Count(text, "x prod db true [2J") != 7 {
		t.Errorf("it prints\n%q", text)
	}
}

// TestDiscard checks that the summary mentions no next backup if the deletion takes none.
func TestDiscard(t *testing.T) {
	for change, want := range map[string]string{
		"spec: {deletionPolicy: Discard}": "none yet; a deletion takes none: spec.deletionPolicy is Discard",
		"spec: {deletionPolicy: Backup}":  "none yet; the next one is on a volume",
	} {
		s := summarize(parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\n"+
			change))
		if got := s.backupText(now); got != want {
			t.Errorf("%s: %q", change, got)
		}
	}
	s := summarize(parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team, "+
		"annotations: {crossplane-mysql.io/skip-backup: u}}"))
	if got := s.backupText(now); !strings.Contains(got, "a deletion takes none: the annotation") {
		t.Errorf("skipped: %q", got)
	}
}

// TestManifests checks that the claim is found in a file with other objects. If there are several claims, the one
// with the name is used.
func TestManifests(t *testing.T) {
	claim := func(name string) string {
		return "---\napiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: " + name + "}\n"
	}
	const secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: password}\n"
	for text, want := range map[string]string{
		"# Of the shop.\n" + claim("any") + secret: "any",
		secret + claim("orders") + claim("shop"):   "shop",
		claim("orders") + claim("crm"):             "!more than one MySQL",
		claim("shop") + claim("shop"):              "!2 of them have the name shop",
		secret:                                     "!contains no otus.homework/v1, Kind=MySQL, but a /v1, Kind=Secret",
		"":                                         "!contains no otus.homework/v1",
		"kind: {":                                  "!is not the manifest of a claim",
	} {
		file := filepath.Join(t.TempDir(), "claims.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := (&restoreCommand{From: "shop", Filename: file}).read(instance.ClaimKind)
		says, fails := strings.CutPrefix(want, "!")
		if (err != nil) != fails || err != nil && !strings.Contains(err.Error(), says) || err == nil &&
			got.GetName() != want {
			t.Errorf("%q: want %q, got %v, %v", text, want, got, err)
		}
	}
}

// TestKeepImage checks that a copy has the image of the instance and not today's default. An explicit image is not
// changed.
func TestKeepImage(t *testing.T) {
	for text, want := range map[string]any{
		"spec: {image: mysql:5.7}\nstatus: {image: mysql:8.0, internal: {servedImage: mysql:8.0}}": "mysql:5.7",
		"status: {image: mysql:8.4, internal: {servedImage: mysql:8.0}}":                           "mysql:8.0",
		"status: {image: mysql:8.4}": "mysql:8.4",
		"status: {}":                 nil,
	} {
		source := parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: shop, namespace: team}\n"+text).
			Unstructured
		if got := (&restoreCommand{From: "shop", To: "new"}).restored(source, "team").
			Object["spec"].(map[string]any)["image"]; got != want {
			t.Errorf("%s: want %v, got %v", text, want, got)
		}
	}
}

// TestAdvises checks that a command is found in every part of a report, even in a note.
func TestAdvises(t *testing.T) {
	entry := doctor.Finding{Severity: doctor.Entry, Advice: "kubectl delete job x"}
	told := doctor.Finding{Severity: doctor.Wrong, Text: "Remove the finalizer: kubectl patch mysql x"}
	for _, r := range []*doctor.Report{{Rest: []doctor.Finding{told}}, {Cluster: []doctor.Finding{entry}},
		{Rest: []doctor.Finding{entry}}, {Instances: []doctor.Instance{{Findings: []doctor.Finding{entry}}}}} {
		if !advises(r) {
			t.Errorf("it does not see %+v", r)
		}
	}
	if advises(&doctor.Report{Rest: []doctor.Finding{{Text: "look"}}}) {
		t.Error("it sees advice in none")
	}
}

// TestEphemeral checks a Database without a volume, which has no backups. A Database that is not MySQL has no MySQL
// login.
func TestEphemeral(t *testing.T) {
	c := parse(t, "apiVersion: zalando.org/v1\nkind: Database\nmetadata: {name: cache, namespace: team}\nspec: {name: "+
		"cache, type: mongo}\nstatus: {message: Running}\n")
	if s := summarize(c); !strings.Contains(s.backupText(time.Now()), "is deleted with the pod") {
		t.Errorf("it has %+v", s)
	}
	s, _, _ := newSession(t, c.Unstructured)
	s.kind = c.GroupVersionKind()
	if err := (&connectCommand{Name: "cache"}).run(t.Context(), s); err == nil ||
		!strings.Contains(err.Error(), "of type mongo") {
		t.Errorf("want it said, got %v", err)
	}
	s.flags = (&cli{Context: "prod"}).cluster()
	if got := s.statusOf("cache"); got != "kubectl mysql status cache --namespace team --kind Database --context prod" {
		t.Errorf("it is shown by %s", got)
	}
}

// TestWithoutClaim checks that the plugin finds a MySQL without a claim if --kind is not set. A claim of the same
// name takes precedence. The printed commands contain the kind.
func TestWithoutClaim(t *testing.T) {
	bare := "apiVersion: crossplane-mysql.io/v1alpha1\nkind: MySQL\nmetadata: {name: %s, namespace: team}\n" +
		"spec: {image: \"mysql:8.4\", database: shop, storageSize: 1Gi, crossplane: {resourceRefs: [{kind: Secret, " +
		"name: a}], compositionRef: {name: mysql-namespaced}}}\n"
	own := v1.GroupVersion.WithKind(v1.KindMySQL)
	newOne := func() *session {
		s, _, _ := newSession(t, parse(t, whole).Unstructured, parse(t, fmt.Sprintf(bare, "shop")).Unstructured,
			parse(t, fmt.Sprintf(bare, "alone")).Unstructured)
		s.instead = own
		return s
	}
	s := newOne()
	if c, err := s.find(t.Context(), "shop"); err != nil || c.GroupVersionKind() != instance.ClaimKind {
		t.Errorf("want the claim, got %v, %v", c, err)
	}
	if c, err := s.find(t.Context(), "alone"); err == nil {
		t.Errorf("want one kind for as long as a command runs, got %s", c.GroupVersionKind())
	}
	s = newOne()
	if c, err := s.find(t.Context(), "alone"); err != nil || c.GroupVersionKind() != own {
		t.Fatalf("want the MySQL without a claim, got %v, %v", c, err)
	}
	if got := s.statusOf("alone"); got != "kubectl mysql status alone --namespace team --kind MySQL.crossplane-mysql.io" {
		t.Errorf("it is shown by %s", got)
	}
	if _, err := newOne().find(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), `no MySQL "none"`) {
		t.Errorf("of none: %v", err)
	}
	all, err := newOne().list(t.Context(), "team")
	if err != nil || len(all) != 3 {
		t.Errorf("want all instances listed, got %d, %v", len(all), err)
	}
	made, err := (&restoreCommand{From: "alone", To: "copy"}).claim(t.Context(), newOne())
	if err != nil || made.GroupVersionKind() != own {
		t.Fatalf("want a copy of the same kind, got %v, %v", made, err)
	}
	want := map[string]any{"compositionRef": map[string]any{"name": "mysql-namespaced"}}
	if got, _, _ := unstructured.NestedMap(made.Object, "spec", "crossplane"); !cmp.Equal(want, got) {
		t.Errorf("want only what users choose of Crossplane's fields, got %v", got)
	}
}

// TestKindFlag checks that the flag accepts each kind of instance.
func TestKindFlag(t *testing.T) {
	for _, k := range instance.Kinds() {
		c := &cli{}
		if _, err := newParser(t.Context(), c).Parse([]string{"--kind", k.InstanceKind(), "list"}); err != nil ||
			c.Kind != k.InstanceKind() {
			t.Errorf("--kind %s: %v", k.InstanceKind(), err)
		}
	}
}

// TestDoctorIsBlind checks that the command reports a cluster that it cannot read, and exits with code 2.
func TestDoctorIsBlind(t *testing.T) {
	var out bytes.Buffer
	code := -1
	p := newParser(t.Context(), &cli{})
	p.Stderr, p.Exit = &out, func(c int) { code = c }
	k, err := p.Parse([]string{"doctor", "--kubeconfig", filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	k.FatalIfErrorf(k.Run())
	if code != doctor.ExitBlind || !strings.Contains(out.String(), "cannot check the cluster") {
		t.Errorf("it ended with %d: %s", code, out.String())
	}
	if help := (&doctorCommand{}).Help(); !strings.Contains(help, "2 the cluster could not be checked") {
		t.Errorf("its help is %s", help)
	}
}

// TestNamespaceIsNotMeant checks that a global flag is refused by commands that do not use it.
func TestNamespaceIsNotMeant(t *testing.T) {
	for want, args := range map[string][]string{
		"the doctor checks the whole cluster":                           {"doctor", "--namespace", "shop"},
		"use --map to specify the namespaces":                           {"adopt", "--store", "offsite", "--namespace", "shop"},
		"Use --system-namespace to specify the namespace of the Secret": {"store-key", "offsite", "--namespace", "shop"},
		"--map a=b=c": {"adopt", "--store", "offsite", "--map", "a=b=c", "--kubeconfig", kubeconfig(t)},
		"--map is only for --store": {"adopt", "--volume", "backup-db-pvc", "--map", "a=b", "--kubeconfig",
			kubeconfig(t)},
	} {
		k, err := newParser(t.Context(), &cli{}).Parse(args)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		} else if err := k.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q, got %v", args, want, err)
		}
	}
}

// kubeconfig returns the path of a kubeconfig for a cluster that does not exist.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: " +
		"'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
