package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Stores reads the contents of BackupStores. Entries must have the product's signature.
type Stores interface {
	// ReadEntry returns the catalog entry of a backup in a store, or nil if there is none. An UnreadableEntryError only
	// affects this entry.
	ReadEntry(ctx context.Context, store string, origin v1.BackedUpInstance, record string) (*v1.StoreEntry, error)
	// FindRecovery returns the backup and the binary log for a recovery to a time or a GTID, with a plan. The records are
	// the backups to choose from, the newest first. previous is the previous result, or nil.
	FindRecovery(ctx context.Context, choice, moment string, previous *v1.RecoverySource,
		records []v1.BackupRecord) (*v1.RecoverySource, error)
	// FindEntries returns the catalog entries in all stores for backups that were taken in a namespace. It omits known
	// BackupRecords. It returns either all entries or an error.
	FindEntries(ctx context.Context, namespace types.UID, isKnown func(record string) bool) ([]FoundEntry, error)
}

// An UnreadableEntryError reports a catalog entry in a store that is damaged or was not written by the product.
type UnreadableEntryError struct{ Err error }

func (e *UnreadableEntryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreadableEntryError) Unwrap() error { return e.Err }

// A FoundEntry is the catalog entry of a backup in a store.
type FoundEntry struct {
	*v1.StoreEntry

	// Store is the store with the entry. Record and XR come from the path of the entry.
	Store, Record string
	XR            types.UID
	// Forgotten is true if a user has allowed the next instance to start without this backup.
	Forgotten bool
}

// Store returns the name of the store for this instance's backups, or "" if they are written to a volume. If the
// platform offers the store, the function writes its name to the status and to the data PVC. If the XR or its status
// is lost, the name on the volume is used. Users of the namespace can annotate the PVC. The name on the PVC is
// therefore used only before the volume is labeled, and only for a store that the platform offers.
func (b *Basis) Store() string {
	switch store, known := knownStore(b); {
	case known:
		return store
	case b.StoreForbidden:
		return ""
	}
	return chosenStore(b)
}

// knownStore returns the store from fields that only the function and the controller can write.
func knownStore(b *Basis) (store string, known bool) {
	switch v := b.DataPV; {
	case b.XR != nil && !b.XR.Unreadable.Has("status.internal.backupStore") &&
		(b.XR.Status.BackupStore != "" || b.XR.Status.Volume != ""):
		return b.XR.Status.BackupStore, true
	case v != nil && v.Annotations[v1.AnnotationNamespaceUID] != "":
		return v.Annotations[v1.AnnotationBackupStore], true
	}
	return "", false
}

// chosenStore returns the store that the data PVC names. Without a data PVC, it uses the other objects that hold the
// data.
func chosenStore(b *Basis) string {
	if c := b.DataPVC; c != nil {
		return c.Annotations[v1.AnnotationBackupStore]
	}
	return b.Identity().Store
}

// StoreAnswers contains what the controller read from stores.
type StoreAnswers struct {
	// StoreFailure is the reason why a required store could not be read. It is empty if all stores responded. If it is
	// set, the catalog entries may be incomplete.
	StoreFailure string
	// RestoreFrom is the catalog entry of the backup that a restore Job needs access to. It is nil if no restore Job
	// waits for access.
	RestoreFrom *v1.StoreEntry
	// RestoreTo is the Job that waits for access. The Job owns the Secret with the access.
	RestoreTo *Job
}

// isStoreForbidden reports whether the store is named only on a PVC, and the platform does not offer it. If the
// Platform object cannot be read, the PVC is not trusted.
func isStoreForbidden(ctx context.Context, r client.Reader, basis *Basis) (bool, error) {
	store := chosenStore(basis)
	if _, known := knownStore(basis); known || store == "" {
		return false, nil
	}
	p, err := ReadPlatform(ctx, r)
	forbidden := p == nil || !p.OffersBackupStore(store)
	if errors.As(err, new(*UnreadablePlatformError)) {
		return forbidden, nil // Unreadable fields offer no store.
	}
	return forbidden, err
}

// readStores adds the catalog entries of stores to the entries of volumes. It reads the entry of this instance's
// backup. Before the first start, it reads the entries of all backups with this name in this namespace. If a store
// does not respond, the instance waits.
func readStores(ctx context.Context, r client.Reader, stores Stores, basis *Basis, noted Noted) (Noted, StoreAnswers) {
	var out StoreAnswers
	var found []Entry
	var err error
	switch {
	case stores == nil:
	case basis.XR != nil && !basis.IsDeleting() && !basis.XR.Status.Started:
		namespaces := namespacesOf(basis.NamespaceUID(), basis.Records, noted.Entries, noted.BackupPVs)
		if found, err = entriesInStores(ctx, stores, basis.Instance, namespaces, basis.Records); err == nil {
			out.RestoreFrom, out.RestoreTo, err = readRestoreFrom(ctx, r, stores, basis)
		}
	case (basis.IsDeleting() || basis.IsBackedUpInstance()) && basis.Store() != "" && !isVerified(basis):
		found, err = readOwnEntry(ctx, stores, basis)
	}
	if err != nil {
		out.StoreFailure = v1.PrintableText(err.Error(), v1.MaxForeignText)
	}
	if len(found) > 0 {
		noted.Entries = newestEntriesFirst(append(noted.Entries, found...))
	}
	return noted, out
}

// isVerified reports whether the BackupRecord of this instance's backup is verified, so that the store need not be
// read.
func isVerified(basis *Basis) bool {
	r := basis.Record()
	return r != nil && r.IsVerified()
}

// readOwnEntry reads the catalog entry of this instance's backup.
func readOwnEntry(ctx context.Context, stores Stores, basis *Basis) ([]Entry, error) {
	n, err := stores.ReadEntry(ctx, basis.Store(), basis.BackedUp(), basis.Attempt().Record)
	if n == nil || err != nil {
		return nil, err
	}
	return []Entry{{BackupEntry: n.BackupEntry, Name: n.Name, Store: basis.Store()}}, nil
}

// entriesInStores returns the catalog entries in all stores for backups of an instance that were taken in the given
// namespaces. It omits backups whose BackupRecord is verified.
func entriesInStores(ctx context.Context, stores Stores, instanceID v1.Instance, namespaces []types.UID,
	records []v1.BackupRecord) ([]Entry, error) {
	verified := map[string]bool{}
	for i := range records {
		verified[records[i].Name] = records[i].IsVerified()
	}
	var out []Entry
	for _, namespace := range namespaces {
		found, err := stores.FindEntries(ctx, namespace, func(record string) bool { return verified[record] })
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if n, ok := entryIn(f, instanceID, namespace); ok {
				out = append(out, n)
			}
		}
	}
	return out, nil
}

// entryIn returns the catalog entry of a backup in a store, or false if the backup belongs to another instance.
func entryIn(f FoundEntry, instance v1.Instance, namespace types.UID) (Entry, bool) {
	n := Entry{Name: f.Record, Store: f.Store, Forgotten: f.Forgotten, Unreadable: f.StoreEntry == nil}
	if n.Unreadable { // Only its name and its directory are known.
		n.Spec.Instance.NamespaceUID, n.Spec.Instance.XR = namespace, f.XR
		return n, isRecordOf(instance, f.Record)
	}
	n.BackupEntry = f.BackupEntry
	i := n.Spec.Instance
	return n, i.Kind == instance.Kind && i.Namespace == instance.Namespace && i.Name == instance.Name
}

// readRestoreFrom returns the catalog entry of the backup in a store that the function chose, and the restore Job. It
// returns nil if no restore Job waits for access to a store.
func readRestoreFrom(ctx context.Context, r client.Reader, stores Stores,
	basis *Basis) (entry *v1.StoreEntry, job *Job, err error) {
	chosen, instanceID := basis.XR.Status.Restore, basis.Instance
	if !chosen.IsRunning() {
		return nil, nil, nil
	}
	archive := sourceIn(chosen, instanceID.Namespace)
	if archive.Store == "" {
		return nil, nil, nil
	}
	secret, err := getObject(ctx, r, metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")), instanceID.Namespace,
		instanceID.Accesses().Restore())
	if err != nil || secret != nil && Owns(instanceID, secret) && secret.Annotations[v1.AnnotationAccessTo] == archive.Path {
		return nil, nil, err
	}
	if job, err = readJob(ctx, r, instanceID, instanceID.Namespace, instanceID.Jobs().Restore()); err != nil || job == nil {
		return nil, nil, err // The function will create the Job.
	}
	// An imported file has no catalog entry, because no Job of the product wrote it. ReadEntry is called only to check
	// that the store responds.
	if chosen.Import != nil {
		if _, err := stores.ReadEntry(ctx, archive.Store, basis.BackedUp(), basis.Attempt().Record); err != nil {
			return nil, job, err
		}
		return &v1.StoreEntry{BackupEntry: v1.BackupEntry{Spec: v1.BackupRecordSpec{Archive: &archive}}}, job, nil
	}
	entry, err = readChosenEntry(ctx, r, stores, chosen, instanceID.Namespace)
	return entry, job, err
}

// readChosenEntry reads the catalog entry of the backup that the function chose from its store.
func readChosenEntry(ctx context.Context, r client.Reader, stores Stores, chosen *v1.RestoreStatus,
	namespace string) (*v1.StoreEntry, error) {
	record, err := getObject(ctx, r, &v1.BackupRecord{}, "", chosen.Backup)
	switch {
	case err != nil:
		return nil, err
	case record == nil || !record.IsVerified() || !record.InStore() || record.Spec.Instance.Namespace != namespace ||
		*record.Spec.Archive != chosen.Archive || !v1.IsLogOf(chosen.Recovery, record):
		return nil, fmt.Errorf("backup %s changed after it was chosen for the restore", chosen.Backup)
	}
	n, err := stores.ReadEntry(ctx, chosen.Archive.Store, record.Spec.Instance, record.Name)
	switch {
	case err != nil:
		return nil, err
	case n == nil || *n.Spec.Archive != chosen.Archive:
		return nil, fmt.Errorf("BackupStore %s has no catalog entry for backup %s, which is to be restored", chosen.Archive.Store,
			chosen.Backup)
	}
	return n, nil
}

// sourceIn returns the archive in a store from which an instance is restored or imported. The result is empty if the
// source is not in a store.
func sourceIn(chosen *v1.RestoreStatus, namespace string) v1.Archive {
	switch from := chosen.Import; {
	case from == nil:
		return chosen.Archive
	case from.Dump != nil:
		return v1.Archive{Store: from.Dump.StoreRef.Name, Path: from.Dump.Object(namespace)}
	}
	return v1.Archive{}
}

// restoring returns the XRs in a namespace that are about to start from a backup, by the name of the backup. The
// backup may belong to another instance. An XR whose restore source is unreadable may have chosen any of the backups.
func restoring(ctx context.Context, r client.Reader, namespace string,
	backups []v1.BackupRecord) (map[string]string, error) {
	out := map[string]string{}
	for _, kind := range Kinds() {
		xrs, err := listXRs(ctx, r, kind, kind.xrsIn(namespace))
		if IsNotInstalled(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, x := range xrs {
			for _, name := range x.mayBeRestoring(backups) {
				out[name] = x.GetKind() + " " + x.GetName()
			}
		}
	}
	return out, nil
}

// mayBeRestoring returns the name of the backup that an XR starts from, or all names if the choice is unreadable.
func (c *Composite) mayBeRestoring(backups []v1.BackupRecord) []string {
	chosen := c.Status.Restore
	switch {
	case c.IsDeleting() || c.Status.Started && !c.Unreadable.Has("status.internal.started"):
		return nil
	case c.Unreadable.HasAny("status.restore.backup", "status.restore.phase"):
		names := make([]string, 0, len(backups))
		for i := range backups {
			names = append(names, backups[i].Name)
		}
		return names
	case chosen == nil || chosen.Backup == "":
		return nil
	}
	return []string{chosen.Backup}
}

// isRecordOf reports whether a name can belong to a BackupRecord of the instance. The names of an instance's
// BackupRecords differ only in their last part.
func isRecordOf(instance v1.Instance, name string) bool {
	ours := instance.RecordName()
	prefix := ours[:strings.LastIndex(ours, "-")+1]
	return len(name) == len(ours) && strings.HasPrefix(name, prefix)
}

// BackedUp returns the instance as it appears in the BackupRecords of its backups.
func (b *Basis) BackedUp() v1.BackedUpInstance {
	return v1.BackedUpInstance{Kind: b.Instance.Kind, Namespace: b.Instance.Namespace, NamespaceUID: b.NamespaceUID(),
		Name: b.Instance.Name, XR: b.Instance.XR}
}

// whereIs describes for users where a backup is stored.
func (n *Entry) whereIs() string {
	if n.Store != "" {
		return "in BackupStore " + n.Store
	}
	return "on PersistentVolume " + n.Volume
}
