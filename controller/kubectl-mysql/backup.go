package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
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
	begins := s.now().Add(soonBegins)
	claim, err = s.await(ctx, c.Name, c.Timeout, func(of *instance.Composite) (string, bool, error) {
		line, done, err := lookAtBackup(of, request)
		if err == nil && !done && s.now().After(begins) && isIdle(of, request) {
			err = plainf("the server takes clients, and no backup of it has begun: one of this text may be there from before (kubectl get msb, and kubectl describe), or the controller does not run")
		}
		return line, done, err
	})
	if err != nil {
		return err
	}
	taken := claim.Status.RequestedBackup
	if s.json {
		return writeJSON(s.out, taken)
	}
	_, err = fmt.Fprintln(s.out, taken.Backup)
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
func answerTo(c *instance.Composite, request string) *v1.RequestedBackupStatus {
	if b := c.Status.RequestedBackup; b != nil && b.Request == request {
		return b
	}
	return nil
}

// isIdle is true of a claim that could be backed up, is not, and says of no reason.
func isIdle(c *instance.Composite, request string) bool {
	return answerTo(c, request) == nil && c.Status.BackupUnderWay() == nil && meta.IsStatusConditionTrue(c.Conditions, v1.ConditionServing) && len(reasons(c.Conditions)) == 0
}

// lookAtBackup that was asked for with a text.
func lookAtBackup(c *instance.Composite, request string) (line string, done bool, err error) {
	if c.GetDeletionTimestamp() != nil {
		return "", true, plainf("the claim is being deleted: that takes a backup of its own")
	}
	b := answerTo(c, request)
	switch {
	case b != nil: // What has begun comes to its end, whatever the claim asks for meanwhile.
	case c.Spec.Backup.Request != request:
		return "", true, plainf("somebody has changed spec.backup.request to %q: where Git has the claim, ask there", c.Spec.Backup.Request)
	default:
		return waitsToBegin(c), false, nil
	}
	switch b.Phase {
	case v1.RequestedProven:
		return "Proven", true, nil
	case v1.RequestedFailed:
		return "", true, plainf("the backup has failed: %s", b.Message)
	case v1.RequestedRunning, v1.RequestedFailing:
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", b.Phase, percentText(b.Percent), b.Message)), " "), false, nil
}

// waitsToBegin says what for.
func waitsToBegin(c *instance.Composite) string {
	var said strings.Builder
	said.WriteString("Waiting for it to begin")
	if u := c.Status.BackupUnderWay(); u != nil {
		said.WriteString(", after that of " + c.Status.WhoAsksFor(u))
	}
	for _, r := range reasons(c.Conditions) {
		said.WriteString("; " + r.Reason + ": " + r.Message)
	}
	return said.String()
}
