package stores

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// A Candidate is a backup in a store that may be imported.
type Candidate struct {
	Found

	// Entry is the catalog entry of the backup. It is nil if it cannot be read. Problem then contains the reason.
	Entry   *v1.StoreEntry
	Problem string
}

// Candidates returns all backups in the store, sorted by namespace, instance and number. A backup that was already
// imported has two entries, and is returned once.
func (s *Store) Candidates(ctx context.Context) ([]Candidate, error) {
	all, err := s.AllBackups(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := s.readEntries(ctx, all)
	if err != nil {
		return nil, err
	}
	var out []Candidate
	adopted := map[string]bool{}
	for i, f := range all {
		switch n, err := entries[i].entry, entries[i].err; {
		case store.Is(err, store.NotFound): // The object has just been removed.
		case err != nil:
			out = append(out, Candidate{Found: f, Problem: err.Error()})
		default:
			out = append(out, Candidate{Found: f, Entry: n})
			if n.From != nil {
				adopted[n.ArchivePrefix()] = true
			}
		}
	}
	out = slices.DeleteFunc(out, func(c Candidate) bool { return adopted[c.Prefix()] })
	slices.SortStableFunc(out, func(a, b Candidate) int { return slices.Compare(a.order(), b.order()) })
	return out, nil
}

// Facts contains everything about this cluster that the verdict on a candidate depends on.
type Facts struct {
	// To is the namespace that the user has assigned to the candidate's namespace, or "". Target is this namespace,
	// or nil if it does not exist.
	To     string
	Target *corev1.Namespace
	// Home is the namespace with the same name as the candidate's namespace, or nil.
	Home *corev1.Namespace
	// Record is the BackupRecord with the candidate's name, or nil.
	Record *v1.BackupRecord
	// Stranger describes an object in Target that has the name of the candidate's instance but belongs to a different
	// instance. It is empty if there is none. Unknown is the reason why the controller cannot determine this, or "".
	Stranger, Unknown string
}

// Origin returns the kind and the original names of the instance that was backed up. It omits the UIDs, because a
// namespace that was created again may have adopted older backups. It returns an empty value for an unreadable
// candidate.
func (c Candidate) Origin() v1.BackedUpInstance {
	if c.Entry == nil {
		return v1.BackedUpInstance{}
	}
	if c.Entry.From != nil {
		return nameOf(*c.Entry.From)
	}
	return nameOf(c.Entry.Spec.Instance)
}

// A Lineage contains the instance UIDs and the BackupRecords of all candidates of one instance.
type Lineage struct {
	Instances map[types.UID]bool
	Records   map[string]bool
}

// Lineages returns the lineage of each instance among the candidates.
func Lineages(all []Candidate) map[v1.BackedUpInstance]Lineage {
	out := map[v1.BackedUpInstance]Lineage{}
	for _, c := range all {
		lineage, known := out[c.Origin()]
		if !known {
			lineage = Lineage{map[types.UID]bool{}, map[string]bool{}}
			out[c.Origin()] = lineage
		}
		lineage.Instances[c.XR], lineage.Records[c.Record] = true, true
	}
	return out
}

// A Resident is an object that already uses the name of an instance: a server that has started, or a backup.
type Resident struct {
	// What describes the object for users.
	What string
	// Instance is the UID of the instance that the object belongs to.
	Instance types.UID
	// Of is the original instance of an imported backup. It is nil for objects that belong to this cluster.
	Of *v1.BackedUpInstance
	// From is the BackupRecord that a server was restored from.
	From string
	// Asked is the BackupRecord of a backup in a store whose catalog entry must still be read. The entry contains the
	// instance for the field Of.
	Asked *v1.BackupRecord
}

// IsOf reports whether the object contains data of an instance.
func (r Resident) IsOf(origin v1.BackedUpInstance, lineage Lineage) bool {
	return lineage.Instances[r.Instance] || lineage.Records[r.From] || r.Of != nil && nameOf(*r.Of) == origin
}

// nameOf returns an instance without its UID and without the UID of its namespace.
func nameOf(i v1.BackedUpInstance) v1.BackedUpInstance {
	i.XR, i.NamespaceUID = "", ""
	return i
}

// Judge returns the verdict on a candidate. An accepted candidate gets a catalog entry for this cluster.
//
// The user must assign each namespace, because names do not show who owned a namespace in another cluster. If a
// namespace exists in this cluster, its backups cannot be assigned to another one. The archive would have two owners,
// and would be deleted with the first of them. Backups of two instances cannot be combined under one name. Their
// numbers do not show which data is newer, and retention would count them together.
func (c Candidate) Judge(f Facts) (v1.AdoptedBackup, *v1.StoreEntry) {
	out := v1.AdoptedBackup{Name: v1.PrintableText(c.Record, v1.MaxForeignText), Verdict: v1.AdoptionRefused,
		Why: v1.PrintableText(c.Problem, v1.MaxForeignText)}
	if c.Entry == nil {
		return out, nil
	}
	i := c.Entry.Spec.Instance
	out.Kind, out.Namespace, out.Instance, out.Version, out.Size, out.AnnouncedAt =
		i.Kind, i.Namespace, i.Name, c.Entry.Spec.Version, c.Entry.Spec.Archive.Size, &c.Entry.AnnouncedAt
	isHere := f.Home != nil && f.Home.UID == c.NamespaceUID
	switch {
	case f.Record != nil:
		out.Verdict, out.Why = v1.AdoptedBefore, "in namespace "+f.Record.Spec.Instance.Namespace
		return out, nil
	case f.To == "":
		out.Verdict = v1.AdoptionUnnamed
		return out, nil
	case isHere && f.To != i.Namespace:
		out.Why = fmt.Sprintf("namespace %s exists in this cluster, and the backups already belong to it", i.Namespace)
		return out, nil
	case f.Target == nil || f.Target.DeletionTimestamp != nil:
		out.Why = fmt.Sprintf("there is no namespace %s: create it first", f.To)
		return out, nil
	case !isHere && f.Unknown != "":
		out.Why = f.Unknown + ": try again"
		return out, nil
	case !isHere && f.Stranger != "":
		out.Why = fmt.Sprintf("%s in namespace %s belongs to another instance with the name %s: choose another "+
			"namespace", f.Stranger, f.To,
			i.Name)
		return out, nil
	}
	out.Verdict = v1.Adopted
	if isHere {
		return out, c.Entry
	}
	n := *c.Entry
	n.From = cmp.Or(n.From, &i)
	n.Spec = *c.Entry.Spec.DeepCopy()
	n.Spec.Instance.Namespace, n.Spec.Instance.NamespaceUID = f.Target.Name, f.Target.UID
	return out, &n
}

// order returns the sort key of a candidate. Unreadable candidates are sorted last.
func (c Candidate) order() []string {
	if c.Entry == nil {
		return []string{"\xff", c.Record}
	}
	i := c.Entry.Spec.Instance
	return []string{i.Namespace, i.Kind, i.Name, fmt.Sprintf("%020d", c.Entry.Spec.Number), c.Record}
}
