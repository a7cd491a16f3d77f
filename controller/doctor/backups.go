package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// backups of an instance in short.
func (x *exam) backups(p *patient) Backups {
	out := Backups{}
	for _, v := range p.backups {
		out.Volumes = append(out.Volumes, v.Name)
	}
	for _, r := range p.records {
		if r.Status.Phase != v1.BackupProven {
			continue
		}
		if out.Proven++; out.Proven == 1 {
			at := r.Announced()
			if r.Status.ProvenAt != nil {
				at = *r.Status.ProvenAt
			}
			out.Newest = x.age(at)
		}
	}
	return out
}

// recordsOf an instance, but those of lives that are being rescued.
func (x *exam) recordsOf(p *patient) []Finding {
	var out []Finding
	for _, r := range p.records {
		switch uid := r.Spec.Instance.XR; {
		case r.Status.Phase == v1.BackupProven:
			out = append(out, x.proven(p, r)...)
		case x.living[uid]:
			out = append(out, x.unfinished(r))
		case !x.lost[uid]:
			f := wrong("if that data is lost for good: kubectl delete mysqlbackup "+r.Name,
				"%s; neither its composite resource nor its volume is there, so nobody finishes it, and the next claim of this name waits for it", x.unfinished(r).Text)
			out = append(out, f)
		}
	}
	return out
}

// proven backups need their volume and their password.
func (x *exam) proven(p *patient, r *v1.MySQLBackup) []Finding {
	var out []Finding
	if !slices.ContainsFunc(p.backups, func(v *corev1.PersistentVolume) bool { return hasBackupsOf(v, r.Spec.Instance.NamespaceUID) }) {
		out = append(out, wrong("bring the volume back; if it is lost for good: kubectl delete mysqlbackup "+r.Name,
			"backup %s is proven, and no volume says that it holds backups of namespace %s (%s): it cannot be restored", r.Name, p.key.Namespace, r.Spec.Instance.NamespaceUID))
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1.ConditionRestorable); c != nil && c.Status == metav1.ConditionFalse {
		out = append(out, wrong("create the claim with spec.restore.backup set to an older one, and keep this one for whoever repairs the data",
			"backup %s is what was on the disk, but no server runs on it: %s", r.Name, c.Message))
	}
	if x.Unread[kindSecret] == "" && !slices.ContainsFunc(x.Passwords, func(s metav1.PartialObjectMetadata) bool { return s.Name == r.Name }) {
		out = append(out, wrong("when it is restored, give the claim the password of that time and change it afterwards",
			"Secret %s/%s with the password of backup %s is gone: after a restore nobody can log in who does not know it", x.Keeper, r.Name, r.Name))
	}
	return out
}

// hasBackupsOf a namespace, or is where they would go. Nothing that may lie on a
// volume is called lost, or idle.
func hasBackupsOf(v *corev1.PersistentVolume, namespace types.UID) bool {
	return instance.NamespaceOf(v) == namespace || instance.HasBackupsOf(v, namespace)
}

// backupVolumes of an instance: kept, one for each namespace of that name, and
// with something on it.
func (x *exam) backupVolumes(p *patient) []Finding {
	var out []Finding
	for _, v := range p.backups {
		if x.idle(p, v) {
			out = append(out, note(x.removal(v), "PersistentVolume %s is for backups, and there is neither a record of one on it nor a claim: it may be deleted", v.Name))
			continue
		}
		out = append(out, x.kept(v, "the backups")...)
	}
	return append(out, x.earlier(p)...)
}

// earlier namespaces of the same name may have been another owner's.
func (x *exam) earlier(p *patient) []Finding {
	today, known := x.namespaceUID(p.key.Namespace)
	advice := "kubectl get pv --selector " + v1.LabelInstance + "=" + p.key.Life("").Key() + " --output yaml shows the namespace of each, in the annotation " + v1.AnnotationNamespaceUID
	names := make([]string, 0, len(p.backups))
	for _, v := range p.backups {
		name := v.Name
		if known && instance.NamespaceOf(v) != today {
			name += " (of an earlier namespace)"
		}
		names = append(names, name)
	}
	switch {
	case len(names) > 1:
		return []Finding{note(advice, "there are %d volumes of backups, each of another namespace of that name: %s; a claim is restored from those of its own", len(names), strings.Join(names, ", "))}
	case len(names) == 1 && known && instance.NamespaceOf(p.backups[0]) != today:
		return []Finding{note(advice, "the backups on %s are of an earlier namespace of that name: a claim in today's is not restored from them", p.backups[0].Name)}
	}
	return nil
}

func (x *exam) namespaceUID(name string) (uid types.UID, known bool) {
	for i := range x.Namespaces {
		if n := &x.Namespaces[i]; n.Name == name {
			return n.UID, true
		}
	}
	return "", false
}

// hasRecordOn a volume.
func (p *patient) hasRecordOn(v *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(p.records, func(r *v1.MySQLBackup) bool { return hasBackupsOf(v, r.Spec.Instance.NamespaceUID) })
}

// idle volumes hold no backup that has a record, and nobody is about to write
// one.
func (x *exam) idle(p *patient, v *corev1.PersistentVolume) bool {
	inUse := p.claim != nil || len(p.xrs)+len(p.data)+len(p.handles) > 0
	return !inUse && !p.hasRecordOn(v) && !slices.Contains(x.Absent, v1.KindMySQLBackup)
}

// removal of a volume: our finalizer only, and not those of others.
func (x *exam) removal(v *corev1.PersistentVolume) string {
	var commands []string
	if n := slices.Index(v.Finalizers, v1.Finalizer); n >= 0 {
		at := fmt.Sprintf("/metadata/finalizers/%d", n)
		commands = append(commands, fmt.Sprintf(`kubectl patch pv %s --type=json --patch '[{"op":"test","path":"%s","value":"%s"},{"op":"remove","path":"%s"}]'`, v.Name, at, v1.Finalizer, at))
	}
	if c := x.handleOf(v); c != nil {
		commands = append(commands, fmt.Sprintf("kubectl delete pvc --namespace %s %s", c.Namespace, c.Name))
	}
	return strings.Join(append(commands, "kubectl delete pv "+v.Name), " && ")
}

// handleOf a volume, if it is there.
func (x *exam) handleOf(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	for i := range x.VolumeClaims {
		if c := &x.VolumeClaims[i]; c.Spec.VolumeName == v.Name {
			return c
		}
	}
	return nil
}
