package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// summarizeBackups returns the verified backups of an instance.
func (x *instanceCheck) summarizeBackups() Backups {
	out := Backups{}
	for _, v := range x.backupPVs {
		out.Volumes = append(out.Volumes, v.Name)
	}
	for _, r := range x.records {
		if !r.IsVerified() {
			continue
		}
		if r.InStore() && !slices.Contains(out.Stores, r.Spec.Archive.Store) {
			out.Stores = append(out.Stores, r.Spec.Archive.Store)
		}
		if out.Verified++; out.Verified == 1 {
			announced := r.Announced()
			if r.Status.CompletionTime != nil {
				announced = *r.Status.CompletionTime
			}
			out.Newest = x.ageOf(announced)
		}
	}
	return out
}

// examineRecords checks the BackupRecords of an instance. It skips the unfinished ones of instances whose data is
// being recovered.
func (x *instanceCheck) examineRecords() []Finding {
	var out []Finding
	for _, r := range x.records {
		out = append(out, x.deletedRecord(r)...)
		switch uid := r.Spec.Instance.XR; {
		case r.IsVerified():
			out = append(out, x.verifiedRecord(r)...)
		case x.living[uid]:
			out = append(out, x.unfinishedRecord(r))
		case !x.orphaned[uid]:
			f := wrongFinding("if that data is lost: kubectl delete backuprecord "+r.Name,
				"%s. It cannot finish, because neither its composite resource nor its volume exists, and the next claim with "+
					"this name waits for it", x.unfinishedRecord(r).Text)
			out = append(out, f)
		}
	}
	return out
}

// missingRecords reports archives whose BackupRecord is missing. If the newest backup lacks its BackupRecord, the
// controller starts no server for a claim with this name. The advice is then to restore the backup or to ignore it.
func (x *instanceCheck) missingRecords() []Finding {
	if slices.Contains(x.Absent, v1.KindBackupRecord) {
		return nil
	}
	entries, records := x.backupEntries(), x.recordsByValue()
	newest := instance.Missing(entries, records)
	var out []Finding
	for i := range entries {
		n := &entries[i]
		known := slices.ContainsFunc(records, func(r v1.BackupRecord) bool { return n.Of(&r) })
		switch {
		case known:
		case newest != nil && n.Name == newest.Name && n.Unreadable:
			out = append(out, wrongFinding(fmt.Sprintf("to list the backups on the volume: %s; to start without "+
				"them: %s", adoptCommand(x.key),
				n.Forget()),
				"backup %s on PersistentVolume %s has no BackupRecord, and its catalog entry cannot be read: no claim with "+
					"this name starts until this is resolved", n.Name, n.Volume))
		case newest != nil && n.Name == newest.Name:
			out = append(out, wrongFinding(fmt.Sprintf("to restore it: %s; to start without it: %s", n.MakeRecord(), n.Forget()),
				"backup %s on PersistentVolume %s has no BackupRecord: no claim with this name starts until this is resolved",
				n.Name, n.Volume))
		case !n.Unreadable:
			out = append(out, newFinding("to create the BackupRecord again: "+n.MakeRecord(),
				"backup %s on PersistentVolume %s has no BackupRecord", n.Name, n.Volume))
		}
	}
	return out
}

// backupEntries returns the catalog entries on all volumes of an instance, newest first.
func (p *subject) backupEntries() []instance.Entry {
	volumes := make([]corev1.PersistentVolume, 0, len(p.backupPVs))
	for _, v := range p.backupPVs {
		volumes = append(volumes, *v)
	}
	return instance.EntriesOf(volumes, p.key.Instance(""))
}

func (p *subject) recordsByValue() []v1.BackupRecord {
	out := make([]v1.BackupRecord, 0, len(p.records))
	for _, r := range p.records {
		out = append(out, *r)
	}
	return out
}

// deletedRecord reports a BackupRecord whose deletion has not finished in time.
func (x *instanceCheck) deletedRecord(r *v1.BackupRecord) []Finding {
	if r.DeletionTimestamp == nil || !x.isOlder(*r.DeletionTimestamp, shortDelay) {
		return nil
	}
	return []Finding{wrongFinding(x.askController("deletes it, or reports in its status.message what it waits for,"),
		"backup %s has been in deletion for %s: %s", r.Name, x.ageOf(*r.DeletionTimestamp),
		cmp.Or(r.Status.Message, "its status contains no reason"))}
}

// verifiedRecord checks that the volume or the store of a verified backup exists.
func (x *instanceCheck) verifiedRecord(r *v1.BackupRecord) []Finding {
	var out []Finding
	if r.InStore() {
		out = append(out, x.storedRecord(r)...)
	} else if !slices.ContainsFunc(x.backupPVs, func(v *corev1.PersistentVolume) bool {
		return hasBackupsOf(v, r.Spec.Instance.NamespaceUID)
	}) {
		out = append(out, wrongFinding("restore the volume; if it is lost: kubectl delete backuprecord "+r.Name,
			"backup %s is verified but cannot be restored: no volume is labeled as the backup volume of namespace "+
				"%s (%s)", r.Name,
			x.key.Namespace, r.Spec.Instance.NamespaceUID))
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1.ConditionRestorable); c != nil &&
		c.Status == metav1.ConditionFalse {
		out = append(out, wrongFinding(
			"create the claim with spec.restore.backup set to an older backup, and keep this backup so that its data can be "+
				"repaired",
			"no server can start from backup %s: %s", r.Name, c.Message))
	}
	return out
}

// storedRecord checks a backup in a store. It never advises to delete the BackupRecord, because the store may still
// contain the archive.
func (x *instanceCheck) storedRecord(r *v1.BackupRecord) []Finding {
	name := r.Spec.Archive.Store
	n := slices.IndexFunc(x.Stores, func(s v1.BackupStore) bool { return s.Name == name })
	if n < 0 {
		return []Finding{wrongFinding("create it again with the same bucket, prefix and keys: docs/how-to/stores.md",
			"backup %s cannot be restored, because its BackupStore %s does not exist", r.Name, name)}
	}
	s := &x.Stores[n]
	if s.IsReachable() {
		return nil
	}
	reason := "it has not been probed yet"
	if c := meta.FindStatusCondition(s.Status.Conditions, v1.ConditionReachable); c != nil {
		reason = c.Message
	}
	return []Finding{wrongFinding("kubectl describe backupstore "+name,
		"backup %s is stored in BackupStore %s, which is not reachable: %s", r.Name, name, reason)}
}

// hasBackupsOf reports whether the backups of a namespace are or would be stored on a volume. The doctor then reports
// neither the backup as lost nor the volume as unused.
func hasBackupsOf(v *corev1.PersistentVolume, namespace types.UID) bool {
	return instance.NamespaceOf(v) == namespace || instance.HasBackupsOf(v, namespace)
}

// examineBackupPVs checks that the backup volumes of an instance are in use and retained. It also reports volumes of
// previous namespaces with this name.
func (x *instanceCheck) examineBackupPVs() []Finding {
	var out []Finding
	for _, v := range x.backupPVs {
		if x.isIdleVolume(v) {
			out = append(out, newFinding("inspect it before you change it: kubectl describe pv "+v.Name,
				"PersistentVolume %s is a backup volume without a claim, a BackupRecord or a catalog entry",
				v.Name))
			continue
		}
		out = append(out, findingsOf(instance.RisksOf(v, "the backups"), "")...)
	}
	return append(out, x.earlierVolumes()...)
}

// earlierVolumes reports volumes of previous namespaces with the same name, which may have had a different owner.
func (x *instanceCheck) earlierVolumes() []Finding {
	today, known := x.namespaceUID(x.key.Namespace)
	advice := "kubectl get pv --selector " + v1.LabelInstance + "=" + x.key.Instance("").Key() +
		" --output yaml shows the namespace of each volume in the annotation " + v1.AnnotationNamespaceUID
	names := make([]string, 0, len(x.backupPVs))
	for _, v := range x.backupPVs {
		name := v.Name
		if known && instance.NamespaceOf(v) != today {
			name += " (of a previous namespace)"
		}
		names = append(names, name)
	}
	switch {
	case len(names) > 1:
		return []Finding{newFinding(advice,
			"there are %d backup volumes, from different namespaces with this name: %s. A claim is restored only from the "+
				"volume of its own namespace", len(names), strings.Join(names, ", "))}
	case len(names) == 1 && known && instance.NamespaceOf(x.backupPVs[0]) != today:
		return []Finding{newFinding(advice,
			"the backups on %s belong to a previous namespace with this name: a claim in the current namespace is "+
				"not restored from them",
			x.backupPVs[0].Name)}
	}
	return nil
}

func (x *index) namespaceUID(name string) (uid types.UID, known bool) {
	for i := range x.Namespaces {
		if n := &x.Namespaces[i]; n.Name == name {
			return n.UID, true
		}
	}
	return "", false
}

// hasRecordOn reports whether a BackupRecord belongs to a volume.
func (p *subject) hasRecordOn(v *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(p.records, func(r *v1.BackupRecord) bool {
		return hasBackupsOf(v, r.Spec.Instance.NamespaceUID)
	})
}

// isIdleVolume reports whether a volume has neither catalog entries nor BackupRecords, and no instance exists that
// could write backups to it.
func (x *instanceCheck) isIdleVolume(v *corev1.PersistentVolume) bool {
	inUse := x.claim != nil || len(x.xrs)+len(x.holders) > 0
	return !inUse && !instance.HasEntries(v) && !x.hasRecordOn(v) && !slices.Contains(x.Absent, v1.KindBackupRecord)
}
