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

func (s modelStores) ReadEntry(_ context.Context, _ string, origin v1.BackedUpInstance, record string) (*v1.StoreEntry,
	error) {
	m := s.reader.model()
	if m.down {
		return nil, errStoreDown
	}
	n := numberOf(origin.XR)
	if n >= 0 && m.instances[n].foreign != foreignNone && record == m.instanceOf(n).RecordName() {
		return m.instances[n].foreignEntry(n), nil
	}
	if n < 0 || m.instances[n].noted == 0 || record != m.instanceOf(n).RecordName() {
		return nil, nil //nolint:nilnil // There is no metadata, which is not an error.
	}
	return m.instances[n].storeEntry(n), nil
}

func (s modelStores) FindRecovery(context.Context, string, string, *v1.RecoverySource,
	[]v1.BackupRecord) (*v1.RecoverySource, error) {
	return nil, errors.New("no instance of the model is recovered to a time")
}

func (s modelStores) FindEntries(_ context.Context, namespace types.UID, isKnown func(string) bool) ([]instance.FoundEntry,
	error) {
	m := s.reader.model()
	if m.down {
		return nil, errStoreDown
	}
	var out []instance.FoundEntry
	for n, l := range m.instances {
		if name := m.instanceOf(n).RecordName(); l.toStore && l.noted > 0 && namespaceUID(l.born) == namespace && !isKnown(name) {
			out = append(out, instance.FoundEntry{StoreEntry: l.storeEntry(n), Store: modelStore, Record: name,
				XR: types.UID(uidOf(n)), Forgotten: l.forgotten == l.noted})
		}
	}
	return out, nil
}

// storeEntry returns the catalog entry of an instance's archive in the store.
func (l modelInstance) storeEntry(n int) *v1.StoreEntry {
	r := l.recordObject(n, l.noted)
	return &v1.StoreEntry{BackupEntry: r.Entry(), Name: r.Name}
}

// foreignEntry returns the catalog entry that another cluster with identical names and UIDs has published for this
// backup.
func (l modelInstance) foreignEntry(n int) *v1.StoreEntry {
	r := l.recordObject(n, max(l.recordNo, 1))
	r.Spec.Archive.SHA256 = strings.Repeat("b", 64)
	if l.foreign == foreignRecord {
		r.UID = "record-of-another-cluster"
	}
	return &v1.StoreEntry{BackupEntry: r.Entry(), Name: r.Name}
}

// published returns the value of AnnotationPublished for a BackupRecord.
func (l modelInstance) published(n int, number int8) string {
	entry := l.recordObject(n, number).Entry()
	return entry.PublishedArchive()
}

// writeStore applies a change that the controller makes in the store.
func (m *model) writeStore(n int, c change.Change) {
	switch l := &m.instances[n]; c.Verb { //nolint:exhaustive // The API server applies the other verbs.
	case change.Publish:
		if l.archived == 0 {
			m.broken = "a backup is published that is nowhere"
		}
		if l.noted == 0 { // A catalog entry is written only once.
			l.noted = recordNumber(n, c.Remote.Entry.Record)
		}
	case change.Remove:
		if !l.markedForRemoval {
			m.broken = "an archive is removed that nobody named"
		}
		l.archived, l.noted = 0, 0
		m.truth = m.remaining()
	case change.RemoveAttempts:
		if c.Remote.Record == m.instances[n].recordNameOfImage(n) && m.instances[n].image.job != none {
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
		"silence is consent": {reason: "The controller treats a store that does not respond as empty.",
			start: recordStarts()["store down, record deleted"], next: func(s *instance.State) steps.Step {
				if !s.IsDeleting() {
					s.StoreFailure = ""
				}
				return Next(s)
			}},
		"stores are not asked": {reason: "The controller ignores a backup in the store that has no BackupRecord.",
			start: recordStarts()["store, record deleted"],
			next: func(s *instance.State) steps.Step {
				if !s.IsDeleting() {
					s.Entries = nil
				}
				return Next(s)
			}},
		"proven before published": {reason: "The BackupRecord is verified before the store contains the catalog entry.",
			start: recordStarts()["store, record deleted"], next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.RecordBackup {
					return step
				}
				s.Entries = []instance.Entry{{Name: s.Record().Name, Store: modelStore, BackupEntry: s.Record().Entry()}}
				return withChanges(s, backup.WriteIndex(s))
			}},
		"published unwritten": {reason: "The controller does not annotate its objects, so it does not recognize its own catalog entry.",
			start: recordStarts()["store, record deleted"], next: func(s *instance.State) steps.Step {
				step := Next(s)
				step.Changes = slices.DeleteFunc(step.Changes, func(c change.Change) bool {
					return c.Verb == change.Patch &&
						c.Object.GetAnnotations()[v1.AnnotationPublished] != c.Read.GetAnnotations()[v1.AnnotationPublished]
				})
				return step
			}},
		"removed unasked": {reason: "The archive is deleted with its BackupRecord, although no user has allowed it.",
			start: recordStarts()["store, record deleted"], third: func(a *instance.Archives) []catalog.ArchiveStep {
				for i := range a.Records {
					a.Records[i].Annotations = map[string]string{v1.AnnotationDeleteArchive: string(a.Records[i].UID)}
				}
				return catalog.NextOfArchives(a)
			}},
		"record first": {reason: "The BackupRecord is deleted before its archive, which is then never deleted.",
			start: recordStarts()["store down, record deleted"], third: func(a *instance.Archives) []catalog.ArchiveStep {
				steps := catalog.NextOfArchives(a)
				for i := range steps {
					if c := steps[i].Changes; steps[i].Action == catalog.RemoveFromStore {
						c[0], c[1] = c[1], c[0]
					}
				}
				return steps
			}},
		"only the PVC knows": {reason: "After the PVC is deleted, the controller ignores the store and waits for a backup forever.",
			start: recordStarts()["store, record deleted"], next: func(s *instance.State) steps.Step {
				if s.XR != nil && s.XR.IsDeleting() && s.DataPVC == nil && s.DataPV == nil {
					s.XR.Status.BackupStore, s.Entries = "", nil
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
