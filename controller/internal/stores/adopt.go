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

// A Candidate is a backup in a store that may be adopted.
type Candidate struct {
	Found

	// Note of it; nil where it cannot be read, which Problem says.
	Note    *v1.StoreNote
	Problem string
}

// Candidates are all backups in the store, by namespace, instance and number. What was adopted before is there once.
func (s *Store) Candidates(ctx context.Context) ([]Candidate, error) {
	all, err := s.AllBackups(ctx)
	if err != nil {
		return nil, err
	}
	notes, err := s.readNotes(ctx, all)
	if err != nil {
		return nil, err
	}
	var out []Candidate
	adopted := map[string]bool{}
	for i, f := range all {
		switch n, err := notes[i].note, notes[i].err; {
		case store.Is(err, store.NotFound): // It has just been removed.
		case err != nil:
			out = append(out, Candidate{Found: f, Problem: err.Error()})
		default:
			out = append(out, Candidate{Found: f, Note: n})
			if n.From != nil {
				adopted[n.ArchiveFolder()] = true
			}
		}
	}
	out = slices.DeleteFunc(out, func(c Candidate) bool { return adopted[c.Folder()] })
	slices.SortStableFunc(out, func(a, b Candidate) int { return slices.Compare(a.order(), b.order()) })
	return out, nil
}

// Facts are what this cluster has that a candidate meets.
type Facts struct {
	// To is the namespace that the request names for the candidate's, empty where it names none; Target is that, nil where there is
	// none of that name.
	To     string
	Target *corev1.Namespace
	// Home is the namespace that is called as the candidate's was, nil where there is none.
	Home *corev1.Namespace
	// Record of the candidate's name, nil where there is none.
	Record *v1.MySQLBackup
	// Stranger is what has the name of the candidate's instance in Target and is of another one; empty where nothing is. Unknown says of
	// what there is why nobody knows.
	Stranger, Unknown string
}

// Origin is the instance that a candidate is of, where it was taken, by its names alone: a namespace that was made again may have inherited what
// was there before. Of one that cannot be read it is empty.
func (c Candidate) Origin() v1.BackedUpInstance {
	if c.Note == nil {
		return v1.BackedUpInstance{}
	}
	if c.Note.From != nil {
		return nameOf(*c.Note.From)
	}
	return nameOf(c.Note.Spec.Instance)
}

// A Lineage is what is known of an instance by the candidates that are of it: its lives, and the records of its backups.
type Lineage struct {
	Lives   map[types.UID]bool
	Records map[string]bool
}

// Lineages of all instances that candidates are of.
func Lineages(all []Candidate) map[v1.BackedUpInstance]Lineage {
	out := map[v1.BackedUpInstance]Lineage{}
	for _, c := range all {
		of, known := out[c.Origin()]
		if !known {
			of = Lineage{map[types.UID]bool{}, map[string]bool{}}
			out[c.Origin()] = of
		}
		of.Lives[c.XR], of.Records[c.Record] = true, true
	}
	return out
}

// A Resident is what has the name of an instance already: a server that has started, or a backup.
type Resident struct {
	// What it is, for people.
	What string
	// Life that it is of.
	Life types.UID
	// Of is the instance that a backup from elsewhere is of, by the names that it was taken under; nil of what is of this cluster.
	Of *v1.BackedUpInstance
	// From is the record that a server was restored from.
	From string
	// Asked is the record of a backup in a store, until that has said what it is Of.
	Asked *v1.MySQLBackup
}

// IsOf an instance is true of what has its rows, or some of them.
func (r Resident) IsOf(origin v1.BackedUpInstance, of Lineage) bool {
	return of.Lives[r.Life] || of.Records[r.From] || r.Of != nil && nameOf(*r.Of) == origin
}

// nameOf an instance, without its life and that of its namespace.
func nameOf(i v1.BackedUpInstance) v1.BackedUpInstance {
	i.XR, i.NamespaceUID = "", ""
	return i
}

// Judge a candidate. What is adopted has a note as this cluster is to have it.
//
// A name says nothing of who had it on another cluster, so that whoever asks says which namespace gets what; and what a namespace of this
// very cluster has is its own: an archive of two owners would go with the first of them. Nor are the backups of two instances made those of
// one name: which of them has the newer rows no number would tell, and keep would count them together.
func (c Candidate) Judge(f Facts) (v1.AdoptedBackup, *v1.StoreNote) {
	out := v1.AdoptedBackup{Name: v1.PrintableText(c.Record, v1.MaxForeignText), Verdict: v1.AdoptionRefused, Why: v1.PrintableText(c.Problem, v1.MaxForeignText)}
	if c.Note == nil {
		return out, nil
	}
	i := c.Note.Spec.Instance
	out.Kind, out.Namespace, out.Instance, out.Version, out.Size, out.AnnouncedAt = i.Kind, i.Namespace, i.Name, c.Note.Spec.Version, c.Note.Spec.Archive.Size, &c.Note.AnnouncedAt
	isHere := f.Home != nil && f.Home.UID == c.NamespaceUID
	switch {
	case f.Record != nil:
		out.Verdict, out.Why = v1.AdoptedBefore, "in namespace "+f.Record.Spec.Instance.Namespace
		return out, nil
	case f.To == "":
		out.Verdict = v1.AdoptionUnnamed
		return out, nil
	case isHere && f.To != i.Namespace:
		out.Why = fmt.Sprintf("namespace %s is that of this cluster, and its backups are its own", i.Namespace)
		return out, nil
	case f.Target == nil || f.Target.DeletionTimestamp != nil:
		out.Why = fmt.Sprintf("there is no namespace %s: create it first", f.To)
		return out, nil
	case !isHere && f.Unknown != "":
		out.Why = f.Unknown + ": try again"
		return out, nil
	case !isHere && f.Stranger != "":
		out.Why = fmt.Sprintf("%s in namespace %s is of another instance called %s: name another namespace", f.Stranger, f.To, i.Name)
		return out, nil
	}
	out.Verdict = v1.Adopted
	if isHere {
		return out, c.Note
	}
	n := *c.Note
	n.From = cmp.Or(n.From, &i)
	n.Spec = *c.Note.Spec.DeepCopy()
	n.Spec.Instance.Namespace, n.Spec.Instance.NamespaceUID = f.Target.Name, f.Target.UID
	return out, &n
}

// order of candidates; those that cannot be read come last.
func (c Candidate) order() []string {
	if c.Note == nil {
		return []string{"\xff", c.Record}
	}
	i := c.Note.Spec.Instance
	return []string{i.Namespace, i.Kind, i.Name, fmt.Sprintf("%020d", c.Note.Spec.Number), c.Record}
}
