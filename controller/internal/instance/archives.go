package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
)

// Archives are all that there is of the backups of an instance: their records, and
// what the volumes say that hold them.
type Archives struct {
	// Settings of the controller.
	Settings Settings
	// Life of no XR: backups are of all lives.
	Life v1.Instance
	// Now is when it was read.
	Now time.Time
	// Lives of the instance. Each deals with its own record as long as it goes on.
	Lives []*State
	// Records and Notes, newest first.
	Records []v1.MySQLBackup
	Notes   []Note
	// Volumes that hold backups of the instance.
	Volumes []corev1.PersistentVolume
	// PVC is the backup PVC in the instance's own namespace; nil where it is gone.
	PVC *corev1.PersistentVolumeClaim
	// Erasing are the Jobs that remove archives, by the names of their records.
	Erasing map[string]*Job
	// Restoring are the composite resources of the namespace, of any instance, by the names of the backups that they have chosen to start from and
	// have not started. It is read where an archive is to go.
	Restoring map[string]string
	// Rules of the namespace, which Jobs are fitted to. Read with Restoring.
	Rules *nsrules.Rules
	// Unasked are the names of those records of which it is not known whether they are proven: their store does not say.
	Unasked map[string]bool
}

// Archives of an instance.
func (g *Gatherer) Archives(ctx context.Context, k Key) (*Archives, error) {
	lives, err := g.GatherInstalled(ctx, k)
	if err != nil {
		return nil, err
	}
	a := &Archives{Settings: g.Settings, Life: k.Life(""), Now: g.Clock(), Lives: lives, Erasing: map[string]*Job{}, Unasked: map[string]bool{}}
	if a.Records, err = Records(ctx, g.Reader, a.Life); err != nil {
		return nil, err
	}
	if a.Volumes, err = g.backupPVs(ctx, a.Life); err != nil {
		return nil, err
	}
	if a.PVC, err = g.readPVC(ctx, k.Namespace, a.Life.BackupPVCName()); err != nil {
		return nil, err
	}
	a.sortNotes()
	g.readUnproven(ctx, a)
	if slices.ContainsFunc(a.Records, func(r v1.MySQLBackup) bool { return r.DeletionTimestamp != nil && r.MayDeleteArchive() }) {
		if a.Restoring, err = g.restoring(ctx, k.Namespace, a.Records); err != nil {
			return nil, err
		}
		if a.Rules, err = nsrules.Read(ctx, g.Reader, k.Namespace); err != nil {
			return nil, err
		}
	}
	return a, g.readEraseJobs(ctx, a)
}

// readUnproven reads the notes of records that say nothing of being proven, and where their archives lie in a store: somebody has
// made them again. A store that does not answer is asked once, and keeps no other record waiting.
func (g *Gatherer) readUnproven(ctx context.Context, a *Archives) {
	silent := map[string]bool{}
	for i := range a.Records {
		r := &a.Records[i]
		if g.Stores == nil || r.IsProven() || !r.InStore() || a.LifeOf(r.Spec.Instance.XR) != nil {
			continue
		}
		in := r.Spec.Archive.Store
		if silent[in] {
			a.Unasked[r.Name] = true
			continue
		}
		switch n, err := g.Stores.ReadNote(ctx, in, r.Spec.Instance, r.Name); {
		case err != nil:
			log.FromContext(ctx).Error(err, "Cannot read from the store whether the backup is verified", "store", in, "backup", r.Name)
			_, answers := errors.AsType[*UnreadableNoteError](err)
			a.Unasked[r.Name], silent[in] = true, !answers
		case n != nil:
			a.Notes = append(a.Notes, Note{BackupNote: n.BackupNote, Name: n.Name, Store: in})
		}
	}
}

// ArchivesOf an instance in short: without its lives, Jobs and PVCs. It tells where
// there is nothing to do.
func ArchivesOf(k Key, records []v1.MySQLBackup, volumes []metav1.PartialObjectMetadata) *Archives {
	a := &Archives{Life: k.Life(""), Records: records}
	for i := range volumes {
		a.Volumes = append(a.Volumes, corev1.PersistentVolume{ObjectMeta: volumes[i].ObjectMeta})
	}
	a.sortNotes()
	return a
}

// readEraseJobs that remove archives, with what their pods say.
func (g *Gatherer) readEraseJobs(ctx context.Context, a *Archives) error {
	for i := range a.Records {
		r := &a.Records[i]
		if r.DeletionTimestamp == nil {
			continue
		}
		life := a.Life
		life.XR = r.Spec.Instance.XR
		j, err := (&gathering{g, &State{Life: life}}).readJob(ctx, life.Namespace, v1.EraseJobName(r.Name))
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		a.Erasing[r.Name] = j
		if err := g.readJobReport(ctx, j, v1.ComponentErase); err != nil {
			return err
		}
	}
	return nil
}

// readJobReport asks the pods of a Job what keeps them from running.
func (g *Gatherer) readJobReport(ctx context.Context, j *Job, component string) error {
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(j.Namespace), client.MatchingLabels{v1.LabelXR: j.Labels[v1.LabelXR], v1.LabelComponent: component}); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		j.NotePodFailure(&l.Items[i].Status)
	}
	return nil
}

// Note of a record, or nil.
func (a *Archives) Note(r *v1.MySQLBackup) *Note {
	for i := range a.Notes {
		if n := &a.Notes[i]; n.Of(r) {
			return n
		}
	}
	return nil
}

// Record of a note, or nil.
func (a *Archives) Record(n *Note) *v1.MySQLBackup {
	for i := range a.Records {
		if r := &a.Records[i]; n.Of(r) {
			return r
		}
	}
	return nil
}

// VolumeOf a record: the one that says so, or else the one for the backups of its
// namespace. Nil where there is none.
func (a *Archives) VolumeOf(r *v1.MySQLBackup) *corev1.PersistentVolume {
	if r.InStore() {
		return nil
	}
	n := a.Note(r)
	for i := range a.Volumes {
		v := &a.Volumes[i]
		if n != nil && v.Name == n.Volume || n == nil && HasBackupsOf(v, r.Spec.Instance.NamespaceUID) {
			return v
		}
	}
	return nil
}

// LifeOf an XR; nil once it has ended.
func (a *Archives) LifeOf(xr types.UID) *State {
	for _, s := range a.Lives {
		if s.Life.XR != "" && s.Life.XR == xr {
			return s
		}
	}
	return nil
}

func (a *Archives) sortNotes() {
	newestFirst(a.Records)
	a.Notes = NotesOf(a.Volumes, a.Life)
}
