package lifecycle

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// awaitsRestoreTest is true if the data has to stay, its proven backup notwithstanding:
// a server must have started from that first.
func awaitsRestoreTest(s *instance.State) bool {
	return s.Word().RequiresRestorable() && backupSkippedBecause(s) == "" && canMountData(s) &&
		!meta.IsStatusConditionTrue(s.Record().Status.Conditions, v1.ConditionRestorable)
}

// waitForRestoreTest waits for the word of the restore test, which is package restoretest's work.
func waitForRestoreTest(s *instance.State) steps.Step {
	r := s.Record()
	c := meta.FindStatusCondition(r.Status.Conditions, v1.ConditionRestorable)
	step := steps.Step{Action: steps.Wait, After: steps.RequeueLater, Phase: v1.DeletionRestoreTest, Percent: 100, Message: fmt.Sprintf("Backup %q is proven; a server is started from a copy of it before anything goes, as backup.requireRestorable says", r.Name)}
	if c == nil {
		return step
	}
	step.After, step.Phase = steps.RequeueForPerson, v1.DeletionHeld
	step.Message = fmt.Sprintf("Backup %q is proven, but no server has run on it: %s. It is tried again every few minutes", r.Name, c.Message)
	step.Hint = "To let the data go without: " + unrequireHint(s)
	return step
}

// unrequireHint is the command by which a person decides otherwise.
func unrequireHint(s *instance.State) string {
	const patch = `--type=merge --patch '{"spec":{"backup":{"requireRestorable":false}}}'`
	kind := strings.ToLower(s.Life.Kind)
	if s.Claim != nil {
		return fmt.Sprintf("kubectl patch %s --namespace %s %s %s", kind, s.Life.Namespace, s.Life.Name, patch)
	}
	return fmt.Sprintf("kubectl patch x%s %s %s", kind, s.XR.GetName(), patch)
}
