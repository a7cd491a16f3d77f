package lifecycle

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// awaitsRestoreTest reports whether the data must be kept although its backup is verified, because the required
// restore test has not passed yet.
func awaitsRestoreTest(s *instance.State) bool {
	return s.DeletionIntent().RequiresRestorable() && backupSkippedBecause(s) == "" && canMountData(s) &&
		!meta.IsStatusConditionTrue(s.Record().Status.Conditions, v1.ConditionRestorable)
}

// waitForRestoreTest waits for the result of the restore test, which package restoretest runs.
func waitForRestoreTest(s *instance.State) steps.Step {
	r := s.Record()
	c := meta.FindStatusCondition(r.Status.Conditions, v1.ConditionRestorable)
	step := steps.Step{Action: steps.Wait, After: steps.RequeueLater, Phase: v1.DeletionRestoreTest, Percent: 100,
		Message: fmt.Sprintf("Backup %q is verified. Before the data is deleted, a server is started from a copy "+
			"of it, because backup.finalBackup.requireRestoreTest is true", r.Name)}
	if c == nil {
		return step
	}
	step.After, step.Phase = steps.RequeueForPerson, v1.DeletionBlocked
	step.Message = fmt.Sprintf("Backup %q is verified, but no server has started from it: %s. The restore test is "+
		"retried every few minutes",
		r.Name, c.Message)
	step.Hint = "To delete the data without a restore test: " + unrequireHint(s)
	return step
}

// unrequireHint returns the command that removes the requirement of a restore test.
func unrequireHint(s *instance.State) string {
	const patch = `--type=merge --patch '{"spec":{"backup":{"finalBackup":{"requireRestoreTest":false}}}}'`
	if s.Claim != nil {
		return fmt.Sprintf("kubectl patch %s --namespace %s %s %s", strings.ToLower(s.Instance.Kind), s.Instance.Namespace, s.Instance.Name,
			patch)
	}
	return fmt.Sprintf("kubectl patch %s %s", s.XR.InKubectl(), patch)
}
