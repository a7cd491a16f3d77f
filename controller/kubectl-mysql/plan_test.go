package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

const planned = `{message: Suspended, backups: {recoveryPlan: {at: "2026-11-22T18:00:00.25Z", backup: shop-20261122-020000,
  backupTime: "2026-11-22T02:00:30Z", segments: 42, transactions: 1000, fetchSize: 130Mi, applySize: 12Mi,
  estimatedDuration: 2m30s, lastTransaction: {gtid: "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", commitTime: "2026-11-22T17:59:58.5Z"},
  nextTransaction: {gtid: "3e11fa47-71ca-11e1-9e33-c80aa9429562:24", commitTime: "2026-11-22T18:00:01Z"}}}}`

const wantPlan = `Recovery of team/shop to 2026-11-22T18:00:00.25Z
  Backup           shop-20261122-020000, completed at 2026-11-22T02:00:30Z
  Binary log       1000 transactions in 42 segments since the backup began
  To fetch         130Mi from the store
  To apply         12Mi of binary log, in addition to the data of the backup
  Estimated time   about 2m30s
  Last included    3e11fa47-71ca-11e1-9e33-c80aa9429562:23, committed at 2026-11-22T17:59:58.5Z
  First excluded   3e11fa47-71ca-11e1-9e33-c80aa9429562:24, committed at 2026-11-22T18:00:01Z
`

// TestPlan checks what a dry run prints. It checks that the temporary instance is suspended, and that it is deleted in any
// case: after a plan, a refusal, a timeout, Ctrl-C, and errors of the API server.
func TestPlan(t *testing.T) {
	resource := schema.GroupResource{Group: "otus.homework", Resource: "mysqls"}
	busy := kerrors.NewServiceUnavailable("busy")
	denied := kerrors.NewForbidden(resource, "x", errors.New("not you"))
	for name, tc := range map[string]struct {
		// status is the status of the temporary instance after some reads.
		status  string
		json    bool
		limit   time.Duration
		stopped bool
		// creation and deletion are the errors of the API server for these requests. lost is true if it executes the
		// failed request nevertheless. times is the number of deletions that fail.
		creation, deletion error
		lost               bool
		times              int
		out, says          string
		broken             []string
		left               int
	}{
		"Plan": {status: planned, out: wantPlan, says: "run the same command without --dry-run"},
		"JSON": {status: planned, json: true, out: `"estimatedDuration": "2m30s"`},
		"Refused": {status: `{conditions: [{type: Accepted, status: "False", reason: Invalid, message: "Possible is a to b"}]}`,
			broken: []string{"the recovery is not possible: Possible is a to b"}},
		"Waits": {status: `{message: "Suspended: waiting for the store"}`, limit: 40 * time.Millisecond,
			says:   "Suspended: waiting for the store",
			broken: []string{"stopped waiting (the timeout of 40ms expired)", "There is no plan yet"}},
		"CtrlC":       {stopped: true, broken: []string{"stopped waiting (context canceled)", "There is no plan yet"}},
		"Forbidden":   {creation: denied, broken: []string{"not you"}},
		"NotCreated":  {creation: busy, broken: []string{"busy"}},
		"CreatedLost": {creation: busy, lost: true, broken: []string{"busy"}},
		"DeleteBusy":  {status: planned, deletion: busy, times: 3, out: wantPlan},
		"DeleteDenied": {status: planned, deletion: denied, times: 99, out: wantPlan, left: 1,
			broken: []string{"cannot be deleted", "not you", "kubectl delete mysql recovery-plan-", "--namespace team"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := parse(t, whole).Unstructured
			source.SetAnnotations(map[string]string{"argocd.argoproj.io/tracking-id": "x"})
			s, out, progress := newSession(t, source)
			s.json = tc.json
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			kube, reads, deletions := s.kube.(client.WithWatch), 0, 0
			s.kube = interceptor.NewClient(kube, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					checkTemporary(t, o)
					if tc.creation == nil || tc.lost {
						if err := c.Create(ctx, o, opts...); err != nil {
							return err
						}
					}
					return tc.creation
				},
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if err := c.Get(ctx, k, o, opts...); err != nil || !strings.HasPrefix(k.Name, planPrefix) {
						return err
					}
					if reads++; tc.stopped {
						stop()
					}
					if reads > 2 && tc.status != "" {
						status := map[string]any{}
						if err := yaml.Unmarshal([]byte(tc.status), &status); err != nil {
							return err
						}
						o.(*unstructured.Unstructured).Object["status"] = status
					}
					return nil
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if err := ctx.Err(); err != nil {
						return err
					}
					if deletions++; tc.deletion != nil && deletions <= tc.times {
						return tc.deletion
					}
					return c.Delete(ctx, o, opts...)
				},
			})
			c := &restoreCommand{From: "shop", To: "shop-2", At: "2026-11-22T18:00:00.25Z", DryRun: true, Timeout: max(tc.limit, time.Second)}
			if tc.limit > 0 {
				c.Timeout = tc.limit
			}
			err := c.run(ctx, s)
			if (err != nil) != (tc.broken != nil) {
				t.Errorf("got the error %v", err)
			}
			for _, part := range tc.broken {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("want %q, got %v", part, err)
				}
			}
			if tc.json && !strings.Contains(out.String(), tc.out) {
				t.Errorf("want %q, got %s", tc.out, out)
			} else if diff := cmp.Diff(tc.out, out.String()); diff != "" && !tc.json {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if !strings.Contains(progress.String(), tc.says) {
				t.Errorf("want %q, got %q", tc.says, progress)
			}
			all, lerr := s.list(t.Context(), "team")
			if lerr != nil || len(all) != 1+tc.left {
				t.Errorf("want %d instances, got %d, %v", 1+tc.left, len(all), lerr)
			}
		})
	}
}

// checkTemporary checks that a temporary instance is suspended, and that no other program can mistake it for its own.
func checkTemporary(t *testing.T, o client.Object) {
	t.Helper()
	u := o.(*unstructured.Unstructured)
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	if spec["suspend"] != true || spec["writeConnectionSecretToRef"] != nil || u.GetAnnotations() != nil || u.GetLabels() != nil ||
		!strings.HasPrefix(u.GetName(), planPrefix) || u.GetNamespace() != "team" ||
		!cmp.Equal(spec["restore"], map[string]any{"from": "shop", "at": "2026-11-22T18:00:00.25Z"}) {
		t.Errorf("got %v", u.Object)
	}
	if c := instance.Decode(u); c.Status.Restore != nil || c.GetFinalizers() != nil {
		t.Errorf("got %v", u.Object)
	}
}

// TestPlanLines checks the text for transactions that do not exist or are unknown.
func TestPlanLines(t *testing.T) {
	text := func(status string) string {
		lines := make([]string, 0, 3)
		for _, l := range planLines(parse(t, "apiVersion: otus.homework/v1\nkind: MySQL\nmetadata: {name: a}\nstatus: {backups: "+
			"{recoveryPlan: "+status+"}}").Status.Backups.RecoveryPlan)[5:] {
			lines = append(lines, l[0]+": "+l[1])
		}
		return strings.Join(lines, "; ")
	}
	for status, want := range map[string]string{
		"{backup: b}": "Last included: none after the backup; First excluded: none: the archived binary log contains no later " +
			"one",
		"{backup: b, message: Not read}": "Last included: unknown; First excluded: unknown; Incomplete: Not read",
		`{backup: b, message: Not read, lastTransaction: {gtid: "x:1"}, nextTransaction: {commitTime: "2026-11-22T18:00:01Z"}}`: "" +
			"Last included: x:1; First excluded: unknown, committed at 2026-11-22T18:00:01Z; Incomplete: Not read",
	} {
		if got := text(status); got != want {
			t.Errorf("%s: want %q, got %q", status, want, got)
		}
	}
}
