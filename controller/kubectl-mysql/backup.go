package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// backupCommand is `kubectl mysql backup`.
type backupCommand struct {
	Name    string        `arg:""          help:"Name of the claim."`
	Method  string        `default:""      enum:",Online,Cold"                                                                         help:"Online, for which the server goes on, or Cold, for which it is stopped; the claim's where it is not said, else Online. Planned backups are taken in the same way: of a claim with a schedule it is not changed here."`
	Request string        `help:"Text that the claim asks with, spec.backup.request: one that it had before asks for nothing. The time where it is not said." placeholder:"TEXT"`
	Wait    bool          `default:"true"  help:"Wait until the backup is proven." negatable:""`
	Timeout time.Duration `default:"1h"    help:"How long to wait; what was asked for goes on."`
}

// Help that follows the flags.
func (*backupCommand) Help() string {
	return "It changes spec.backup.request and spec.backup.method of the claim. Where Git has the claim, change them there."
}

// Run it.
func (c *backupCommand) Run(ctx context.Context, of *cli) error {
	s, err := of.open()
	if err != nil {
		return err
	}
	return c.run(ctx, s)
}

func (c *backupCommand) run(ctx context.Context, s *session) error {
	claim, err := s.find(ctx, c.Name)
	if err != nil {
		return err
	}
	request := cmp.Or(c.Request, "kubectl-"+s.now().UTC().Format(time.RFC3339))
	patch, err := backupPatch(claim, request, v1.BackupMethod(c.Method))
	if err != nil {
		return err
	}
	if err := s.kube.Patch(ctx, claim.Unstructured, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return err
	}
	s.sayf("Asked for the backup %q of %s %s/%s.", request, claim.GetKind(), s.namespace, c.Name)
	switch {
	case c.Wait:
	case s.json:
		return writeJSON(s.out, map[string]string{"request": request})
	default:
		return nil
	}
	w := &awaitedBackup{request: request, now: s.now}
	if _, err = s.await(ctx, c.Name, c.Timeout, w.look); err != nil {
		return err
	}
	if s.json {
		return writeJSON(s.out, w.answer)
	}
	_, err = fmt.Fprintln(s.out, w.answer.Backup)
	return err
}

// backupPatch of a claim that asks for a backup.
func backupPatch(claim *instance.Composite, request string, method v1.BackupMethod) ([]byte, error) {
	if claim.GetDeletionTimestamp() != nil {
		return nil, plainf("%s %s is being deleted, and backed up for that", claim.GetKind(), claim.GetName())
	}
	if claim.Spec.Suspended {
		return nil, plainf("%s is suspended, and nothing changes in it: the backup would be taken once spec.suspended is false", claim.GetName())
	}
	is := &claim.Spec.Backup
	if is.Request == request {
		return nil, plainf("the claim asks for %q already: each new text asks for a backup", request)
	}
	if last := answerTo(claim, request); last != nil {
		return nil, plainf("the claim has asked for %q before (%s): each new text asks for a backup", request, last.Phase)
	}
	if method != "" && is.Method != method && is.Schedule != "" {
		return nil, plainf("the backups of spec.backup.schedule are taken by spec.backup.method, too, which is %s: change it in the claim, or leave out --method", cmp.Or(is.Method, "not set"))
	}
	return json.Marshal(map[string]any{"spec": map[string]any{"backup": map[string]any{
		"request": request, "method": cmp.Or(method, is.Method, v1.MethodOnline),
	}}})
}

// soonBegins is when a controller that runs has long begun a backup that nothing is in the way of.
const soonBegins = 2 * time.Minute

// answerTo a request; nil where the last one was another.
func answerTo(c *instance.Composite, request string) *v1.LastBackupStatus {
	if b := c.Status.RequestedBackup; b != nil && b.Request == request {
		return b
	}
	return nil
}

// An awaitedBackup is one that was asked for with a text.
type awaitedBackup struct {
	request string
	now     func() time.Time
	// answer to it, as it was seen last; nil before it has begun.
	answer *v1.LastBackupStatus
	// idleSince is when nothing was in its way, and it had not begun.
	idleSince time.Time
}

// look at a claim that asks for it.
func (w *awaitedBackup) look(c *instance.Composite) (line string, done bool, err error) {
	if c.GetDeletionTimestamp() != nil {
		return "", true, plainf("the claim is being deleted: that takes a backup of its own")
	}
	b := answerTo(c, w.request)
	switch {
	case b != nil: // What has begun comes to its end, whatever the claim asks for meanwhile.
		w.answer = b
	case w.answer != nil:
		return w.lookBehind(c)
	case c.Spec.Backup.Request != w.request:
		return "", true, plainf("somebody has changed spec.backup.request to %q: where Git has the claim, ask there", c.Spec.Backup.Request)
	default:
		return waitsToBegin(c), false, w.checkBegins(c)
	}
	switch b.Phase {
	case v1.LastBackupProven:
		return string(v1.LastBackupProven), true, nil
	case v1.LastBackupFailed:
		return "", true, plainf("the backup has failed: %s", b.Message)
	case v1.LastBackupRunning, v1.LastBackupFailing:
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", b.Phase, percentText(b.Percent), b.Message)), " "), false, nil
}

// lookBehind an answer that came after ours, between two looks: that begins when ours is over, and the first backup that was proven since
// ours began is ours.
func (w *awaitedBackup) lookBehind(c *instance.Composite) (line string, done bool, err error) {
	for _, b := range slices.Backward(c.Status.Backups) { // The newest is the first.
		if b.Phase == v1.BackupProven && b.ProvenAt != nil && !b.ProvenAt.Before(&w.answer.BegunAt) {
			ours := *w.answer
			ours.Phase, ours.Backup, ours.Percent, ours.Message = v1.LastBackupProven, b.Name, 0, ""
			w.answer = &ours
			return string(v1.LastBackupProven), true, nil
		}
	}
	return "", true, plainf("the backup is over, and was not seen to be proven: another one was begun since, which was asked for with %q. kubectl get msb has all", c.Status.RequestedBackup.Request)
}

// checkBegins fails where nothing has long been in its way.
func (w *awaitedBackup) checkBegins(c *instance.Composite) error {
	switch {
	case !isIdle(c):
		w.idleSince = time.Time{}
	case w.idleSince.IsZero():
		w.idleSince = w.now()
	case w.now().Sub(w.idleSince) > soonBegins:
		return plainf("the server takes clients, and no backup of it has begun: one of this text may be there from before (kubectl get msb, and kubectl describe), or the controller does not run")
	}
	return nil
}

// isIdle is true of a claim that could be backed up, is not, and says of no reason.
func isIdle(c *instance.Composite) bool {
	return c.Status.BackupUnderWay() == nil && meta.IsStatusConditionTrue(c.Conditions, v1.ConditionServing) && len(obstacles(c)) == 0
}

// obstacles to a backup. A planned one that is missing is none.
func obstacles(c *instance.Composite) []Reason {
	return slices.DeleteFunc(reasons(c.Conditions), func(r Reason) bool { return r.Condition == v1.ConditionBackedUp })
}

// waitsToBegin says what for.
func waitsToBegin(c *instance.Composite) string {
	text := "Waiting for it to begin"
	if u := c.Status.BackupUnderWay(); u != nil {
		text += ", after that of " + c.Status.WhoAsksFor(u)
	}
	return withReasons(text, obstacles(c))
}
