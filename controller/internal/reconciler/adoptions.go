package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// An adoption of what another cluster has left in a store, while it is under way.
type adoption struct {
	redact.All
	*storeReconciler

	open    *stores.Store
	request v1.AdoptionRequest
	// namespaces of this cluster, by name, as far as they were asked for. One that is not there is nil.
	namespaces map[string]*corev1.Namespace
	// lineages of the instances that candidates are of.
	lineages map[v1.BackedUpInstance]stores.Lineage
	// residents of names that candidates would get, as far as they were asked for.
	residents map[instance.Key][]stores.Resident
}

// adopt what the store's annotation asks for. Who is cut short begins again: what was adopted then is known.
func (r *storeReconciler) adopt(ctx context.Context, s *v1.BackupStore, open *stores.Store) (*v1.StoreAdoption, error) {
	asked := s.Annotations[v1.AnnotationAdopt]
	if asked == "" {
		return nil, nil //nolint:nilnil // No question, and no error.
	}
	a := adoption{storeReconciler: r, open: open, namespaces: map[string]*corev1.Namespace{}}
	err := json.Unmarshal([]byte(asked), &a.request)
	out := &v1.StoreAdoption{ID: a.request.ID}
	switch was := s.Status.Adoption; {
	case err != nil || a.request.ID == "":
		out.Message = fmt.Sprintf("the annotation %s is no request for an adoption: have the controller's command adopt write it", v1.AnnotationAdopt)
		return out, nil
	case was != nil && was.ID == a.request.ID:
		return was, nil
	case open == nil:
		out.Message = "the store's settings cannot be used"
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	all, err := open.Candidates(ctx)
	if err != nil {
		out.Message = v1.PrintableText(err.Error(), v1.MaxForeignText)
		return out, nil
	}
	a.lineages, a.residents = stores.Lineages(all), map[instance.Key][]stores.Resident{}
	out.Backups = make([]v1.AdoptedBackup, len(all))
	for i, c := range slices.Backward(all) { // The newest first: a claim that somebody creates meanwhile starts from it.
		if out.Backups[i], err = a.take(ctx, c); err != nil {
			return nil, err
		}
	}
	if left := len(all) - v1.MaxAdopted; left > 0 {
		out.Backups, out.Message = out.Backups[:v1.MaxAdopted], fmt.Sprintf("%d more are not shown", left)
	}
	return out, nil
}

// take a candidate, if it is to be adopted: its note first, so that a claim waits for it whatever happens then.
func (a *adoption) take(ctx context.Context, c stores.Candidate) (v1.AdoptedBackup, error) {
	facts, err := a.factsOf(ctx, c)
	if err != nil {
		return v1.AdoptedBackup{}, err
	}
	out, n := c.Judge(facts)
	if n == nil {
		return out, nil
	}
	if !a.request.DryRun {
		if err = a.holders.Check(ctx, a.open); err == nil {
			err = a.open.Publish(ctx, n)
		}
		if err == nil {
			if err = a.makeRecordOf(ctx, n); err != nil && !isRefused(err) {
				return out, err
			}
		}
	}
	if err != nil { // Who asked hears it, and of the others, too.
		out.Verdict, out.Why = v1.AdoptionRefused, v1.PrintableText(err.Error(), v1.MaxForeignText)
		return out, nil
	}
	if k := keyOf(n.Spec.Instance); a.residents[k] != nil { // Also in a dry run, which is to say the same.
		of := c.Origin()
		a.residents[k] = append(a.residents[k], stores.Resident{What: fmt.Sprintf("backup %q", c.Record), Life: c.XR, Of: &of})
	}
	return out, nil
}

func keyOf(i v1.BackedUpInstance) instance.Key {
	return instance.Key{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name}
}

// strangerTo a candidate: what has the name of its instance in the namespace that is to get it, and none of its rows. Empty where nothing is; of
// what cannot be told, why is said.
func (a *adoption) strangerTo(ctx context.Context, c stores.Candidate, to *corev1.Namespace) (what, why string, err error) {
	k := keyOf(c.Note.Spec.Instance)
	k.Namespace = to.Name
	if _, known := a.residents[k]; !known {
		if a.residents[k], err = a.residentsOf(ctx, k, to.UID); err != nil {
			return "", "", err
		}
	}
	for i := range a.residents[k] {
		r := &a.residents[k][i]
		if r.IsOf(c.Origin(), a.lineages[c.Origin()]) {
			continue
		}
		if err := a.askOrigin(ctx, r); err != nil {
			return "", v1.PrintableText(fmt.Sprintf("it is not known whose %s is: %v", r.What, err), v1.MaxForeignText), nil
		}
		if !r.IsOf(c.Origin(), a.lineages[c.Origin()]) {
			return r.What, "", nil
		}
	}
	return "", "", nil
}

// askOrigin of an adopted backup: the store that it lies in knows under which name it was taken.
func (a *adoption) askOrigin(ctx context.Context, r *stores.Resident) error {
	b := r.Asked
	r.Asked = nil
	if b == nil {
		return nil
	}
	n, err := a.cluster().ReadNote(ctx, b.Spec.Archive.Store, b.Spec.Instance, b.Name)
	if err != nil {
		r.Asked = b
		return err
	}
	if n != nil {
		r.Of = n.From
	}
	return nil
}

// residentsOf the name of an instance, as it is before the adoption.
func (a *adoption) residentsOf(ctx context.Context, k instance.Key, namespace types.UID) ([]stores.Resident, error) {
	out := []stores.Resident{}
	if !slices.ContainsFunc(instance.Kinds(), func(of instance.Kind) bool { return of.Claim.Kind == k.Kind }) {
		return out, nil // Of a later release.
	}
	lives, err := (&instance.Gatherer{Reader: a.reader, Clock: a.clock}).GatherXRs(ctx, k)
	if err != nil && !instance.IsNotInstalled(err) {
		return nil, err
	}
	for _, s := range lives {
		if !s.XR.Status.Started {
			continue
		}
		r := stores.Resident{What: fmt.Sprintf("%s %s, which has started,", k.Kind, k.Name), Life: s.Life.XR}
		if chosen := s.XR.Status.Restore; chosen != nil {
			r.From = chosen.Backup
		}
		out = append(out, r)
	}
	records, err := instance.Records(ctx, a.reader, k.Life(""))
	if err != nil {
		return nil, err
	}
	for i := range records {
		b := &records[i]
		r := stores.Resident{What: fmt.Sprintf("backup %q", b.Name), Life: b.Spec.Instance.XR}
		switch {
		case b.InStore():
			r.Asked = b
		case b.Spec.AnnouncedAt != nil && b.Spec.Instance.NamespaceUID != namespace: // It was made again, and came with its volume.
			r.Of = &b.Spec.Instance
		}
		out = append(out, r)
	}
	return out, nil
}

func (a *adoption) factsOf(ctx context.Context, c stores.Candidate) (f stores.Facts, err error) {
	if c.Note == nil {
		return f, nil
	}
	was := c.Note.Spec.Instance.Namespace
	f.To = a.request.Namespaces[was]
	if f.Home, err = a.namespaceNamed(ctx, was); err != nil {
		return f, err
	}
	if f.To != "" {
		if f.Target, err = a.namespaceNamed(ctx, f.To); err != nil {
			return f, err
		}
		if f.Target != nil {
			if f.Stranger, f.Unknown, err = a.strangerTo(ctx, c, f.Target); err != nil {
				return f, err
			}
		}
	}
	r := &v1.MySQLBackup{}
	switch err := a.reader.Get(ctx, client.ObjectKey{Name: c.Record}, r); {
	case err == nil:
		f.Record = r
	case !kerrors.IsNotFound(err):
		return f, err
	}
	return f, nil
}

func (a *adoption) namespaceNamed(ctx context.Context, name string) (*corev1.Namespace, error) {
	if ns, known := a.namespaces[name]; known {
		return ns, nil
	}
	ns := &corev1.Namespace{}
	err := a.reader.Get(ctx, client.ObjectKey{Name: name}, ns)
	if kerrors.IsNotFound(err) {
		ns, err = nil, nil
	}
	a.namespaces[name] = ns
	return ns, err
}
