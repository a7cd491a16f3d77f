package compose

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// ownBackups returns the BackupRecords whose spec names the instance. A label alone does not prove that a
// BackupRecord belongs to it.
func ownBackups(i v1.Instance, all []v1.BackupRecord) []v1.BackupRecord {
	own := make([]v1.BackupRecord, 0, len(all))
	for _, r := range all {
		if s := r.Spec.Instance; s.Kind == i.Kind && s.Namespace == i.Namespace && s.Name == i.Name {
			own = append(own, r)
		}
	}
	return own
}

// isUnfinished reports whether a BackupRecord is neither verified nor failed, including an empty or unknown phase.
func isUnfinished(r *v1.BackupRecord) bool {
	return !r.IsVerified() && r.Status.Phase != v1.BackupFailed
}

func phaseOf(r *v1.BackupRecord) v1.BackupPhase {
	if r.Status.Phase == "" {
		return v1.BackupPending
	}
	return r.Status.Phase
}

// inSentence returns a message in a form that can be appended to another sentence.
func inSentence(message string) string {
	if message == "" {
		return ""
	}
	return ". " + message
}

// backupName returns the name of the Backup of a BackupRecord, or the name of the BackupRecord if it was not read.
func (r *resolved) backupName(record string) string {
	for _, b := range slices.Concat(r.Required.Records.Items, r.Required.Named.Items) {
		if b.Name == record {
			return b.BackupName()
		}
	}
	return record
}

// describeRestore describes a restore or an import as part of a sentence.
func (r *resolved) describeRestore(from *v1.RestoreStatus) string {
	named := *from
	named.Backup = r.backupName(from.Backup)
	return named.What()
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkArchive refuses a BackupRecord with a path outside of its volume.
func checkArchive(backup string, a *v1.Archive) error {
	switch {
	case checkPlace(backup, a) != nil:
		return checkPlace(backup, a)
	case a.Store != "" && len(validation.IsDNS1123Subdomain(a.Store)) > 0:
		return newRefusal(v1.ReasonInvalid, "BackupRecord %q: archive.store %q is not a valid BackupStore name", backup,
			a.Store)
	case a.Store == "" && len(validation.IsDNS1123Subdomain(a.PVCName)) > 0:
		return newRefusal(v1.ReasonInvalid, "BackupRecord %q: archive.pvcName %q is not a valid PersistentVolumeClaim name",
			backup, a.PVCName)
	case a.Path == "" || path.IsAbs(a.Path) || path.Clean(a.Path) != a.Path || a.Path == "." ||
		strings.HasPrefix(a.Path, "../") || a.Path == ".." || strings.HasPrefix(a.Path, "-"):
		return newRefusal(v1.ReasonInvalid, "BackupRecord %q: archive.path %q is not a path below the root of its volume",
			backup, a.Path)
	case !sha256Pattern.MatchString(a.SHA256):
		return newRefusal(v1.ReasonInvalid, "BackupRecord %q: archive.sha256 is not a SHA-256 checksum", backup)
	}
	return nil
}
