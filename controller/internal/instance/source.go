package instance

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Source is another claim of the namespace that an instance will be restored from, with all of the claim's backups.
// If a BackupRecord was deleted, the catalog on the backup volume or in the store still contains the backup.
type Source struct {
	// Of identifies the claim whose backups the source contains.
	Of v1.Instance
	// Records and Entries are the BackupRecords and the catalog entries of the claim's backups, newest first.
	Records []v1.BackupRecord
	Entries []Entry
}

// Missing returns the newest backup of the source if its BackupRecord is missing, or nil.
func (s *Source) Missing() *Entry { return Missing(s.Entries, s.Records) }

// Newest returns the name of the newest verified backup. It returns PreviousNone if there is no backup, and
// PreviousHeld if the newest BackupRecord is missing.
func (s *Source) Newest() string { return newestOf(s.Entries, s.Records) }

// newestOf returns the name of the newest verified backup, in the format of status.internal.previousBackup. The
// records must be sorted newest first.
func newestOf(entries []Entry, records []v1.BackupRecord) string {
	if Missing(entries, records) != nil {
		return v1.PreviousHeld
	}
	for i := range records {
		if records[i].IsVerified() {
			return records[i].Name
		}
	}
	return v1.PreviousNone
}

// needsSource reports whether an instance will be restored from another claim but has not chosen a backup yet.
func needsSource(s *Subject) bool {
	return s.XR != nil && !s.IsDeleting() && !s.XR.Status.Started && s.XR.Status.Restore == nil &&
		s.XR.Spec.Restore.From != nil && s.XR.Spec.Restore.Source(s.Instance).Key() != s.Instance.Key()
}

// readSource reads the backups of the claim that spec.restore.from names. storeFailure is the error of an earlier read
// from a store, or "". If it is set, readSource reads no store and returns it. Otherwise readSource returns the error
// of its own read. The instance waits while there is such an error, as it does for its own backups.
func readSource(ctx context.Context, r client.Reader, stores Stores, basis *Basis,
	storeFailure string) (*Source, string, error) {
	if !needsSource(&basis.Subject) {
		return nil, storeFailure, nil
	}
	out := &Source{Of: basis.XR.Spec.Restore.Source(basis.Instance)}
	var err error
	if out.Records, err = readRecords(ctx, r, out.Of); err != nil {
		return nil, storeFailure, err
	}
	volumes, err := allBackupPVs(ctx, r, out.Of)
	if err != nil {
		return nil, storeFailure, err
	}
	out.Entries = EntriesOf(volumes, out.Of)
	if stores == nil || storeFailure != "" {
		return out, storeFailure, nil
	}
	found, err := entriesInStores(ctx, stores, out.Of, namespacesOf(basis.NamespaceUID(), out.Records, out.Entries, volumes),
		out.Records)
	if err != nil {
		return out, v1.PrintableText(err.Error(), v1.MaxForeignText), nil
	}
	out.Entries = newestEntriesFirst(append(out.Entries, found...))
	return out, "", nil
}

// allBackupPVs returns the volumes that are labeled as backup volumes of the instance, and the volume of its backup
// PVC, even if that volume has no labels.
func allBackupPVs(ctx context.Context, r client.Reader, instanceID v1.Instance) ([]corev1.PersistentVolume, error) {
	volumes, err := backupPVs(ctx, r, instanceID)
	if err != nil {
		return nil, err
	}
	c, err := readPVC(ctx, r, instanceID.Namespace, instanceID.BackupPVCName())
	if err != nil || c == nil || c.Spec.VolumeName == "" {
		return volumes, err
	}
	v, err := readVolume(ctx, r, c.Spec.VolumeName)
	if err != nil || v == nil || !Bound(v, c) ||
		slices.ContainsFunc(volumes, func(x corev1.PersistentVolume) bool { return x.Name == v.Name }) {
		return volumes, err
	}
	return append(volumes, *v), nil
}

// namespacesOf returns the UIDs of the namespaces in which backups of an instance were taken. These are the current
// namespace and previous namespaces with the same name. A store has a prefix for each of them.
func namespacesOf(today types.UID, records []v1.BackupRecord, entries []Entry,
	volumes []corev1.PersistentVolume) []types.UID {
	out := []types.UID{today}
	add := func(uid types.UID) {
		if uid != "" && !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	for i := range records {
		add(records[i].Spec.Instance.NamespaceUID)
	}
	for i := range entries {
		add(entries[i].Spec.Instance.NamespaceUID)
	}
	for i := range volumes {
		add(NamespaceOf(&volumes[i]))
		for _, uid := range EarlierNamespaces(&volumes[i]) {
			add(types.UID(uid))
		}
	}
	return out
}
