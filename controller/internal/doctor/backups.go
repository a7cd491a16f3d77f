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

// summarizeBackups of an instance.
func (x *instanceCheck) summarizeBackups() Backups {
	out := Backups{}
	for _, v := range x.backupPVs {
		out.Volumes = append(out.Volumes, v.Name)
	}
	for _, r := range x.records {
		if !r.IsProven() {
			continue
		}
		if r.InStore() && !slices.Contains(out.Stores, r.Spec.Archive.Store) {
			out.Stores = append(out.Stores, r.Spec.Archive.Store)
		}
		if out.Proven++; out.Proven == 1 {
			at := r.Announced()
			if r.Status.ProvenAt != nil {
				at = *r.Status.ProvenAt
			}
			out.Newest = x.ageOf(at)
		}
	}
	return out
}

// examineRecords of an instance, except those of lives that are being rescued.
func (x *instanceCheck) examineRecords() []Finding {
	var out []Finding
	for _, r := range x.records {
		out = append(out, x.deletedRecord(r)...)
		switch uid := r.Spec.Instance.XR; {
		case r.IsProven():
			out = append(out, x.provenRecord(r)...)
		case x.living[uid]:
			out = append(out, x.unfinishedRecord(r))
		case !x.orphaned[uid]:
			f := wrongFinding("if that data is lost for good: kubectl delete mysqlbackup "+r.Name,
				"%s; neither its composite resource nor its volume is there, so nobody finishes it, and the next claim of this name waits for it", x.unfinishedRecord(r).Text)
			out = append(out, f)
		}
	}
	return out
}

// missingRecords: their archives are there, and the newest of them holds the name.
func (x *instanceCheck) missingRecords() []Finding {
	if slices.Contains(x.Absent, v1.KindMySQLBackup) {
		return nil
	}
	notes, records := x.backupNotes(), x.recordsByValue()
	newest := instance.Missing(notes, records)
	var out []Finding
	for i := range notes {
		n := &notes[i]
		known := slices.ContainsFunc(records, func(r v1.MySQLBackup) bool { return n.Of(&r) })
		switch {
		case known:
		case newest != nil && n.Name == newest.Name && n.Unreadable:
			out = append(out, wrongFinding(fmt.Sprintf("to see what lies there: %s; to go without it: %s", adoptCommand(x.key), n.Forget()),
				"backup %s is on PersistentVolume %s and has no record, and what the volume says of it cannot be read: no claim of this name starts beside it", n.Name, n.Volume))
		case newest != nil && n.Name == newest.Name:
			out = append(out, wrongFinding(fmt.Sprintf("to restore it: %s; to go without it: %s", n.MakeRecord(), n.Forget()),
				"backup %s is on PersistentVolume %s and has no record: no claim of this name starts beside it", n.Name, n.Volume))
		case !n.Unreadable:
			out = append(out, noteFinding("to have the record again: "+n.MakeRecord(), "backup %s is on PersistentVolume %s and has no record", n.Name, n.Volume))
		}
	}
	return out
}

// backupNotes of all volumes of an instance, newest first.
func (p *subject) backupNotes() []instance.Note {
	volumes := make([]corev1.PersistentVolume, 0, len(p.backupPVs))
	for _, v := range p.backupPVs {
		volumes = append(volumes, *v)
	}
	return instance.NotesOf(volumes, p.key.Life(""))
}

func (p *subject) recordsByValue() []v1.MySQLBackup {
	out := make([]v1.MySQLBackup, 0, len(p.records))
	for _, r := range p.records {
		out = append(out, *r)
	}
	return out
}

// deletedRecord: it stays as long as something is to be done for it.
func (x *instanceCheck) deletedRecord(r *v1.MySQLBackup) []Finding {
	if r.DeletionTimestamp == nil || !x.isOlder(*r.DeletionTimestamp, soon) {
		return nil
	}
	return []Finding{wrongFinding(x.askController("lets it go, or its status.message says what it waits for"), "backup %s is being deleted since %s: %s", r.Name, x.ageOf(*r.DeletionTimestamp), cmp.Or(r.Status.Message, "nothing says what it waits for"))}
}

// provenRecord: a proven backup needs its volume, or its store.
func (x *instanceCheck) provenRecord(r *v1.MySQLBackup) []Finding {
	var out []Finding
	if r.InStore() {
		out = append(out, x.storedRecord(r)...)
	} else if !slices.ContainsFunc(x.backupPVs, func(v *corev1.PersistentVolume) bool { return hasBackupsOf(v, r.Spec.Instance.NamespaceUID) }) {
		out = append(out, wrongFinding("bring the volume back; if it is lost for good: kubectl delete mysqlbackup "+r.Name,
			"backup %s is proven, and no volume says that it holds backups of namespace %s (%s): it cannot be restored", r.Name, x.key.Namespace, r.Spec.Instance.NamespaceUID))
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1.ConditionRestorable); c != nil && c.Status == metav1.ConditionFalse {
		out = append(out, wrongFinding("create the claim with spec.restore.backup set to an older one, and keep this one for whoever repairs the data",
			"backup %s is what was on the disk, but no server runs on it: %s", r.Name, c.Message))
	}
	return out
}

// storedRecord is of a backup in a store. Nobody is told to delete it: what lies there is there, whatever the cluster knows of it.
func (x *instanceCheck) storedRecord(r *v1.MySQLBackup) []Finding {
	name := r.Spec.Archive.Store
	n := slices.IndexFunc(x.Stores, func(s v1.BackupStore) bool { return s.Name == name })
	if n < 0 {
		return []Finding{wrongFinding("make it again, with its bucket, prefix and keys: docs/stores.md", "backup %s lies in BackupStore %s, which is not there: it cannot be restored", r.Name, name)}
	}
	s := &x.Stores[n]
	if s.IsReachable() {
		return nil
	}
	why := "nobody has tried it yet"
	if c := meta.FindStatusCondition(s.Status.Conditions, v1.ConditionReachable); c != nil {
		why = c.Message
	}
	return []Finding{wrongFinding("kubectl describe backupstore "+name, "backup %s lies in BackupStore %s, which is not reachable: %s", r.Name, name, why)}
}

// hasBackupsOf is true if a volume has backups of a namespace, or is where they would go.
// A backup that may lie on a volume is not called lost, nor the volume idle.
func hasBackupsOf(v *corev1.PersistentVolume, namespace types.UID) bool {
	return instance.NamespaceOf(v) == namespace || instance.HasBackupsOf(v, namespace)
}

// examineBackupPVs of an instance: kept, one for each namespace of that name, and
// with something on it.
func (x *instanceCheck) examineBackupPVs() []Finding {
	var out []Finding
	for _, v := range x.backupPVs {
		if x.isIdleVolume(v) {
			out = append(out, noteFinding("see what is on it before you touch it: kubectl describe pv "+v.Name,
				"PersistentVolume %s is for backups, and neither a record nor a note says what is on it, nor is there a claim", v.Name))
			continue
		}
		out = append(out, examineRetained(v, "the backups")...)
	}
	return append(out, x.earlierVolumes()...)
}

// earlierVolumes of namespaces of the same name, which may have been another owner's.
func (x *instanceCheck) earlierVolumes() []Finding {
	today, known := x.namespaceUID(x.key.Namespace)
	advice := "kubectl get pv --selector " + v1.LabelInstance + "=" + x.key.Life("").Key() + " --output yaml shows the namespace of each, in the annotation " + v1.AnnotationNamespaceUID
	names := make([]string, 0, len(x.backupPVs))
	for _, v := range x.backupPVs {
		name := v.Name
		if known && instance.NamespaceOf(v) != today {
			name += " (of an earlier namespace)"
		}
		names = append(names, name)
	}
	switch {
	case len(names) > 1:
		return []Finding{noteFinding(advice, "there are %d volumes of backups, each of another namespace of that name: %s; a claim is restored from those of its own", len(names), strings.Join(names, ", "))}
	case len(names) == 1 && known && instance.NamespaceOf(x.backupPVs[0]) != today:
		return []Finding{noteFinding(advice, "the backups on %s are of an earlier namespace of that name: a claim in today's is not restored from them", x.backupPVs[0].Name)}
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

// hasRecordOn a volume.
func (p *subject) hasRecordOn(v *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(p.records, func(r *v1.MySQLBackup) bool { return hasBackupsOf(v, r.Spec.Instance.NamespaceUID) })
}

// isIdleVolume is true for one that has neither a note nor a backup with a record, and that
// nobody is there to write to.
func (x *instanceCheck) isIdleVolume(v *corev1.PersistentVolume) bool {
	inUse := x.claim != nil || len(x.xrs)+len(x.dataPVs)+len(x.dataPVCs) > 0
	return !inUse && !instance.HasNotes(v) && !x.hasRecordOn(v) && !slices.Contains(x.Absent, v1.KindMySQLBackup)
}
