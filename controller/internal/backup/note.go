package backup

import (
	"path"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A record is an index that anybody may delete who may delete records. What is
// proven stands on the volume first, which holds the archive:
//
//	the Job's report ─▶ the note on the volume ─▶ the record is Proven
//
// From the note on the backup is proven: a record that is gone is made again from it, and the data
// is let go when the record, too, says Proven.

// WriteIndex makes the record say what the volume knows already: the backup of this dying
// life is proven.
func WriteIndex(s *instance.State) steps.Step {
	step := steps.Step{Action: steps.MarkProven, Attempt: steps.AttemptRunning, Percent: 100, Message: "The backup is proven"}
	if s.Record() == nil {
		step.Action = steps.RecreateBackup
	}
	return step
}

// noteBackup on the volume that the Job's PVC is bound to, or in the store.
func noteBackup(s *instance.State, _ steps.Step) []change.Change {
	r := s.Record().DeepCopy()
	r.Spec = provenSpec(s)
	if s.Store() != "" {
		return append(writePublished(s, r.Note()), publishNote(s, r))
	}
	return []change.Change{catalog.WriteNote(s.BackupPV, r)}
}

// provenSpec is what the record will say, by the Job's report.
func provenSpec(s *instance.State) v1.MySQLBackupSpec {
	spec, report := *s.Record().Spec.DeepCopy(), s.Backup.Report
	spec.Archive = &v1.Archive{
		SHA256:    report.SHA256,
		Size:      resource.NewQuantity(report.Size, resource.BinarySI).String(),
		DataBytes: report.DataBytes,
	}
	if store := s.Store(); store != "" {
		spec.Archive.Store, spec.Archive.Path = store, path.Join(StoreFolder(s), report.Archive)
	} else {
		spec.Archive.PVCName, spec.Archive.Path = s.Life.BackupPVCName(), path.Join(s.Attempt().Record, catalog.ArchiveName)
	}
	spec.Version, spec.CleanShutdown = report.Version, report.CleanShutdown
	return spec
}

// markProven writes the record of a dying life, as the note says.
func markProven(s *instance.State, _ steps.Step) []change.Change {
	proven := catalog.ProveAsNoted(s.Record(), s.OwnNote(), s.Now)
	if n := s.OwnNote(); n.Store != "" {
		return append([]change.Change{tidyStore(s, n)}, proven...)
	}
	return proven
}

func recreateBackup(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{catalog.MakeRecordAgain(s.OwnNote())}
}

// deleteUnprovenBackup deletes records that were announced and will never be proven, and what lies in a store of them. Their
// finalizer goes at the next look, so that a crash in between leaves only that to do.
func deleteUnprovenBackup(s *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, 2*len(step.Targets))
	for _, r := range step.Targets {
		if s.Store() != "" && r.GetDeletionTimestamp() != nil {
			out = append(out, catalog.DiscardAttempts(s, r))
		}
		out = append(out, steps.DeleteOrRelease(r))
	}
	return out
}
