package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// modelStore is the only BackupStore of the model.
const modelStore = "offsite"

// modelStores returns the contents of the store to the real Gatherer.
type modelStores struct{ reader worldReader }

var errStoreDown = errors.New("the store is down")

func (s modelStores) ReadNote(_ context.Context, _ string, origin v1.BackedUpInstance, record string) (*v1.StoreNote,
	error) {
	m := s.reader.model()
	if m.down {
		return nil, errStoreDown
	}
	n := numberOf(origin.XR)
	if n >= 0 && m.lives[n].foreign != foreignNone && record == lifeOf(n).RecordName() {
		return m.lives[n].foreignNote(n), nil
	}
	if n < 0 || m.lives[n].noted == 0 || record != lifeOf(n).RecordName() {
		return nil, nil //nolint:nilnil // There is no metadata, which is not an error.
	}
	return m.lives[n].storeNote(n), nil
}

func (s modelStores) FindRecovery(context.Context, string, string, []v1.BackupRecord) (*v1.RecoverySource, error) {
	return nil, errors.New("no instance of the model is recovered to a time")
}

func (s modelStores) FindNotes(_ context.Context, namespace types.UID, isKnown func(string) bool) ([]instance.FoundNote,
	error) {
	m := s.reader.model()
	if m.down {
		return nil, errStoreDown
	}
	var out []instance.FoundNote
	for n, l := range m.lives {
		if name := lifeOf(n).RecordName(); l.toStore && l.noted > 0 && namespaceUID(l.born) == namespace && !isKnown(name) {
			out = append(out, instance.FoundNote{StoreNote: l.storeNote(n), Store: modelStore, Record: name,
				XR: types.UID(uidOf(n)), Forgotten: l.forgotten == l.noted})
		}
	}
	return out, nil
}

// storeNote returns the metadata next to the archive of an instance in the store.
func (l modelLife) storeNote(n int) *v1.StoreNote {
	r := l.recordObject(n, l.noted)
	return &v1.StoreNote{BackupNote: r.Note(), Name: r.Name}
}

// foreignNote returns the metadata that another cluster with identical names and UIDs has published for this backup.
func (l modelLife) foreignNote(n int) *v1.StoreNote {
	r := l.recordObject(n, max(l.recordNo, 1))
	r.Spec.Archive.SHA256 = strings.Repeat("b", 64)
	if l.foreign == foreignRecord {
		r.UID = "record-of-another-cluster"
	}
	return &v1.StoreNote{BackupNote: r.Note(), Name: r.Name}
}

// published returns the value of AnnotationPublished for a BackupRecord.
func (l modelLife) published(n int, number int8) string {
	note := l.recordObject(n, number).Note()
	return note.PublishedArchive()
}

// writeStore applies a change that the controller makes in the store.
func (m *model) writeStore(n int, c change.Change) {
	switch l := &m.lives[n]; c.Verb { //nolint:exhaustive // The API server applies the other verbs.
	case change.Publish:
		if l.archived == 0 {
			m.broken = "a backup is published that is nowhere"
		}
		if l.noted == 0 { // Metadata is written only once.
			l.noted = recordNumber(n, c.Remote.Note.Record)
		}
	case change.Remove:
		if !l.markedForRemoval {
			m.broken = "an archive is removed that nobody named"
		}
		l.archived, l.noted = 0, 0
		m.truth = m.remaining()
	case change.RemoveAttempts:
		if c.Remote.Record == m.lives[n].recordNameOfImage(n) && m.lives[n].image.job != none {
			m.broken = "what a Job may still write to is discarded"
		}
	case change.RemoveLeftovers:
		if l.foreign != foreignNone {
			m.broken = "the archive that this cluster's Job has reported is removed, and another cluster's is kept"
		}
	case change.GiveAccess:
	default:
		m.broken = "the model does not know how to " + string(c.Verb) + " in a store"
	}
}

// TestModelStore checks BackupRecords whose archives are in a store, with and without an outage of the store. No
// server starts empty while an archive with its name exists, and no archive is deleted unless a user has allowed it.
func TestModelStore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"store, record deleted", "store down, record deleted"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leavesToAll(t)
			recordsAreKept(t, name)
		})
	}
}

// TestModelStoreFindsBugs checks that the model detects bugs in decisions about stores.
func TestModelStoreFindsBugs(t *testing.T) {
	t.Parallel()
	for name, bug := range map[string]struct {
		reason string
		start  model
		next   decision
		third  third
	}{
		"silence is consent": {reason: "A store that does not answer has no backups.",
			start: recordStarts()["store down, record deleted"], next: func(s *instance.State) steps.Step {
				if !s.IsDeleting() {
					s.StoreFailure = ""
				}
				return Next(s)
			}},
		"stores are not asked": {reason: "What has no record is not there.", start: recordStarts()["store, record deleted"],
			next: func(s *instance.State) steps.Step {
				if !s.IsDeleting() {
					s.Notes = nil
				}
				return Next(s)
			}},
		"proven before published": {reason: "The store does not know what the record says, and the record may go.",
			start: recordStarts()["store, record deleted"], next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.NoteBackup {
					return step
				}
				s.Notes = []instance.Note{{Name: s.Record().Name, Store: modelStore, BackupNote: s.Record().Note()}}
				return withChanges(s, backup.WriteIndex(s))
			}},
		"published unwritten": {reason: "Nothing says of a note that it is this cluster's own, once the record is gone.",
			start: recordStarts()["store, record deleted"], next: func(s *instance.State) steps.Step {
				step := Next(s)
				step.Changes = slices.DeleteFunc(step.Changes, func(c change.Change) bool {
					return c.Verb == change.Patch &&
						c.Object.GetAnnotations()[v1.AnnotationPublished] != c.Read.GetAnnotations()[v1.AnnotationPublished]
				})
				return step
			}},
		"removed unasked": {reason: "A record takes its archive along that nobody named.",
			start: recordStarts()["store, record deleted"], third: func(a *instance.Archives) []catalog.ArchiveStep {
				for i := range a.Records {
					a.Records[i].Annotations = map[string]string{v1.AnnotationDeleteArchive: string(a.Records[i].UID)}
				}
				return catalog.NextOfArchives(a)
			}},
		"record first": {reason: "The record goes before its archive, which nobody removes then.",
			start: recordStarts()["store down, record deleted"], third: func(a *instance.Archives) []catalog.ArchiveStep {
				steps := catalog.NextOfArchives(a)
				for i := range steps {
					if c := steps[i].Changes; steps[i].Action == catalog.RemoveFromStore {
						c[0], c[1] = c[1], c[0]
					}
				}
				return steps
			}},
		"only the PVC knows": {reason: "When that is gone nobody asks the store any more, and a backup is announced that " +
			"is never taken.", start: recordStarts()["store, record deleted"], next: func(s *instance.State) steps.Step {
			if s.XR != nil && s.XR.IsDeleting() && s.DataPVC == nil && s.DataPV == nil {
				s.XR.Status.BackupStore, s.Notes = "", nil
			}
			return Next(s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leavesToAll(t)
			isFound(t, bug.reason, bug.next, bug.third, bug.start)
		})
	}
}
