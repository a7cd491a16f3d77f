package catalog

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// Actions on records whose life has ended.
const (
	// NoteRecord writes the note of a proven record that has none, or an older one.
	NoteRecord steps.Action = "NoteRecord"
	// HoldRecord puts our finalizer on a record, so that its deletion is seen, and
	// LetRecordGo takes it off: the archive stays.
	HoldRecord  steps.Action = "HoldRecord"
	LetRecordGo steps.Action = "LetRecordGo"
	// RemakeRecord makes a record again that somebody asked for, and ProveRecord
	// proves one that a volume says is proven. AnswerAsked takes the question away.
	RemakeRecord steps.Action = "RemakeRecord"
	ProveRecord  steps.Action = "ProveRecord"
	AnswerAsked  steps.Action = "AnswerAsked"
	// StartErase makes the Job that removes the archive of a record, RetryErase
	// deletes one that failed, and Erased lets all go that was kept for the archive.
	StartErase steps.Action = "StartErase"
	RetryErase steps.Action = "RetryErase"
	Erased     steps.Action = "Erased"
	// EraseFromStore removes the archive of a record from its store, and lets the record go.
	EraseFromStore steps.Action = "EraseFromStore"
	// TellRecord writes into a record's status what its deletion waits for.
	TellRecord steps.Action = "TellRecord"
	// LabelRecord moves a record among those that the function does not ask for, or back.
	LabelRecord steps.Action = "LabelRecord"
	// TellLost writes there that nobody finishes the backup, or that nobody knows whether it is proven.
	TellLost steps.Action = "TellLost"
)

// An ArchiveStep is one thing to do now about one backup.
type ArchiveStep struct {
	Action  steps.Action
	Message string
	After   time.Duration

	// What it is about.
	Record *v1.MySQLBackup
	Note   *instance.Note
	Volume *corev1.PersistentVolume
	// Changes are all that is written, in this order, up to the first that is refused.
	Changes []change.Change
}

// NextOfArchives are the things to do now, at most one for each record, note and
// volume. A record that is deleted takes nothing with it but itself:
//
//	deleted ──────────────────────────▶ the note is on the volume ─▶ the record goes, the archive stays
//	deleted, with the word for that ──▶ the archive goes ─▶ the note goes ─▶ the record goes
//	asked for, or made without status ▶ the record is what the note says
//	without volume and life ──────────▶ it says so: it holds the name until a person decides
//
// A record whose life has not ended is that life's affair, until it is proven and the life goes on.
func NextOfArchives(a *instance.Archives) []ArchiveStep {
	var out []ArchiveStep
	add := func(step ArchiveStep) {
		if step.Action != steps.NoOp {
			step.Changes = changesOnArchive(a, step)
			out = append(out, step)
		}
	}
	older := OlderRecords(a.Records)
	for i := range a.Records {
		r := &a.Records[i]
		step := nextOfRecord(a, r)
		if step.Action == steps.NoOp && r.DeletionTimestamp == nil && isListedAsOlder(a, r) != older[r.Name] {
			step.Action = LabelRecord
		}
		step.Record = r
		add(step)
	}
	for i := range a.Notes {
		n := &a.Notes[i]
		if a.Record(n) == nil && isAsked(a, n) && a.LifeOf(n.Spec.Instance.XR) == nil {
			add(ArchiveStep{Action: RemakeRecord, Note: n, Message: fmt.Sprintf("The record of backup %q on volume %q is made again, as somebody asked", n.Name, n.Volume)})
		}
	}
	for i := range a.Volumes {
		if v := &a.Volumes[i]; isAnswered(a, v) {
			add(ArchiveStep{Action: AnswerAsked, Volume: v})
		}
	}
	return out
}

// RecordsForFunction is how many of an instance's newest records the function asks for. Its request may have 4 MiB, and a record takes
// some 2.5 KiB of it.
const RecordsForFunction = 100

// OlderRecords are those beyond that, by name, of records that are sorted newest first. The newest record of each life is
// none of them: the function has to see whether two lives went on beside each other.
func OlderRecords(newestFirst []v1.MySQLBackup) map[string]bool {
	out, lives := map[string]bool{}, map[types.UID]bool{}
	for i := range newestFirst {
		r := &newestFirst[i]
		if i >= RecordsForFunction && r.IsProven() && lives[r.Spec.Instance.XR] {
			out[r.Name] = true
		}
		if r.IsProven() {
			lives[r.Spec.Instance.XR] = true
		}
	}
	return out
}

// isListedAsOlder reports whether a record has the label of those that the function does not ask for.
func isListedAsOlder(a *instance.Archives, r *v1.MySQLBackup) bool {
	return r.Labels[v1.LabelInstance] == a.Life.OlderKey()
}

func nextOfRecord(a *instance.Archives, r *v1.MySQLBackup) ArchiveStep {
	n, v := a.Note(r), a.VolumeOf(r)
	dying := r.DeletionTimestamp != nil
	switch {
	case r.IsInDoubt():
		return nextOfUnreadable(a, r)
	case isLifesAffair(a, r) && dying:
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueLater}
	case isLifesAffair(a, r):
		return ArchiveStep{Action: steps.NoOp}
	case dying && r.Status.RestoreTest != nil:
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueSoon} // Its Job would be nobody's, and keep its name from another.
	case !r.IsProven() && !dying:
		return nextOfUnproven(a, r, n)
	case dying && r.MayDeleteArchive() && a.Unasked[r.Name]:
		return waitFor(r, askAgain, "it is not known whether the archive is there: "+whyUnasked(r))
	case dying && r.MayDeleteArchive() && (r.IsProven() || n != nil):
		return eraseArchive(a, r)
	case r.IsProven() && !r.MayDeleteArchive() && v != nil && !noteIsOf(n, r) && HasRoomInIndex(v, r, 0):
		return ArchiveStep{Action: NoteRecord, Volume: v}
	case dying && r.IsProven() && v != nil && n == nil: // Nothing else would say that the archive is there.
		return waitFor(r, steps.RequeueForPerson, fmt.Sprintf("PersistentVolume %s has no room to record the backup, whose archive would be known to nothing: remove other backups first", v.Name))
	case dying && instance.HasFinalizer(r):
		return ArchiveStep{Action: LetRecordGo, Message: fmt.Sprintf("The record of backup %q was deleted without the annotation %s: its archive stays where it is", r.Name, v1.AnnotationDeleteArchive)}
	case !dying && !instance.HasFinalizer(r):
		return ArchiveStep{Action: HoldRecord}
	}
	return ArchiveStep{Action: steps.NoOp}
}

// nextOfUnreadable record: it stays with its archive, and says what to repair. Nothing is written from it, such as a note. One that is
// deleted goes if its archive stays known.
func nextOfUnreadable(a *instance.Archives, r *v1.MySQLBackup) ArchiveStep {
	isNoted := slices.ContainsFunc(a.Notes, func(n instance.Note) bool { return n.Name == r.Name && !n.Unreadable })
	switch dying := r.DeletionTimestamp != nil; {
	case dying && isNoted && !r.MayDeleteArchive() && instance.HasFinalizer(r):
		return ArchiveStep{Action: LetRecordGo, Message: fmt.Sprintf("The record of backup %q was deleted without the annotation %s: its archive stays where it is", r.Name, v1.AnnotationDeleteArchive)}
	case dying:
		return sayOnce(r, TellRecord, r.WhyUnreadable(), steps.RequeueForPerson)
	case !instance.HasFinalizer(r):
		return ArchiveStep{Action: HoldRecord}
	}
	return sayOnce(r, TellLost, r.WhyUnreadable(), steps.RequeueForPerson)
}

// nextOfUnproven record that stays.
func nextOfUnproven(a *instance.Archives, r *v1.MySQLBackup, n *instance.Note) ArchiveStep {
	switch {
	case n != nil && !n.Unreadable:
		return ArchiveStep{Action: ProveRecord, Note: n, Message: fmt.Sprintf("Backup %q is proven, as volume %q says", r.Name, n.Volume)}
	case a.Unasked[r.Name]:
		return TellUnasked(r)
	case r.Status.Message != WhyLost(r):
		return ArchiveStep{Action: TellLost, Message: WhyLost(r)}
	case !instance.HasFinalizer(r):
		return ArchiveStep{Action: HoldRecord}
	case r.InStore():
		return ArchiveStep{Action: steps.Wait, After: askAgain} // No event says that its objects were brought back.
	}
	return ArchiveStep{Action: steps.NoOp}
}

// isLifesAffair is true of a record whose life has not ended, but for one that this has proven and goes on.
func isLifesAffair(a *instance.Archives, r *v1.MySQLBackup) bool {
	life := a.LifeOf(r.Spec.Instance.XR)
	return life != nil && (!r.IsProven() || r.Name == life.Life.RecordName())
}

// askAgain a store that has not said that a backup is proven.
const askAgain = time.Minute

// TellUnasked that it is not known whether a backup is proven, and ask again.
func TellUnasked(r *v1.MySQLBackup) ArchiveStep {
	why := fmt.Sprintf("It is not known whether this backup is proven: %s. It is asked again. To give the backup up: kubectl delete mysqlbackup %s", whyUnasked(r), r.Name)
	return sayOnce(r, TellLost, why, askAgain)
}

// sayOnce in the status of a record, and look at it again.
func sayOnce(r *v1.MySQLBackup, tell steps.Action, why string, after time.Duration) ArchiveStep {
	if r.Status.Message == why {
		return ArchiveStep{Action: steps.Wait, After: after}
	}
	return ArchiveStep{Action: tell, Message: why}
}

// whyUnasked is the same at each try: what a store says need not be.
func whyUnasked(r *v1.MySQLBackup) string {
	return fmt.Sprintf("BackupStore %[1]s does not answer, is gone, or has a note that its keys do not open (kubectl describe backupstore %[1]s)", r.Spec.Archive.Store)
}

// WhyLost is what there is to say of a backup whose instance is gone, with its volume, before
// the backup was proven.
func WhyLost(r *v1.MySQLBackup) string {
	i := r.Spec.Instance
	if r.InStore() {
		return fmt.Sprintf("Nobody knows this archive: BackupStore %[1]s has no note of it. Bring its objects back or, if it is lost for good: kubectl delete mysqlbackup %[2]s", r.Spec.Archive.Store, r.Name)
	}
	if a := r.Spec.Archive; a != nil { // Only what was proven says where its archive is.
		return fmt.Sprintf("Nobody knows this archive: %s of PersistentVolumeClaim %s/%s is where it was, and no volume says that it has it. Bring that volume back, and have it read (kubectl mysql adopt); or, if it is lost for good: kubectl delete mysqlbackup %s", a.Path, i.Namespace, a.PVCName, r.Name)
	}
	return fmt.Sprintf("Nobody finishes this backup: neither the composite resource nor the volume with the data of this %s is there. Bring the volume back or, if that data is lost for good: kubectl delete mysqlbackup %s", i.Kind, r.Name)
}

// noteIsOf is true if a note is of this very record, and says the same.
func noteIsOf(n *instance.Note, r *v1.MySQLBackup) bool {
	if n == nil || n.Unreadable {
		return false
	}
	return NoteText(&v1.MySQLBackup{ObjectMeta: objectMeta(n), Spec: n.Spec}) == NoteText(r)
}

// isAsked is true if somebody wants the record of a note.
func isAsked(a *instance.Archives, n *instance.Note) bool {
	if n.Unreadable {
		return false
	}
	for i := range a.Volumes {
		if v := &a.Volumes[i]; v.Name == n.Volume {
			word := v.Annotations[v1.AnnotationMakeRecord]
			return word == n.Name || word == v1.MakeAllRecords
		}
	}
	return false
}

// isAnswered is true if each record is there that somebody asked for, or if there is no
// such backup.
func isAnswered(a *instance.Archives, v *corev1.PersistentVolume) bool {
	if v.Annotations[v1.AnnotationMakeRecord] == "" {
		return false
	}
	for i := range a.Notes {
		n := &a.Notes[i]
		if r := a.Record(n); n.Volume == v.Name && isAsked(a, n) && (r == nil || !r.IsProven()) {
			return false
		}
	}
	return true
}

// eraseArchive of a record, whose deletion waits for that.
func eraseArchive(a *instance.Archives, r *v1.MySQLBackup) ArchiveStep {
	if why := whyUnreachable(a, r); why != "" {
		return waitFor(r, steps.RequeueForPerson, why)
	}
	if r.InStore() {
		return ArchiveStep{Action: EraseFromStore, Message: fmt.Sprintf("The archive of backup %s is removed from BackupStore %s", r.Name, r.Spec.Archive.Store)}
	}
	j := a.Erasing[r.Name]
	switch {
	case j == nil:
		return ArchiveStep{Action: StartErase, Volume: a.VolumeOf(r), Message: fmt.Sprintf("The archive of backup %q is removed, as its annotation %s says", r.Name, v1.AnnotationDeleteArchive)}
	case j.DeletionTimestamp != nil:
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueSoon}
	}
	at, succeeded := j.Finished()
	switch {
	case at == nil && j.PodFailure != "":
		return waitFor(r, steps.RequeueLater, fmt.Sprintf("Job %s/%s, which removes the archive, does not run: %s", j.Namespace, j.Name, j.PodFailure))
	case at == nil:
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueSoon}
	case j.Annotations[v1.AnnotationErases] != whatItErases(a.PVC):
		return ArchiveStep{Action: RetryErase} // It was at work on another volume.
	case succeeded:
		return ArchiveStep{Action: Erased, Message: fmt.Sprintf("The archive of backup %q is gone", r.Name)}
	case at.Add(steps.Soonest).After(a.Now):
		return waitFor(r, steps.Soonest, "the archive could not be removed, which is tried again: "+steps.FailureOf(j))
	}
	return ArchiveStep{Action: RetryErase}
}

// EraseFailed is what there is to do about an archive that its store did not let go, which may be a rule of the bucket: its record says so,
// and it is tried again.
func EraseFailed(a *instance.Archives, step ArchiveStep, by error) ArchiveStep {
	out := waitFor(step.Record, steps.Soonest, "the archive could not be removed, which is tried again: "+v1.PrintableText(by.Error(), v1.MaxForeignText))
	out.Record, out.After = step.Record, steps.Soonest
	out.Changes = changesOnArchive(a, out)
	return out
}

// waitFor what keeps an archive from being removed, and say so in its record.
func waitFor(r *v1.MySQLBackup, after time.Duration, why string) ArchiveStep {
	why = fmt.Sprintf("The deletion waits: %s. To delete the record and keep the archive: kubectl annotate msb %s %s-", why, r.Name, v1.AnnotationDeleteArchive)
	return sayOnce(r, TellRecord, why, after)
}

// whyUnreachable says why nobody can get at the archive of a record, or must not yet;
// empty where a Job can, or a store is asked.
func whyUnreachable(a *instance.Archives, r *v1.MySQLBackup) string {
	i, c, v := r.Spec.Instance, a.PVC, a.VolumeOf(r)
	pvc := i.Namespace + "/" + a.Life.BackupPVCName()
	switch {
	case a.Restoring[r.Name] != "":
		return a.Restoring[r.Name] + " is being restored from it"
	case !IsRemovable(a.Life, r):
		return "its archive is not where the controller puts it: remove it by hand"
	case r.InStore():
		return ""
	case v == nil:
		return "no PersistentVolume says that it holds the archive: bring it back"
	case c == nil || c.DeletionTimestamp != nil:
		return fmt.Sprintf("PersistentVolumeClaim %s, by which the archive on volume %q is reached, is gone: it is made again as soon as the %s is created again", pvc, v.Name, i.Kind)
	case !instance.Bound(v, c):
		return fmt.Sprintf("PersistentVolumeClaim %s is not bound to volume %q, which holds the archive", pvc, v.Name)
	}
	return ""
}
