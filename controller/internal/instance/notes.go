package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Note is what a volume for backups says of one of them. A record is an index: it
// can be deleted by whoever may delete records, and its archive is there all the
// same.
type Note struct {
	v1.BackupNote

	// Name of the record, and of the archive's folder.
	Name string
	// Volume, or Store, that says so.
	Volume, Store string
	// Forgotten is true if a person said that the next instance may go without it.
	Forgotten bool
	// Unreadable notes are of a backup of which nothing is known but its name.
	Unreadable bool
}

// notesOn a volume about backups of the instance. A label leads here, and what the
// note says decides.
func notesOn(v *corev1.PersistentVolume, of v1.Instance) []Note {
	out := make([]Note, 0, len(v.Annotations))
	for key, text := range v.Annotations {
		name, ok := strings.CutPrefix(key, v1.AnnotationBackupPrefix)
		if !ok || name == "" {
			continue
		}
		n := Note{Name: name, Volume: v.Name}
		if err := json.Unmarshal([]byte(text), &n.BackupNote); err != nil || n.Spec.Archive == nil {
			n.Unreadable = true
		}
		n.Forgotten = v.Annotations[v1.AnnotationForgetPrefix+name] == n.forgetWord()
		if i := n.Spec.Instance; n.Unreadable || i.Kind == of.Kind && i.Namespace == of.Namespace && i.Name == of.Name {
			out = append(out, n)
		}
	}
	return out
}

// Forget is the command that forgets a backup. Its archive stays.
func (n *Note) Forget() string {
	if n.Store != "" {
		return fmt.Sprintf("kubectl annotate backupstore %s %s%s=%s", n.Store, v1.AnnotationForgetPrefix, n.Name, n.forgetWord())
	}
	return fmt.Sprintf("kubectl annotate pv %s %s%s=%s", n.Volume, v1.AnnotationForgetPrefix, n.Name, n.forgetWord())
}

// MakeRecord is the command that makes the record of a backup again.
func (n *Note) MakeRecord() string {
	if n.Store != "" {
		return fmt.Sprintf("kubectl annotate backupstore %s --overwrite %s=%s", n.Store, v1.AnnotationMakeRecord, v1.StoreFolder(n.Spec.Instance, n.Name))
	}
	return fmt.Sprintf("kubectl annotate pv %s --overwrite %s=%s", n.Volume, v1.AnnotationMakeRecord, n.Name)
}

// Of is true if a record is that of the note: it has its name, and is of the same life.
func (n *Note) Of(r *v1.MySQLBackup) bool {
	return n.Name == r.Name && (n.Unreadable || n.Spec.Instance.XR == r.Spec.Instance.XR)
}

// forgetWord is what somebody has to write who wants to forget a backup: the UID of
// its record, or its name where nobody knows that.
func (n *Note) forgetWord() string {
	if n.Unreadable || n.Record == "" {
		return n.Name
	}
	return string(n.Record)
}

// HasNotes is true if a volume says that it has backups.
func HasNotes(v *corev1.PersistentVolume) bool {
	for key := range v.Annotations {
		if strings.HasPrefix(key, v1.AnnotationBackupPrefix) {
			return true
		}
	}
	return false
}

// backupPVs are all that say that they hold backups of the instance, those of
// earlier namespaces of its name with them.
func (g *Gatherer) backupPVs(ctx context.Context, of v1.Instance) ([]corev1.PersistentVolume, error) {
	l := &corev1.PersistentVolumeList{}
	if err := g.Reader.List(ctx, l, client.MatchingLabels{v1.LabelInstance: of.Key(), v1.LabelComponent: v1.ComponentBackup}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	return l.Items, nil
}

// readNotes of all backups of the instance, newest first.
func (g *gathering) readNotes(ctx context.Context) error {
	var err error
	g.BackupPVs, err = g.backupPVs(ctx, g.Life)
	g.Notes = NotesOf(g.BackupPVs, g.Life)
	return err
}

// readBoundNotes of the volume that is bound to the backup PVC: it is one
// for backups whatever its labels say.
func (g *gathering) readBoundNotes() {
	v := g.BackupPV
	if v == nil || !g.needsRecords() || slices.ContainsFunc(g.BackupPVs, func(x corev1.PersistentVolume) bool { return x.Name == v.Name }) {
		return
	}
	g.BackupPVs = append(g.BackupPVs, *v)
	g.Notes = newestNotesFirst(append(g.Notes, notesOn(v, g.Life)...))
}

// NotesOf the volumes about backups of the instance, newest first.
func NotesOf(volumes []corev1.PersistentVolume, of v1.Instance) []Note {
	out := make([]Note, 0, len(volumes))
	for i := range volumes {
		out = append(out, notesOn(&volumes[i], of)...)
	}
	return newestNotesFirst(out)
}

func newestNotesFirst(notes []Note) []Note {
	slices.SortFunc(notes, func(a, b Note) int { return trueFirst(a.isNewerThan(&b), b.isNewerThan(&a)) })
	return notes
}

// isNewerThan is true if a backup is newer than another. Nobody knows how old one is whose
// note cannot be read.
func (n *Note) isNewerThan(other *Note) bool {
	if n.Unreadable != other.Unreadable {
		return n.Unreadable
	}
	return n.asRecord().After(other.asRecord())
}

// asRecord has what the order of backups depends on.
func (n *Note) asRecord() *v1.MySQLBackup {
	r := &v1.MySQLBackup{Spec: n.Spec}
	r.Name, r.Spec.AnnouncedAt = n.Name, &n.AnnouncedAt
	return r
}

// newestFirst sorts records as the function does.
func newestFirst(records []v1.MySQLBackup) {
	slices.SortFunc(records, func(a, b v1.MySQLBackup) int { return v1.NewestFirst(&a, &b) })
}

// Missing is the note of a backup that is newer than all proven records, and has no
// proven one: who deleted that cannot have meant that the next instance starts without
// its rows, and one that is made again comes without its status. Nil where there is
// none, or where a person said that it is to be forgotten.
func Missing(notes []Note, records []v1.MySQLBackup) *Note {
	for i := range notes {
		n := &notes[i]
		if n.Forgotten || slices.ContainsFunc(records, func(r v1.MySQLBackup) bool { return r.IsProven() && n.isOutdatedBy(&r) }) {
			continue
		}
		if slices.ContainsFunc(records, func(r v1.MySQLBackup) bool {
			return r.IsProven() && (n.Of(&r) || !n.Unreadable && r.After(n.asRecord()))
		}) {
			return nil
		}
		return n
	}
	return nil
}

// isOutdatedBy a later backup of the same life, whose numbers began anew when the cluster was set back. Where they did not, they say which is
// the later one, and not clocks.
func (n *Note) isOutdatedBy(r *v1.MySQLBackup) bool {
	if n.Unreadable || n.Name == r.Name || n.Spec.Instance.XR != r.Spec.Instance.XR {
		return false
	}
	at := n.AnnouncedAt.Time
	if n.Spec.Number > r.Spec.Number {
		at = at.Add(serversDiffer)
	}
	return at.Before(r.Announced().Time)
}

// Missing backup of the instance.
func (s *State) Missing() *Note { return Missing(s.Notes, s.Records) }

// OwnNote is the note of the backup that this life has now, or nil. From then on the backup is
// proven, whatever becomes of its record.
func (s *State) OwnNote() *Note {
	if n := NoteNamed(s, s.Attempt().Record); n != nil && s.isOwnNote(n) {
		return n
	}
	return nil
}

// ForeignNote is a note that a store has under the name of this backup and that this backup did not write, or nil. Another cluster
// with the same objects wrote it, or this cluster did before it was set back: its composite resources are as they were, and a store
// has all that was published since.
func (s *State) ForeignNote() *Note {
	if n := NoteNamed(s, s.Attempt().Record); n != nil && !s.isOwnNote(n) {
		return n
	}
	return nil
}

// serversDiffer is the largest difference between the clocks of two API servers.
const serversDiffer = time.Minute

// IsEarlier reports whether a note was announced before this life was deleted.
func (s *State) IsEarlier(n *Note) bool {
	at := s.Identity().DeletedAt
	return s.XR != nil && at != nil && n.AnnouncedAt.Add(serversDiffer).Before(at.Time)
}

// isOwnNote reports whether this cluster wrote a note about this backup. Names and times do not show that: a cluster that was copied with
// its etcd has the same names and UIDs, and deletes its instances at the same time. Two things do:
//   - what the controller wrote on the XR, the data volume and its PVC before it published the note (AnnotationPublished);
//   - for a note of an earlier release, its record and the sum that this cluster's own Job reports.
func (s *State) isOwnNote(n *Note) bool {
	switch r := s.Record(); {
	case n.Store == "": // The notes on volumes are this cluster's own objects.
		return true
	case n.Spec.Archive == nil:
		return false
	case s.Identity().Annotations[v1.AnnotationPublished] == n.PublishedArchive():
		return true
	case r == nil || s.Backup == nil || s.Backup.Report == nil:
		return false
	default:
		return n.Record == r.UID && s.Backup.Report.SHA256 == n.Spec.Archive.SHA256
	}
}

// NoteNamed is that of a backup of this life, or nil.
func NoteNamed(s *State, name string) *Note {
	for i := range s.Notes {
		if n := &s.Notes[i]; s.Life.XR != "" && !n.Unreadable && n.Name == name && n.Spec.Instance.XR == s.Life.XR {
			return n
		}
	}
	return nil
}

// heldBack is what people hear of a missing record.
func heldBack(n *Note) string {
	return fmt.Sprintf("backup %s is %s and has no record any more. A person of the platform decides. To make the record again and restore it: %s. To go without it: %s",
		n.Name, n.whereIs(), n.MakeRecord(), n.Forget())
}
