package backup

import (
	"encoding/json"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A BackupRecord is only an index entry. A user with permission to delete BackupRecords can delete it. The result of a
// backup is therefore stored first in the catalog on the volume that contains the archive:
//
//	the Job's report ─▶ the catalog entry on the volume ─▶ the phase of the BackupRecord
//
// The backup is verified once the catalog entry exists. The controller creates a missing BackupRecord again from the
// entry. It releases the data only when the phase of the BackupRecord is also updated.

// WriteIndex updates the BackupRecord from the catalog entry of a verified backup.
func WriteIndex(s *instance.State) steps.Step {
	step := steps.Step{Action: steps.MarkVerified, Attempt: steps.AttemptRunning, Percent: 100,
		Message: "The backup is verified"}
	if s.Record() == nil {
		step.Action = steps.RecreateBackup
	}
	return step
}

// recordBackup writes the catalog entry to the volume that the Job's PVC is bound to, or to the store.
func recordBackup(s *instance.State, _ steps.Step) []change.Change {
	r := s.Record().DeepCopy()
	r.Spec = verifiedSpec(s)
	if s.Store() != "" {
		return append(writePublished(s, r.Entry()), publishEntry(s, r))
	}
	return []change.Change{catalog.WriteEntry(s.BackupPV, r)}
}

// verifiedSpec returns the spec of the verified BackupRecord, from the Job's report.
func verifiedSpec(s *instance.State) v1.BackupRecordSpec {
	spec, report := *s.Record().Spec.DeepCopy(), s.BackupJob.Report
	spec.Archive = &v1.Archive{
		SHA256:    report.SHA256,
		Size:      resource.NewQuantity(report.Size, resource.BinarySI).String(),
		DataBytes: report.DataBytes,
	}
	if store := s.Store(); store != "" {
		spec.Archive.Store, spec.Archive.Path = store, path.Join(StorePrefix(s), report.Archive)
	} else {
		spec.Archive.PVCName, spec.Archive.Path = s.Instance.BackupPVCName(), path.Join(s.Attempt().Record, catalog.ArchiveName)
	}
	spec.Version, spec.CleanShutdown = report.Version, report.CleanShutdown
	spec.CompletedAt = finishedAt(report.Manifest)
	return spec
}

// finishedAt returns the time at which an archive in a store was completed, from its manifest. It returns nil for an archive
// on a volume, because its Job does not report the manifest.
func finishedAt(manifest json.RawMessage) *metav1.Time {
	var m struct {
		FinishedAt time.Time `json:"finishedAt"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil || m.FinishedAt.IsZero() {
		return nil
	}
	return &metav1.Time{Time: m.FinishedAt.Truncate(time.Second)}
}

// markVerified updates the BackupRecord from the catalog entry.
func markVerified(s *instance.State, _ steps.Step) []change.Change {
	verified := catalog.VerifyAsRecorded(s.Record(), s.OwnEntry(), s.Now)
	if n := s.OwnEntry(); n.Store != "" {
		return append([]change.Change{removeLeftovers(s, n)}, verified...)
	}
	return verified
}

func recreateBackup(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{catalog.MakeRecordAgain(s.OwnEntry())}
}

// deleteUnprovenBackup deletes BackupRecords whose backups will never be verified, and their files in the store. It
// removes their finalizer in the next reconcile, so that a crash in between is harmless.
func deleteUnprovenBackup(s *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, 2*len(step.Targets))
	for _, r := range step.Targets {
		if s.Store() != "" && r.GetDeletionTimestamp() != nil {
			out = append(out, catalog.RemoveAttempts(s, r))
		}
		out = append(out, steps.DeleteOrRelease(r))
	}
	return out
}
