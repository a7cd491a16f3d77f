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

// An Entry is the catalog entry of one backup on a volume or in a store. The entry and the archive remain if a user
// deletes the BackupRecord.
type Entry struct {
	v1.BackupEntry

	// Name is the name of the BackupRecord and of the archive's directory.
	Name string
	// Volume or Store is the name of the volume or BackupStore that contains the entry. The other field is empty.
	Volume, Store string
	// Forgotten is true if a user has allowed the next instance to start without this backup.
	Forgotten bool
	// Unreadable is true if the entry cannot be decoded, so that only the name of the backup is known.
	Unreadable bool
}

// Noted contains the catalog entries of an instance's backups.
type Noted struct {
	// Entries are the catalog entries, newest first. BackupPVs are the backup volumes. Both are read if Records is
	// read. The entries of stores are added to Entries later.
	Entries   []Entry
	BackupPVs []corev1.PersistentVolume
}

// entriesOn returns the catalog entries on a volume that name the instance, and all unreadable entries.
func entriesOn(v *corev1.PersistentVolume, instance v1.Instance) []Entry {
	out := make([]Entry, 0, len(v.Annotations))
	for key, text := range v.Annotations {
		name, ok := strings.CutPrefix(key, v1.AnnotationBackupPrefix)
		if !ok || name == "" {
			continue
		}
		n := Entry{Name: name, Volume: v.Name}
		if err := json.Unmarshal([]byte(text), &n.BackupEntry); err != nil || n.Spec.Archive == nil {
			n.Unreadable = true
		}
		n.Forgotten = v.Annotations[v1.AnnotationForgetPrefix+name] == n.ignoreValue()
		if i := n.Spec.Instance; n.Unreadable || i.Kind == instance.Kind && i.Namespace == instance.Namespace &&
			i.Name == instance.Name {
			out = append(out, n)
		}
	}
	return out
}

// Forget returns the command with which a user allows the next instance to start without the backup. The archive is
// kept.
func (n *Entry) Forget() string {
	if n.Store != "" {
		return fmt.Sprintf("kubectl annotate backupstore %s %s%s=%s", n.Store, v1.AnnotationForgetPrefix, n.Name,
			n.ignoreValue())
	}
	return fmt.Sprintf("kubectl annotate pv %s %s%s=%s", n.Volume, v1.AnnotationForgetPrefix, n.Name, n.ignoreValue())
}

// MakeRecord returns the command that creates the BackupRecord of a backup again.
func (n *Entry) MakeRecord() string {
	if n.Store != "" {
		return fmt.Sprintf("kubectl annotate backupstore %s --overwrite %s=%s", n.Store, v1.AnnotationMakeRecord,
			v1.StorePrefix(n.Spec.Instance, n.Name))
	}
	return fmt.Sprintf("kubectl annotate pv %s --overwrite %s=%s", n.Volume, v1.AnnotationMakeRecord, n.Name)
}

// Of reports whether a BackupRecord belongs to the catalog entry. This is the case if name and instance UID are
// equal.
func (n *Entry) Of(r *v1.BackupRecord) bool {
	return n.Name == r.Name && (n.Unreadable || n.Spec.Instance.XR == r.Spec.Instance.XR)
}

// ignoreValue returns the value of the annotation with which a user allows the next instance to start without the
// backup. It is the UID of the BackupRecord, or the name of the backup if the UID is unknown.
func (n *Entry) ignoreValue() string {
	if n.Unreadable || n.Record == "" {
		return n.Name
	}
	return string(n.Record)
}

// HasEntries reports whether the catalog on a volume contains backups.
func HasEntries(v *corev1.PersistentVolume) bool {
	for key := range v.Annotations {
		if strings.HasPrefix(key, v1.AnnotationBackupPrefix) {
			return true
		}
	}
	return false
}

// backupPVs returns all volumes with the labels of the instance's backup volumes, including volumes of previous
// namespaces with the same name.
func backupPVs(ctx context.Context, r client.Reader, instanceID v1.Instance) ([]corev1.PersistentVolume, error) {
	l := &corev1.PersistentVolumeList{}
	if err := r.List(ctx, l, client.MatchingLabels{v1.LabelInstance: instanceID.Key(),
		v1.LabelComponent: v1.ComponentBackup}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	return l.Items, nil
}

// readNoted reads the catalog entries on volumes for all backups with this name.
func readNoted(ctx context.Context, r client.Reader, instanceID v1.Instance) (Noted, error) {
	volumes, err := backupPVs(ctx, r, instanceID)
	return Noted{Entries: EntriesOf(volumes, instanceID), BackupPVs: volumes}, err
}

// withBoundVolume adds the catalog entries of the volume that is bound to the backup PVC, even if the volume has no
// labels.
func (n Noted) withBoundVolume(v *corev1.PersistentVolume, instanceID v1.Instance) Noted {
	if v == nil || slices.ContainsFunc(n.BackupPVs, func(x corev1.PersistentVolume) bool { return x.Name == v.Name }) {
		return n
	}
	return Noted{Entries: newestEntriesFirst(append(n.Entries, entriesOn(v, instanceID)...)), BackupPVs: append(n.BackupPVs, *v)}
}

// EntriesOf returns the catalog entries on the volumes for an instance, newest first.
func EntriesOf(volumes []corev1.PersistentVolume, instance v1.Instance) []Entry {
	out := make([]Entry, 0, len(volumes))
	for i := range volumes {
		out = append(out, entriesOn(&volumes[i], instance)...)
	}
	return newestEntriesFirst(out)
}

func newestEntriesFirst(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return trueFirst(a.isNewerThan(&b), b.isNewerThan(&a)) })
	return entries
}

// isNewerThan reports whether a backup is newer than another. An unreadable entry is treated as newer, because its
// age is unknown.
func (n *Entry) isNewerThan(other *Entry) bool {
	if n.Unreadable != other.Unreadable {
		return n.Unreadable
	}
	return n.asRecord().After(other.asRecord())
}

// asRecord returns a BackupRecord with only those fields of the catalog entry that determine the order of backups.
func (n *Entry) asRecord() *v1.BackupRecord {
	r := &v1.BackupRecord{Spec: n.Spec}
	r.Name, r.Spec.AnnouncedAt = n.Name, &n.AnnouncedAt
	return r
}

// newestFirst sorts BackupRecords in the same order as the function.
func newestFirst(records []v1.BackupRecord) {
	slices.SortFunc(records, func(a, b v1.BackupRecord) int { return v1.NewestFirst(&a, &b) })
}

// Missing returns the catalog entry of a backup that has no verified BackupRecord and is newer than all backups that
// have one. A user has deleted its BackupRecord, or the BackupRecord was created again without its status. The next
// instance must not start without the data of this backup. Missing returns nil if there is no such backup, or if a
// user has allowed the instance to start without it.
func Missing(entries []Entry, records []v1.BackupRecord) *Entry {
	for i := range entries {
		n := &entries[i]
		if n.Forgotten || slices.ContainsFunc(records, func(r v1.BackupRecord) bool {
			return r.IsVerified() && n.isOutdatedBy(&r)
		}) {
			continue
		}
		if slices.ContainsFunc(records, func(r v1.BackupRecord) bool {
			return r.IsVerified() && (n.Of(&r) || !n.Unreadable && r.After(n.asRecord()))
		}) {
			return nil
		}
		return n
	}
	return nil
}

// isOutdatedBy reports whether a later backup of the same instance replaces this one. The start time of the backups
// decides, because numbers start again if the cluster was restored from an etcd snapshot. If this backup has the
// higher number, the time difference must exceed the possible difference between the clocks of two API servers.
func (n *Entry) isOutdatedBy(r *v1.BackupRecord) bool {
	if n.Unreadable || n.Name == r.Name || n.Spec.Instance.XR != r.Spec.Instance.XR {
		return false
	}
	announced := n.AnnouncedAt.Time
	if n.Spec.Number > r.Spec.Number {
		announced = announced.Add(serversDiffer)
	}
	return announced.Before(r.Announced().Time)
}

// Missing returns the missing backup of the instance, or nil.
func (s *State) Missing() *Entry { return Missing(s.Entries, s.Records) }

// OwnEntry returns the catalog entry of this instance's current backup, or nil. If the entry exists, the backup is
// verified, even if its BackupRecord is deleted.
func (s *State) OwnEntry() *Entry {
	if n := EntryNamed(s, s.Attempt().Record); n != nil && isOwnEntry(s, n) {
		return n
	}
	return nil
}

// ForeignEntry returns the catalog entry in a store that has the name of this backup but belongs to a different
// backup. It returns nil if there is none. Another cluster with the same names and UIDs may have written the entry.
// This cluster may also have been restored from an etcd snapshot that is older than the entry.
func (s *State) ForeignEntry() *Entry {
	if n := EntryNamed(s, s.Attempt().Record); n != nil && !isOwnEntry(s, n) {
		return n
	}
	return nil
}

// serversDiffer is the largest assumed difference between the clocks of two API servers.
const serversDiffer = time.Minute

// IsEarlier reports whether the backup of a catalog entry started before the deletion of this instance.
func IsEarlier(b *Basis, n *Entry) bool {
	deletedAt := b.Identity().DeletedAt
	return b.XR != nil && deletedAt != nil && n.AnnouncedAt.Add(serversDiffer).Before(deletedAt.Time)
}

// isOwnEntry reports whether this cluster wrote the catalog entry of this backup. Names and times do not show this. A
// cluster that was copied together with its etcd has the same names and UIDs, and may delete its instances at the
// same time. The controller therefore accepts either proof:
//
// - The annotation AnnotationPublished names the archive. The controller writes it to the XR, the data volume and its
// PVC before it publishes the entry.
// - For an entry of an earlier release, its BackupRecord and the checksum in the report of this cluster's Job match.
func isOwnEntry(s *State, n *Entry) bool {
	switch r := s.Record(); {
	case n.Store == "": // Only this cluster writes entries on its volumes.
		return true
	case n.Spec.Archive == nil:
		return false
	case s.Identity().Annotations[v1.AnnotationPublished] == n.PublishedArchive():
		return true
	case r == nil || s.BackupJob == nil || s.BackupJob.Report == nil:
		return false
	default:
		return n.Record == r.UID && s.BackupJob.Report.SHA256 == n.Spec.Archive.SHA256
	}
}

// EntryNamed returns the catalog entry of a backup of this instance, or nil.
func EntryNamed(s *State, name string) *Entry {
	for i := range s.Entries {
		if n := &s.Entries[i]; s.Instance.XR != "" && !n.Unreadable && n.Name == name && n.Spec.Instance.XR == s.Instance.XR {
			return n
		}
	}
	return nil
}

// blockedMessage returns the message for users about a missing BackupRecord.
func blockedMessage(n *Entry) string {
	return fmt.Sprintf("backup %s exists %s, but its BackupRecord is missing. The platform team must choose one of "+
		"two commands. To create the BackupRecord again and restore the backup: %s. To start without the backup: %s",
		n.Name, n.whereIs(), n.MakeRecord(), n.Forget())
}
