package compose

import (
	"fmt"
	"regexp"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// exitCode matches the exit code in the message of a Job that its pod failure policy has stopped (matchesFailJob in
// pkg/controller/job/pod_failure_policy.go of Kubernetes).
var exitCode = regexp.MustCompile(`failed with exit code (\d+)`)

// restoreFailure explains why a restore Job failed, and how to fix the cause. backup is the name of the Backup.
func restoreFailure(j *batchv1.Job, from *v1.RestoreStatus, backup string) string {
	retry := fmt.Sprintf("Then delete Job %s to retry",
		qualifiedName(j.Namespace, j.Name))
	message := jobCondition(j, batchv1.JobFailed).Message
	code := 0
	if m := exitCode.FindStringSubmatch(message); m != nil {
		code, _ = strconv.Atoi(m[1]) // The match has only digits. A number that is too large matches no case.
	}
	if from.Import != nil {
		return importFailure(code, from.Import.String(), message, qualifiedName(j.Namespace, j.Name), retry)
	}
	switch code {
	case agent.ExitVersion:
		return fmt.Sprintf("Backup %q is from a server that is newer than spec.image, or too old to be upgraded to it. "+
			"Nothing was written. Set spec.image to the version of that server. %s", backup, retry)
	case agent.ExitUnclean:
		return fmt.Sprintf("Backup %q is from a server that did not shut down cleanly, and MySQL upgrades data only after "+
			"a clean shutdown. Nothing was written. Set spec.image to the exact version of that server. %s", backup, retry)
	case agent.ExitDamaged:
		return fmt.Sprintf("The archive of backup %q is damaged, because its checksum does not match. Nothing was "+
			"restored. Replace the file with an intact copy. %s. Or create the claim again with spec.restore.backup set to "+
			"an older backup", backup, retry)
	case agent.ExitMissing:
		return fmt.Sprintf("The archive of backup %q or its manifest.json is missing. Put the file back. %s. Or create "+
			"the claim again with spec.restore.backup set to another backup", backup, retry)
	case agent.ExitOccupied:
		return fmt.Sprintf("The data volume already contains a database, so backup %q was not restored. Check the content "+
			"of the volume. %s", backup, retry)
	case agent.ExitTarget:
		return fmt.Sprintf("The archived binary log does not lead from backup %q to spec.restore.at. Nothing was restored. See "+
			"the log of Job %s. Create the claim again with another time", backup, qualifiedName(j.Namespace, j.Name))
	case agent.ExitNoSpace:
		return fmt.Sprintf("Backup %q does not fit on the data volume. Increase the storage "+
			"size in the spec. %s", backup, retry)
	}
	return fmt.Sprintf("Restoring backup %q has failed (%s), and the server does not start. See the log of Job %s, and "+
		"fix the cause. %s", backup, orUnknown(message), qualifiedName(j.Namespace, j.Name), retry)
}

func orUnknown(s string) string {
	if s == "" {
		return "the Job reports no reason"
	}
	return s
}
