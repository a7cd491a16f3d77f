package instance

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Source is another claim of the namespace that an instance is to be restored from, with all that is known of its
// backups: a MySQLBackup can be deleted, and the backup volume or the store has the archive all the same.
type Source struct {
	// Of is the other claim.
	Of v1.Instance
	// Records and Notes of its backups, newest first.
	Records []v1.MySQLBackup
	Notes   []Note
}

// Missing returns the newest backup of the source if its MySQLBackup is missing, or nil.
func (s *Source) Missing() *Note { return Missing(s.Notes, s.Records) }

// Newest returns the name of the newest verified backup, PreviousNone, or PreviousHeld if its MySQLBackup is missing.
func (s *Source) Newest() string { return newestOf(s.Notes, s.Records) }

// newestOf returns the name of the newest verified backup among records that are sorted newest first, as
// status.previousBackup has it.
func newestOf(notes []Note, records []v1.MySQLBackup) string {
	if Missing(notes, records) != nil {
		return v1.PreviousHeld
	}
	for i := range records {
		if records[i].IsProven() {
			return records[i].Name
		}
	}
	return v1.PreviousNone
}

// needsSource reports whether an instance is to be restored from another claim and has not chosen a backup yet.
func (s *State) needsSource() bool {
	return s.XR != nil && !s.IsDeleting() && !s.XR.Status.Started && s.XR.Status.Restore == nil && s.XR.Spec.Restore.From != nil && *s.XR.Spec.Restore.From != s.Life.Name
}

// readSource reads what is known of the claim that spec.restore.from names. A store that does not answer keeps the
// instance waiting, as it does for the instance's own backups.
func (g *gathering) readSource(ctx context.Context) error {
	if !g.needsSource() {
		return nil
	}
	of := v1.Instance{Kind: g.Life.Kind, Namespace: g.Life.Namespace, Name: *g.XR.Spec.Restore.From}
	out := &Source{Of: of}
	var err error
	if out.Records, err = Records(ctx, g.Reader, of); err != nil {
		return err
	}
	newestFirst(out.Records)
	volumes, err := g.allBackupPVs(ctx, of)
	if err != nil {
		return err
	}
	out.Notes = NotesOf(volumes, of)
	g.Source = out
	if g.Stores == nil || g.StoreFailure != "" {
		return nil
	}
	found, err := g.notesInStores(ctx, of, namespacesOf(g.NamespaceUID(), out.Records, out.Notes, volumes), out.Records)
	if err != nil {
		g.StoreFailure = v1.PrintableText(err.Error(), v1.MaxForeignText)
		return nil
	}
	out.Notes = newestNotesFirst(append(out.Notes, found...))
	return nil
}

// allBackupPVs returns the volumes that have the labels of backups of the instance, and the volume of its backup PVC
// whatever labels that volume has.
func (g *Gatherer) allBackupPVs(ctx context.Context, of v1.Instance) ([]corev1.PersistentVolume, error) {
	volumes, err := g.backupPVs(ctx, of)
	if err != nil {
		return nil, err
	}
	c, err := g.readPVC(ctx, of.Namespace, of.BackupPVCName())
	if err != nil || c == nil || c.Spec.VolumeName == "" {
		return volumes, err
	}
	v, err := g.Volume(ctx, c.Spec.VolumeName)
	if err != nil || v == nil || !Bound(v, c) || slices.ContainsFunc(volumes, func(x corev1.PersistentVolume) bool { return x.Name == v.Name }) {
		return volumes, err
	}
	return append(volumes, *v), nil
}

// namespacesOf returns the UIDs of the namespaces in which backups of an instance were taken: the namespace of today and
// earlier ones of the same name. A store has a directory for each of them.
func namespacesOf(today types.UID, records []v1.MySQLBackup, notes []Note, volumes []corev1.PersistentVolume) []types.UID {
	out := []types.UID{today}
	add := func(uid types.UID) {
		if uid != "" && !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	for i := range records {
		add(records[i].Spec.Instance.NamespaceUID)
	}
	for i := range notes {
		add(notes[i].Spec.Instance.NamespaceUID)
	}
	for i := range volumes {
		add(NamespaceOf(&volumes[i]))
		for _, uid := range EarlierNamespaces(&volumes[i]) {
			add(types.UID(uid))
		}
	}
	return out
}
