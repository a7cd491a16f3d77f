package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/undo"
)

var accident = binlog.GTID{Source: "3e11fa47-71ca-11e1-9e33-c80aa9429562", Number: 23} //nolint:gochecknoglobals // A constant.

const undone = `apiVersion: otus.homework/v1
kind: MySQL
metadata: {name: shop, namespace: team, labels: {app: shop}}
spec:
  image: mysql:8.4
  database: orders
  passwordSecretRef: {name: root, key: password}
  storageSize: 1Gi
  suspend: false
  compositeDeletePolicy: Foreground
  resourceRef: {apiVersion: otus.homework/v1, kind: XMySQL, name: shop-x}
  writeConnectionSecretToRef: {name: for-shop}
  service: {type: LoadBalancer}
  metrics: {enabled: true}
  config: {max_connections: 50, loose-event-scheduler: "ON"}
  deletionPolicy: Backup
  backup: {storeRef: {name: offsite}, continuous: {}, schedule: {cron: "0 2 * * *"}}
  restore: {backup: old}
status:
  internal: {backupStore: offsite}
`

// TestTemporaryClaim checks the spec of a temporary instance: it has the same data and password, and takes no backups.
func TestTemporaryClaim(t *testing.T) {
	s, _, _ := newSession(t)
	temporary := newTemporary(s, parse(t, undone), accident, time.Second)
	got := temporary.newClaim(temporary.before, "before:"+accident.String())
	want := parse(t, `apiVersion: otus.homework/v1
kind: MySQL
metadata: {name: `+temporary.before+`, namespace: team, labels: {crossplane-mysql.io/undo: shop}}
spec:
  image: mysql:8.4
  database: orders
  passwordSecretRef: {name: root, key: password}
  storageSize: 1Gi
  config: {max_connections: 50, event_scheduler: "OFF"}
  deletionPolicy: Discard
  restore: {from: shop, at: "before:3e11fa47-71ca-11e1-9e33-c80aa9429562:23"}
`)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTemporaryName(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"shop", strings.Repeat("x", 63), strings.Repeat("x-", 30) + "x"} {
		for _, state := range []string{"before", "after"} {
			for _, number := range []int64{1, 2} {
				id := binlog.GTID{Source: accident.Source, Number: number}.String()
				got := temporaryName(name, state, id)
				if got != temporaryName(name, state, id) || seen[got] || len(got) > 52 || strings.Contains(got, "--") {
					t.Error(got)
				}
				seen[got] = true
			}
		}
	}
}

// TestTemporaryInstances checks that an earlier run's instances are used again, and that other instances are neither used
// nor deleted.
func TestTemporaryInstances(t *testing.T) {
	source := parse(t, undone)
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   string
		stays  bool
	}{
		"None":    {},
		"Earlier": {change: func(*unstructured.Unstructured) {}},
		"Foreign": {change: func(u *unstructured.Unstructured) { u.SetLabels(nil) }, want: "was not created by this command",
			stays: true},
		"Other": {change: func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "2026-11-22T18:00:00Z", "spec", "restore", "at")
		}, want: "was not created by this command"},
		"Deleted": {change: func(u *unstructured.Unstructured) {
			u.SetDeletionTimestamp(&metav1.Time{Time: now})
			u.SetFinalizers([]string{"a/b"})
		}, want: "The deletion continues", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			var existing []client.Object
			s, _, _ := newSession(t)
			temporary := newTemporary(s, source, accident, 50*time.Millisecond)
			if tc.change != nil {
				u := temporary.newClaim(temporary.before, "before:"+accident.String())
				tc.change(u)
				existing = append(existing, u)
			}
			s, _, _ = newSession(t, existing...)
			temporary.session = s
			err := temporary.createOne(t.Context(), temporary.before, "before:"+accident.String())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Error(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // Ctrl-C.
			if err := temporary.removeBoth(ctx); err != nil {
				t.Error(err)
			}
			_, err = s.get(t.Context(), s.kind, temporary.before)
			if (err == nil) != tc.stays {
				t.Errorf("it stays: %v", err == nil)
			}
		})
	}
}

// TestUndoIsRefused checks the messages for input and instances that do not allow an undo.
func TestUndoIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		command undoCommand
		claim   string
		want    string
	}{
		"Time":     {command: undoCommand{Before: "yesterday"}, want: `"yesterday" is neither a time`},
		"Table":    {command: undoCommand{Before: accident.String(), Table: []string{"orders"}}, want: "write it as DATABASE.TABLE"},
		"NotThere": {command: undoCommand{Name: "other", Before: accident.String()}, want: `there is no MySQL "other"`},
		"NoArchive": {command: undoCommand{Name: "shop", Before: accident.String()},
			claim: strings.Replace(undone, "continuous: {}", "continuous: {enabled: false}", 1), want: "is not archived"},
		"NoStore": {command: undoCommand{Name: "shop", Before: accident.String()},
			claim: strings.Replace(undone, "backupStore: offsite", "", 1), want: "is not archived"},
		"Default": {command: undoCommand{Name: "shop", Before: accident.String()},
			claim: strings.Replace(undone, "continuous: {}, ", "", 1), want: "does not accept clients"},
		"NotServing": {command: undoCommand{Name: "shop", Before: accident.String()}, want: "does not accept clients"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.claim == "" {
				tc.claim = undone
			}
			s, out, _ := newSession(t, parse(t, tc.claim).Unstructured)
			err := tc.command.run(t.Context(), s, strings.NewReader("yes\n"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}

// TestTransactionList checks the list from which a user chooses the transaction, with the likely accident first.
func TestTransactionList(t *testing.T) {
	transaction := func(number int64, kind binlog.EffectKind, statement string, size int) undo.Transaction {
		return undo.Transaction{Begin: binlog.Begin{GTID: binlog.GTID{Source: accident.Source, Number: number},
			Time: 1_796_000_000_250_000},
			Effects: []undo.Effect{{Effect: binlog.Effect{Kind: kind, Schema: "shop", Table: "orders", Statement: statement,
				Size: size}}}}
	}
	s, out, _ := newSession(t)
	err := (&undoCommand{Name: "shop"}).listTransactions(s, recoveryTarget(t), []undo.Transaction{
		transaction(1, binlog.EffectUpdate, "", 100), transaction(2, binlog.EffectDelete, "", 5<<20), transaction(3,
			binlog.EffectStatement, "DROP\n TABLE x\x1b[2J", 0),
	}, 7)
	if err == nil || !strings.Contains(err.Error(), "7 transactions after 2026-11-22T18:00:00Z") || !strings.Contains(err.Error(),
		"--before GTID") {
		t.Error(err)
	}
	want := "3e11fa47-71ca-11e1-9e33-c80aa9429562:3  2026-11-30T00:53:20.25Z  DROP TABLE x [2J\n" +
		"3e11fa47-71ca-11e1-9e33-c80aa9429562:2  2026-11-30T00:53:20.25Z  DELETE shop.orders (5 MiB of rows)\n" +
		"3e11fa47-71ca-11e1-9e33-c80aa9429562:1  2026-11-30T00:53:20.25Z  UPDATE shop.orders (100 bytes of rows)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPlanLine(t *testing.T) {
	for want, table := range map[string]undoTable{
		"s.t: the transaction deleted 5 rows and changed 1. To bring back: 3. To change back: 1. 2 rows stay, because a later " +
			"transaction wrote or " +
			"deleted them. 9 rows that the transaction inserted stay.": {Table: "s.t", Deleted: 5, Changed: 1, Insert: 3,
			Update: 1, Conflicts: 2, Inserted: 9},
		"s.t: the transaction dropped the table, which had 5 rows. The table is created again first, outside of the transaction. To " +
			"bring back: 5. " +
			"To change back: 0.": {Table: "s.t", IsCreated: true, Deleted: 5, Insert: 5},
	} {
		if got := table.planLine(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestAnswer checks that an answer is read once, and that Ctrl-C ends the wait.
func TestAnswer(t *testing.T) {
	for text, want := range map[string]string{"yes\n": "yes", "  yes  \nmore": "yes", "": "", "y": "y"} {
		if got, err := readLine(t.Context(), strings.NewReader(text)); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if _, err := readLine(ctx, blocked{}); err == nil || err.Error() != "stopped" {
		t.Error(err)
	}
}

// blocked is an io.Reader that never returns, like a terminal without input.
type blocked struct{}

func (blocked) Read([]byte) (int, error) { select {} }

// TestTrust checks that a server needs a certificate of the authority in the connection Secret.
func TestTrust(t *testing.T) {
	if _, err := trustOf(&corev1.Secret{Data: map[string][]byte{v1.CAKey: []byte("x")}}); err == nil {
		t.Error("a Secret without a certificate is accepted")
	}
	authority := func() certificate.Pair {
		out, err := certificate.NewAuthority(time.Now(), "server")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	own, other := authority(), authority()
	trusted, err := trustOf(&corev1.Secret{Data: map[string][]byte{v1.CAKey: own.Certificate}})
	if err != nil {
		t.Fatal(err)
	}
	for issuer, want := range map[*certificate.Pair]bool{&own: true, &other: false} {
		served, err := issuer.Sign(time.Now(), certificate.Names{DNS: []string{"shop.team.svc"}})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := certificate.Parse(served.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if err := trusted.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}); (err == nil) != want {
			t.Error(err)
		}
	}
	if trusted.VerifyConnection(tls.ConnectionState{}) == nil {
		t.Error("a server without a certificate is accepted")
	}
}

func recoveryTarget(t *testing.T) recovery.Target {
	t.Helper()
	out, err := recovery.ParseTarget("2026-11-22T18:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	return out
}
