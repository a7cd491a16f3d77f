package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/restoretest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// records adds the events of a user about BackupRecords. A user can delete a BackupRecord at any time with kubectl,
// with or without the annotation that allows the deletion of the archive. A user can also remove the finalizer.
func (m model) records(add adder) {
	for n := range m.instances {
		l := m.instances[n]
		exists := l.record != recordNone
		add("the record is deleted", true, m.drops > 0 && exists && !l.recordDying, func(w *model) {
			w.drops--
			w.instances[n].recordDying = true
		})
		add("the record is deleted with its archive", true, m.drops > 0 && exists && !l.recordDying, func(w *model) {
			w.drops--
			w.instances[n].recordDying, w.instances[n].markedForRemoval = true, true
		})
		add("the record's finalizer is taken off, and it is gone", true, m.drops > 0 && exists, func(w *model) {
			w.drops--
			w.instances[n].loseRecord()
		})
		add("the record is gone", false, l.recordDying && !l.recordHeld, func(w *model) { w.instances[n].loseRecord() })
		lacks := l.noted > 0 && !exists
		add("a person asks for the record", true, m.words > 0 && lacks && !l.wanted && !l.toStore, func(w *model) {
			w.words--
			w.volumes[l.archivedOn].asked = int8(n + 1) //nolint:gosec // There are two.
			for i := range w.instances {                // The volume has one annotation for all backups.
				w.instances[i].wanted = i == n || w.instances[i].wanted && w.instances[i].archivedOn != l.archivedOn
			}
		})
		// The controller creates a BackupRecord again on request. For a backup on a volume, it does so only after the
		// instance has been deleted. For a backup in a store, it does so at any time, because a store does not show
		// which instances exist.
		add("a person makes the record", true, m.words > 0 && lacks && (l.toStore || l.over()), func(w *model) {
			w.words--
			w.instances[n].makeRecord()
			w.instances[n].recordHeld = false
		})
		add("a person forgets the backup", true, m.words > 0 && lacks && l.forgotten != l.noted, func(w *model) {
			w.words--
			w.instances[n].forgotten = l.noted
			w.truth = w.remaining()
		})
		add("the archive is removed", false, l.erase == alive1 && !l.erased && m.reaches(l), func(w *model) {
			w.instances[n].erased, w.instances[n].archived = true, 0
			if !l.markedForRemoval {
				w.broken = "an archive is removed that nobody named"
			}
			w.truth = w.remaining()
		})
		add("the erasing Job is gone", false, l.erase == dying1 || l.erase != none && m.namespace == none,
			func(w *model) { w.instances[n].erase, w.instances[n].erased = none, false })
	}
}

func (l *modelInstance) loseRecord() {
	l.record, l.recordDying, l.markedForRemoval, l.recordHeld, l.verdict, l.turn, l.heard =
		recordNone, false, false, false, verdictNone, turnNone, false
}

func (l *modelInstance) makeRecord() {
	if l.record == recordNone {
		l.record, l.recordHeld, l.wanted = recordNew, true, false
		l.recordNo++
	}
}

// over reports whether an instance is deleted, so that only its backup is left.
func (l modelInstance) over() bool { return l.xr == none && !l.held && l.handle == none }

// reaches reports whether a Job can read the archive of an instance.
func (m model) reaches(l modelInstance) bool {
	if l.toStore {
		return !m.down
	}
	return m.backupIsHome() && m.backupOn == l.archivedOn && m.namespace == alive1
}

// beside reports whether an archive of another instance exists, and no user has allowed instances to start without
// it.
func (m model) beside(n int) bool {
	for i, l := range m.instances {
		if i != n && l.archived > 0 && l.noted > 0 && l.forgotten != l.noted {
			return true
		}
	}
	return false
}

// waitsForRecord reports whether a BackupRecord is being deleted together with its archive.
func (m model) waitsForRecord(n int) bool {
	return slices.ContainsFunc(m.instances[:], func(l modelInstance) bool { return l.recordDying && l.markedForRemoval }) && n >= 0
}

// remaining returns the number of rows that still exist after a user gave up a backup.
func (m model) remaining() int8 {
	var most int8
	for _, l := range m.instances {
		if l.pv && l.held {
			most = max(most, l.rows)
		}
		if l.archived > 0 && (l.noted == 0 || l.forgotten != l.noted) {
			most = max(most, l.archived-1)
		}
	}
	return min(most, m.truth)
}

// A third is the function NextOfArchives, or a variant of it with a bug that the model must detect.
type third func(*instance.Archives) []catalog.ArchiveStep

func (m model) archives(r worldReader) (*instance.Archives, error) {
	a, err := gathererOf(r).Archives(context.Background(), m.key())
	if err != nil {
		return nil, err
	}
	return a, nil
}

// archived returns the events of the controller about BackupRecords of deleted instances.
func (m model) archived(decide third) ([]move, error) {
	if m.quiet() {
		return nil, nil
	}
	a, err := m.archives(modelReader{m, m.objects()})
	if err != nil {
		return nil, err
	}
	var out []move
	for _, step := range decide(a) {
		if !idleArchive(step) {
			out = append(out, m.written("the controller does "+string(step.Action), step.Changes)...)
		}
	}
	return out, nil
}

// quiet reports whether all BackupRecords and volumes are up to date, so that the controller would write nothing.
func (m model) quiet() bool {
	return m.volumes[0].asked+m.volumes[1].asked == 0 && !slices.ContainsFunc(m.instances[:], func(l modelInstance) bool {
		verified := l.record == recordVerified
		if i := l.image; i.record != recordNone && (i.recordDying || i.noted != (i.record == recordVerified)) {
			return true
		}
		return l.record != recordNone &&
			(l.recordDying || !l.recordHeld || verified != (l.noted == l.recordNo) || !verified && l.noted > 0)
	})
}

// idleArchive reports whether a step writes nothing that the model contains.
func idleArchive(step catalog.ArchiveStep) bool {
	return step.Action == steps.Wait || step.Action == catalog.ReportDelay
}

var recordPhases = []v1.BackupPhase{"", v1.BackupPending, v1.BackupRunning, v1.BackupFailed, v1.BackupVerified,
	recordNew: ""}

// recordObject returns the BackupRecord of an instance. number is the generation of the BackupRecord, which increases
// each time the BackupRecord is created again.
func (l modelInstance) recordObject(n int, number int8) *v1.BackupRecord {
	instanceID := l.instanceOf(n)
	r := backup.NewRecord(instance.NewState(instance.Subject{Instance: instanceID, XR: composite("XMySQL", "x", uidOf(n)),
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{UID: namespaceUID(l.born)}}}))
	r.Name, r.Spec.Origin = instanceID.RecordName(), v1.OriginDeletion
	r.UID = types.UID("record-" + uidOf(n) + strings.Repeat("-again", int(number)-1))
	r.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(n) * time.Minute))
	r.Finalizers, r.DeletionTimestamp = ourFinalizer(l.recordHeld), nil
	if l.recordDying {
		r.DeletionTimestamp = deletedAt(dying1)
	}
	if l.markedForRemoval {
		r.Annotations = map[string]string{v1.AnnotationDeleteArchive: string(r.UID)}
	}
	r.Status.Phase = recordPhases[l.record]
	r.Status.Message = modelFailure
	r.Spec.Image, r.Spec.Version, r.Spec.Number = "mysql:8.4", "8.4.6", int64(n)+1
	if l.image.counted {
		r.Spec.Number++
	}
	r.Spec.Archive = &v1.Archive{PVCName: instanceID.BackupPVCName(), Path: r.Name + "/" + catalog.ArchiveName}
	if l.toStore {
		r.Spec.Archive = &v1.Archive{Store: modelStore, Path: v1.StorePrefix(r.Spec.Instance, r.Name) + "/aaaaaaaaaa.tar.zst",
			SHA256: strings.Repeat("a", 64)}
	}
	if l.turn != turnNone {
		r.Status.RestoreTest = &v1.RestoreTest{ID: turnOf(n), StartTime: metav1.NewTime(now), Concluded: l.heard}
	}
	if l.turn == turnNamed {
		r.Status.RestoreTest.Job = trialOf(n)
	}
	if l.verdict != verdictNone {
		r.Status.Conditions = []metav1.Condition{
			{Type: v1.ConditionRestorable, Status: verdicts[l.verdict], LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	}
	return r
}

// annotated adds the catalog entries, and the annotations of a user, to a backup volume.
func (m model) annotated(v *corev1.PersistentVolume, index int) {
	for n, l := range m.instances {
		name := m.instanceOf(n).RecordName()
		if l.image.noted && int(l.image.archivedOn) == index {
			v.Annotations[v1.AnnotationBackupPrefix+l.recordNameOfImage(n)] = catalog.EntryText(l.recordOfImage(n))
		}
		if l.toStore {
			continue
		}
		if l.noted > 0 && int(l.archivedOn) == index {
			v.Annotations[v1.AnnotationBackupPrefix+name] = catalog.EntryText(l.recordObject(n, l.noted))
		}
		if l.forgotten > 0 && int(l.archivedOn) == index {
			v.Annotations[v1.AnnotationForgetPrefix+name] = string(l.recordObject(n, l.forgotten).UID)
		}
	}
	if instanceID := m.volumes[index].asked; instanceID > 0 {
		v.Annotations[v1.AnnotationMakeRecord] = m.instanceOf(int(instanceID) - 1).RecordName()
	}
}

// removeObject returns the Job that removes the archive of an instance.
func (m model) removeObject(n int) []client.Object {
	l, instanceID := m.instances[n], m.instanceOf(n)
	if l.erase == none {
		return nil
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: v1.RemovalJobName(instanceID.RecordName()), UID: types.UID("erase-" + uidOf(n)),
		Labels: instanceID.Labels(), DeletionTimestamp: deletedAt(l.erase),
		Annotations: map[string]string{v1.AnnotationRemoves: "backups/" + backupPVNames[l.archivedOn]},
	}}
	if l.erased {
		j.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	}
	return []client.Object{j}
}

// recordStarts returns start states in which a user deletes a BackupRecord. If a user also adds an annotation
// afterwards, there are too many states to try all, and TestModelTorn tries random sequences.
func recordStarts() map[string]model {
	base := model{namespace: alive1, current: 1, creates: 2, deletes: 1, writes: 1, drops: 1}
	return map[string]model{
		"record deleted":             base,
		"store, record deleted":      base.with(func(m *model) { m.store, m.words = true, 1 }),
		"store down, record deleted": base.with(func(m *model) { m.store, m.outages = true, 1 }),
		"record deleted, and a word": base.with(func(m *model) { m.words = 2 }),
		"record deleted, namespace": base.with(func(m *model) {
			m.namespaces, m.remakes, m.deletes, m.allow, m.words = 1, 1, 0, true, 1
		}),
		"tested record deleted": base.with(func(m *model) { m.testsRestores, m.words = true, 1 }),
		"two records deleted":   base.with(func(m *model) { m.deletes, m.drops, m.words, m.writes = 2, 2, 1, 2 }),
		"two records lost": base.with(func(m *model) {
			over := modelInstance{born: 1, rows: 1, archived: 2, noted: 1, recordNo: 1}
			m.creates, m.deletes, m.drops, m.words, m.instances = 0, 0, 0, 4, [2]modelInstance{over, over}
			m.backup, m.backupRetained, m.volumes[0] = alive1, true, modelVolume{made: 1, owner: 1, retained: true}
		}),
	}
}

// TestModelRecords checks deletions of a BackupRecord at any time. No server starts empty while an archive with its
// name exists, and no archive is deleted unless a user has allowed it.
func TestModelRecords(t *testing.T) {
	t.Parallel()
	recordsAreKept(t, "record deleted")
}

// recordsAreKept checks that no sequence of events after a start state loses data.
func recordsAreKept(t *testing.T, start string) {
	t.Helper()
	states, held, trace := explore(t, Next, restoretest.Next, catalog.NextOfArchives, recordStarts()[start])
	if trace != nil {
		t.Errorf("after %d states:\n%s", states, strings.Join(trace, "\n"))
	}
	if held > 0 {
		t.Errorf("%d states wait for a person with data that is not needed any more", held)
	}
	t.Logf("%d states", states)
}

// TestModelRecordsFindsBugs checks that the model detects bugs in decisions about BackupRecords.
func TestModelRecordsFindsBugs(t *testing.T) {
	t.Parallel()
	withoutEntries := func(s *instance.State) steps.Step {
		if s.XR != nil && !s.XR.IsDeleting() {
			s.Entries = nil
		}
		return Next(s)
	}
	cases := map[string]struct {
		reason  string
		creates int8
		tested  bool
		next    decision
		third   third
	}{
		"records are the truth": {creates: 2, reason: "The controller ignores a backup that has no BackupRecord.",
			next: withoutEntries},
		"proven before noted": {creates: 2, reason: "The BackupRecord is verified before the catalog on the volume contains the backup.",
			next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.RecordBackup {
					return step
				}
				s.Entries = []instance.Entry{{Name: s.Record().Name, BackupEntry: s.Record().Entry()}}
				return withChanges(s, backup.WriteIndex(s))
			}},
		"a word is not waited for": {creates: 1, reason: "The archive is deleted with its BackupRecord, although no user has allowed it.",
			third: func(a *instance.Archives) []catalog.ArchiveStep {
				for i := range a.Records {
					a.Records[i].Annotations = map[string]string{v1.AnnotationDeleteArchive: string(a.Records[i].UID)}
				}
				return catalog.NextOfArchives(a)
			}},
		"erased without a Job": {creates: 1, reason: "The catalog entry is deleted before the archive.",
			third: func(a *instance.Archives) []catalog.ArchiveStep {
				next := catalog.NextOfArchives(a)
				for i := range next {
					if r := next[i].Record; next[i].Action == catalog.StartRemoval {
						next[i].Changes = append(catalog.RemoveEntries(a.Volumes, r.Name), steps.RemoveFinalizer(r))
					}
				}
				return next
			}},
		"announced again": {creates: 1, reason: "A BackupRecord that is deleted after the data is not created again from the catalog.",
			next: func(s *instance.State) steps.Step {
				if r := s.Record(); s.IsDeleting() && (r == nil || !r.IsVerified() && s.BackupJob == nil) {
					s.Entries = nil
				}
				return Next(s)
			}},
		"a finalizer too early": {creates: 1, reason: "The BackupRecord is deleted before the Job that is found through it.",
			third: func(a *instance.Archives) []catalog.ArchiveStep {
				steps := catalog.NextOfArchives(a)
				for i := range steps {
					if c := steps[i].Changes; steps[i].Action == catalog.ArchiveRemoved {
						c[len(c)-1], c[len(c)-2] = c[len(c)-2], c[len(c)-1]
					}
				}
				return steps
			}},
		"a turn is not waited for": {creates: 1, tested: true, reason: "The BackupRecord is deleted before the Job of its restore test.",
			third: func(a *instance.Archives) []catalog.ArchiveStep {
				for i := range a.Records {
					a.Records[i].Status.RestoreTest = nil
				}
				return catalog.NextOfArchives(a)
			}},
		"never let go": {creates: 1, reason: "The finalizer of a deleted BackupRecord is never removed.",
			third: func(a *instance.Archives) []catalog.ArchiveStep {
				return slices.DeleteFunc(catalog.NextOfArchives(a), func(s catalog.ArchiveStep) bool {
					return s.Action == catalog.LetRecordGo
				})
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leavesToAll(t)
			start := recordStarts()["record deleted"].with(func(m *model) { m.creates, m.testsRestores = tc.creates, tc.tested })
			isFound(t, tc.reason, tc.next, tc.third, start)
		})
	}
}

// isFound checks that the model detects a bug in a decision. If next or decide is nil, the real function is used.
func isFound(t *testing.T, reason string, next decision, decide third, start model) {
	t.Helper()
	if next == nil {
		next = Next
	}
	if decide == nil {
		decide = catalog.NextOfArchives
	}
	states, held, trace := explore(t, next, restoretest.Next, decide, start)
	if trace == nil && held == 0 {
		t.Errorf("%s It is not found in %d states", reason, states)
	}
}
