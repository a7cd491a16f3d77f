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

// Stores tell what lies in BackupStores. What one says it has sealed itself.
type Stores interface {
	// ReadNote of a backup in a store, or nil where it has none. An UnreadableNoteError says nothing of others.
	ReadNote(ctx context.Context, store string, of v1.BackedUpInstance, record string) (*v1.StoreNote, error)
	// FindNotes in all stores about backups that were taken in a namespace, but for those whose records are known
	// already. It is all of them, or an error.
	FindNotes(ctx context.Context, namespace types.UID, isKnown func(record string) bool) ([]FoundNote, error)
}

// An UnreadableNoteError is of a note that a store has, and that is none of ours or damaged.
type UnreadableNoteError struct{ Err error }

func (e *UnreadableNoteError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong with it.
func (e *UnreadableNoteError) Unwrap() error { return e.Err }

// A FoundNote is of a backup in a store.
type FoundNote struct {
	*v1.StoreNote

	// Store that says so, and Record and XR as the place of the note has them.
	Store, Record string
	XR            types.UID
	// Forgotten is true if a person said that the next instance may go without it.
	Forgotten bool
}

// Store that the backups of this life go to, by name; empty where they go to a volume. The function writes it into the
// status, for those that the platform allows, and on the data PVC. Where XR or status were lost the volume says it; the PVC, which its
// namespace may annotate, counts only before the volume was marked, and for a store that the platform offers.
func (s *State) Store() string {
	switch store, known := s.knownStore(); {
	case known:
		return store
	case s.StoreForbidden:
		return ""
	}
	return s.saidStore()
}

// knownStore is what nobody but the function and the controller has written.
func (s *State) knownStore() (store string, known bool) {
	switch v := s.DataPV; {
	case s.XR != nil && !s.XR.Unreadable.Has("status.backupStore") && (s.XR.Status.BackupStore != "" || s.XR.Status.Volume != ""):
		return s.XR.Status.BackupStore, true
	case v != nil && v.Annotations[v1.AnnotationNamespaceUID] != "":
		return v.Annotations[v1.AnnotationBackupStore], true
	}
	return "", false
}

// saidStore is what the data PVC says, or what is left of it.
func (s *State) saidStore() string {
	if c := s.DataPVC; c != nil {
		return c.Annotations[v1.AnnotationBackupStore]
	}
	return s.Identity().Store
}

// readWhetherOffered is the store that only a PVC names. Where the platform's object is not to be had, nothing is believed.
func (g *gathering) readWhetherOffered(ctx context.Context) error {
	store := g.saidStore()
	if _, known := g.knownStore(); known || store == "" {
		return nil
	}
	p, err := ReadPlatform(ctx, g.Reader)
	g.StoreForbidden = p == nil || !p.OffersBackupStore(store)
	if errors.As(err, new(*UnreadablePlatformError)) {
		return nil // What cannot be read offers nothing.
	}
	return err
}

// A storeGathering gathers from stores.
type storeGathering struct{ *gathering }

// readStores asks them what they know of this life's backup or, before a first start, of those of all lives in this
// namespace. What they do not say keeps the life where it is.
func (g storeGathering) readStores(ctx context.Context) {
	var err error
	switch {
	case g.Stores == nil:
	case g.XR != nil && !g.IsDeleting() && !g.XR.Status.Started:
		if err = g.readFoundNotes(ctx); err == nil {
			err = g.readRestoreFrom(ctx)
		}
	case (g.IsDeleting() || g.IsBackedUpInLife()) && g.Store() != "" && !isProven(g.State):
		err = g.readOwnNote(ctx)
	}
	if err != nil {
		g.StoreFailure = v1.PrintableText(err.Error(), v1.MaxForeignText)
	}
}

// isProven is true if the record of this life's backup says so, and nobody has to ask any more.
func isProven(s *State) bool {
	r := s.Record()
	return r != nil && r.IsProven()
}

func (g storeGathering) readOwnNote(ctx context.Context) error {
	n, err := g.Stores.ReadNote(ctx, g.Store(), g.BackedUp(), g.Attempt().Record)
	if n == nil || err != nil {
		return err
	}
	g.Notes = newestNotesFirst(append(g.Notes, Note{BackupNote: n.BackupNote, Name: n.Name, Store: g.Store()}))
	return nil
}

// readFoundNotes of backups of this instance whose records are not proven.
func (g storeGathering) readFoundNotes(ctx context.Context) error {
	found, err := g.notesInStores(ctx, g.Life, namespacesOf(g.NamespaceUID(), g.Records, g.Notes, g.BackupPVs), g.Records)
	if err != nil {
		return err
	}
	g.Notes = newestNotesFirst(append(g.Notes, found...))
	return nil
}

// notesInStores returns what all stores have of backups of an instance that were taken in these namespaces, except
// backups whose record is verified.
func (g *Gatherer) notesInStores(ctx context.Context, of v1.Instance, namespaces []types.UID, records []v1.MySQLBackup) ([]Note, error) {
	proven := map[string]bool{}
	for i := range records {
		proven[records[i].Name] = records[i].IsProven()
	}
	var out []Note
	for _, namespace := range namespaces {
		found, err := g.Stores.FindNotes(ctx, namespace, func(record string) bool { return proven[record] })
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if n, ok := noteIn(f, of, namespace); ok {
				out = append(out, n)
			}
		}
	}
	return out, nil
}

// noteIn returns what a store has of a backup, and false if the backup is of another instance.
func noteIn(f FoundNote, of v1.Instance, namespace types.UID) (Note, bool) {
	n := Note{Name: f.Record, Store: f.Store, Forgotten: f.Forgotten, Unreadable: f.StoreNote == nil}
	if n.Unreadable { // Its name and its directory are known, and nothing else.
		n.Spec.Instance.NamespaceUID, n.Spec.Instance.XR = namespace, f.XR
		return n, isRecordOf(of, f.Record)
	}
	n.BackupNote = f.BackupNote
	i := n.Spec.Instance
	return n, i.Kind == of.Kind && i.Namespace == of.Namespace && i.Name == of.Name
}

// readRestoreFrom a store, where the function has chosen a backup there, and its Job has no access yet.
func (g storeGathering) readRestoreFrom(ctx context.Context) error {
	chosen := g.XR.Status.Restore
	if !chosen.IsRunning() {
		return nil
	}
	at := sourceIn(chosen, g.Life.Namespace)
	if at.Store == "" {
		return nil
	}
	secret, err := getObject(ctx, g.Reader, metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")), g.Life.Namespace, g.Life.Accesses().Restore())
	if err != nil || secret != nil && g.OwnsObject(secret) && secret.Annotations[v1.AnnotationAccessTo] == at.Path {
		return err
	}
	if g.RestoreTo, err = g.readJob(ctx, g.Life.Namespace, g.Life.Jobs().Restore()); err != nil || g.RestoreTo == nil {
		return err // The function is about to make it.
	}
	if chosen.Import != nil { // There is no note of it: whoever put it there is no Job of ours. But a store that cannot be asked says why.
		if _, err := g.Stores.ReadNote(ctx, at.Store, g.BackedUp(), g.Attempt().Record); err != nil {
			return err
		}
		g.RestoreFrom = &v1.StoreNote{BackupNote: v1.BackupNote{Spec: v1.MySQLBackupSpec{Archive: &at}}}
		return nil
	}
	r, err := getObject(ctx, g.Reader, &v1.MySQLBackup{}, "", chosen.Backup)
	switch {
	case err != nil:
		return err
	case r == nil || !r.IsProven() || !r.InStore() || r.Spec.Instance.Namespace != g.Life.Namespace || *r.Spec.Archive != chosen.Archive:
		return fmt.Errorf("backup %s is not what was chosen", chosen.Backup)
	}
	n, err := g.Stores.ReadNote(ctx, chosen.Archive.Store, r.Spec.Instance, r.Name)
	switch {
	case err != nil:
		return err
	case n == nil || *n.Spec.Archive != chosen.Archive:
		return fmt.Errorf("BackupStore %s has no note of backup %s, which is to be restored", chosen.Archive.Store, chosen.Backup)
	}
	g.RestoreFrom = n
	return nil
}

// sourceIn is where in a store lies what an instance of a namespace is made from; without a store it lies in none.
func sourceIn(chosen *v1.RestoreStatus, namespace string) v1.Archive {
	switch from := chosen.Import; {
	case from == nil:
		return chosen.Archive
	case from.Dump != nil:
		return v1.Archive{Store: from.Dump.Store, Path: from.Dump.Object(namespace)}
	}
	return v1.Archive{}
}

// restoring are the XRs of a namespace, by the names of the backups that they have chosen to start from and have not started. A backup may be
// another instance's. An XR of which that cannot be read may have chosen any of the backups.
func (g *Gatherer) restoring(ctx context.Context, namespace string, backups []v1.MySQLBackup) (map[string]string, error) {
	out := map[string]string{}
	for _, kind := range Kinds() {
		xrs, err := g.listXRs(ctx, client.MatchingLabels{labelClaimNamespace: namespace}, kind)
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

// mayBeRestoring are the names of the backups that an XR starts from, as far as that can be read, or of all.
func (c *Composite) mayBeRestoring(backups []v1.MySQLBackup) []string {
	chosen := c.Status.Restore
	switch {
	case c.IsDeleting() || c.Status.Started && !c.Unreadable.Has("status.started"):
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

// isRecordOf is true of a name that a record of the instance may have: they differ in their last part.
func isRecordOf(of v1.Instance, name string) bool {
	ours := of.RecordName()
	prefix := ours[:strings.LastIndex(ours, "-")+1]
	return len(name) == len(ours) && strings.HasPrefix(name, prefix)
}

// BackedUp says whose backups those of this life are.
func (s *State) BackedUp() v1.BackedUpInstance {
	return v1.BackedUpInstance{Kind: s.Life.Kind, Namespace: s.Life.Namespace, NamespaceUID: s.NamespaceUID(), Name: s.Life.Name, XR: s.Life.XR}
}

// whereIs a backup, for people.
func (n *Note) whereIs() string {
	if n.Store != "" {
		return "in BackupStore " + n.Store
	}
	return "on PersistentVolume " + n.Volume
}
