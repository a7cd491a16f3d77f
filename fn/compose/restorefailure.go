package compose

import (
	"fmt"
	"regexp"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// exitCode in the message that the Job controller writes when a pod failure
// policy ends a Job (matchesFailJob in pkg/controller/job/pod_failure_policy.go
// of Kubernetes).
var exitCode = regexp.MustCompile(`failed with exit code (\d+)`)

// restoreFailure says what a failed restore Job means, and what to do.
func restoreFailure(j *batchv1.Job, from *v1.RestoreStatus) string {
	backup, again := from.Backup, fmt.Sprintf("then delete Job %s, and it is tried again", qualifiedName(j.Namespace, j.Name))
	message := jobCondition(j, batchv1.JobFailed).Message
	code := 0
	if m := exitCode.FindStringSubmatch(message); m != nil {
		code, _ = strconv.Atoi(m[1]) // Digits only; what does not fit matches no case.
	}
	if from.Import != nil {
		return importFailure(code, from.Import.String(), message, qualifiedName(j.Namespace, j.Name), again)
	}
	switch code {
	case agent.ExitVersion:
		return fmt.Sprintf("Backup %q was written by a server that spec.image cannot take over from, a newer one or one too far behind; nothing was written. Set spec.image to that server's version, %s", backup, again)
	case agent.ExitUnclean:
		return fmt.Sprintf("The server that wrote backup %q did not stop cleanly, and MySQL upgrades only what did; nothing was written. Set spec.image to the very version that wrote it, %s", backup, again)
	case agent.ExitDamaged:
		return fmt.Sprintf("The archive of backup %q is damaged: its checksum does not hold; nothing was restored. Bring the file back, %s; or create the claim again with spec.restore.backup set to an older one", backup, again)
	case agent.ExitMissing:
		return fmt.Sprintf("The archive of backup %q or its manifest.json is not on its volume. Bring it back, %s; or create the claim again with spec.restore.backup set to another one", backup, again)
	case agent.ExitOccupied:
		return fmt.Sprintf("The data volume already holds a database, so backup %q was not restored over it. Look at the volume, %s", backup, again)
	case agent.ExitNoSpace:
		return fmt.Sprintf("Backup %q does not fit on the data volume. Let the volume grow, %s", backup, again)
	}
	return fmt.Sprintf("Restoring backup %q has failed (%s); the server does not start. Look at the log of Job %s, mend the cause, %s", backup, orUnknown(message), qualifiedName(j.Namespace, j.Name), again)
}

func orUnknown(s string) string {
	if s == "" {
		return "the Job does not say why"
	}
	return s
}
