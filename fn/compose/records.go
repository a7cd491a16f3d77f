package compose

import (
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// ownBackups are those that say in their spec that they are of the instance. A
// label is a key to look for, never a proof.
func ownBackups(i v1.Instance, all []v1.MySQLBackup) []v1.MySQLBackup {
	own := make([]v1.MySQLBackup, 0, len(all))
	for _, r := range all {
		if s := r.Spec.Instance; s.Kind == i.Kind && s.Namespace == i.Namespace && s.Name == i.Name {
			own = append(own, r)
		}
	}
	return own
}

// isUnfinished is also what has no phase, or one that this version does not know.
func isUnfinished(r *v1.MySQLBackup) bool { return !r.IsProven() && r.Status.Phase != v1.BackupFailed }

func phaseOf(r *v1.MySQLBackup) v1.BackupPhase {
	if r.Status.Phase == "" {
		return v1.BackupPending
	}
	return r.Status.Phase
}

// inSentence is what a record says of itself, behind what is said of it.
func inSentence(message string) string {
	if message == "" {
		return ""
	}
	return ". " + message
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkArchive refuses a record that points out of its volume.
func checkArchive(backup string, a *v1.Archive) error {
	switch {
	case checkPlace(backup, a) != nil:
		return checkPlace(backup, a)
	case a.Store != "" && len(validation.IsDNS1123Subdomain(a.Store)) > 0:
		return newRefusal(v1.ReasonInvalid, "MySQLBackup %q: archive.store %q is not the name of a BackupStore", backup, a.Store)
	case a.Store == "" && len(validation.IsDNS1123Subdomain(a.PVCName)) > 0:
		return newRefusal(v1.ReasonInvalid, "MySQLBackup %q: archive.pvcName %q is not the name of a PersistentVolumeClaim", backup, a.PVCName)
	case a.Path == "" || path.IsAbs(a.Path) || path.Clean(a.Path) != a.Path || a.Path == "." || strings.HasPrefix(a.Path, "../") || a.Path == ".." || strings.HasPrefix(a.Path, "-"):
		return newRefusal(v1.ReasonInvalid, "MySQLBackup %q: archive.path %q does not lie below the root of its volume", backup, a.Path)
	case !sha256Pattern.MatchString(a.SHA256):
		return newRefusal(v1.ReasonInvalid, "MySQLBackup %q: archive.sha256 is not a SHA-256 sum", backup)
	}
	return nil
}
