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

// An adoption is a running import of backups that another cluster has written to a store.
type adoption struct {
	redact.All
	*storeReconciler

	open    *stores.Store
	request v1.AdoptionRequest
	// namespaces contains the namespaces of this cluster that were read, by name. The value is nil if a namespace does
	// not exist.
	namespaces map[string]*corev1.Namespace
	// lineages contains, for the instance of each candidate, the UIDs of the instances and the names of the
	// BackupRecords that belong to it.
	lineages map[v1.BackedUpInstance]stores.Lineage
	// residents are the objects that already have the name of a candidate's instance. They are read when they are
	// needed.
	residents map[instance.Key][]stores.Resident
}

// adopt imports the backups that the store's annotation requests. If it is interrupted, it starts again and skips the
// backups that are already imported.
func (r *storeReconciler) adopt(ctx context.Context, s *v1.BackupStore, open *stores.Store) (*v1.StoreAdoption, error) {
	asked := s.Annotations[v1.AnnotationAdopt]
	if asked == "" {
		return nil, nil //nolint:nilnil // There is no request.
	}
	a := adoption{storeReconciler: r, open: open, namespaces: map[string]*corev1.Namespace{}}
	err := json.Unmarshal([]byte(asked), &a.request)
	out := &v1.StoreAdoption{ID: a.request.ID}
	switch previous := s.Status.Adoption; {
	case err != nil || a.request.ID == "":
		out.Message = fmt.Sprintf("the annotation %s does not contain a valid adoption request: use kubectl mysql adopt "+
			"to write it", v1.AnnotationAdopt)
		return out, nil
	case previous != nil && previous.ID == a.request.ID:
		return previous, nil
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
	for i, c := range slices.Backward(all) { // Newest first: a new claim restores the newest one.
		if out.Backups[i], err = a.take(ctx, c); err != nil {
			return nil, err
		}
	}
	if left := len(all) - v1.MaxAdopted; left > 0 {
		out.Backups, out.Message = out.Backups[:v1.MaxAdopted], fmt.Sprintf("%d more are not shown", left)
	}
	return out, nil
}

// take imports a candidate if its verdict allows it. It writes the catalog entry first. A new claim then waits for
// this backup even if the controller crashes.
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
	if err != nil { // The error is reported together with the results of the other candidates.
		out.Verdict, out.Why = v1.AdoptionRefused, v1.PrintableText(err.Error(), v1.MaxForeignText)
		return out, nil
	}
	if k := keyOf(n.Spec.Instance); a.residents[k] != nil { // A dry run does the same, for the same result.
		origin := c.Origin()
		a.residents[k] = append(a.residents[k],
			stores.Resident{What: fmt.Sprintf("backup %q", c.Record), Instance: c.XR, Of: &origin})
	}
	return out, nil
}

func keyOf(i v1.BackedUpInstance) instance.Key {
	return instance.Key{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name}
}

// strangerTo returns another instance that already has the name of the candidate's instance in the target namespace,
// or "". If this cannot be determined, it returns the reason.
func (a *adoption) strangerTo(ctx context.Context, c stores.Candidate, namespace *corev1.Namespace) (subject,
	reason string, err error) {
	k := keyOf(c.Entry.Spec.Instance)
	k.Namespace = namespace.Name
	if _, known := a.residents[k]; !known {
		if a.residents[k], err = a.residentsOf(ctx, k, namespace.UID); err != nil {
			return "", "", err
		}
	}
	for i := range a.residents[k] {
		r := &a.residents[k][i]
		if r.IsOf(c.Origin(), a.lineages[c.Origin()]) {
			continue
		}
		if err := a.askOrigin(ctx, r); err != nil {
			return "", v1.PrintableText(fmt.Sprintf("the instance of %s is unknown: %v", r.What, err), v1.MaxForeignText), nil
		}
		if !r.IsOf(c.Origin(), a.lineages[c.Origin()]) {
			return r.What, "", nil
		}
	}
	return "", "", nil
}

// askOrigin reads the original name of an imported backup from the store that contains it.
func (a *adoption) askOrigin(ctx context.Context, r *stores.Resident) error {
	b := r.Asked
	r.Asked = nil
	if b == nil {
		return nil
	}
	n, err := a.cluster().ReadEntry(ctx, b.Spec.Archive.Store, b.Spec.Instance, b.Name)
	if err != nil {
		r.Asked = b
		return err
	}
	if n != nil {
		r.Of = n.From
	}
	return nil
}

// residentsOf returns the objects that already have the name of an instance before the import.
func (a *adoption) residentsOf(ctx context.Context, k instance.Key, namespace types.UID) ([]stores.Resident, error) {
	out := []stores.Resident{}
	if !slices.ContainsFunc(instance.Kinds(), func(kind instance.Kind) bool { return kind.InstanceKind() == k.Kind }) {
		return out, nil // A later release added this kind.
	}
	instances, err := (&instance.Gatherer{Reader: a.reader, Clock: a.clock}).GatherXRs(ctx, k)
	if err != nil && !instance.IsNotInstalled(err) {
		return nil, err
	}
	for _, s := range instances {
		if !s.XR.Status.Started {
			continue
		}
		r := stores.Resident{What: fmt.Sprintf("%s %s, which has started,", k.Kind, k.Name), Instance: s.Instance.XR}
		if chosen := s.XR.Status.Restore; chosen != nil {
			r.From = chosen.Backup
		}
		out = append(out, r)
	}
	records, err := instance.Records(ctx, a.reader, k.Instance(""))
	if err != nil {
		return nil, err
	}
	for i := range records {
		b := &records[i]
		r := stores.Resident{What: fmt.Sprintf("backup %q", b.Name), Instance: b.Spec.Instance.XR}
		switch {
		case b.InStore():
			r.Asked = b
		// The BackupRecord was created again after its volume was imported.
		case b.Spec.AnnouncedAt != nil && b.Spec.Instance.NamespaceUID != namespace:
			r.Of = &b.Spec.Instance
		}
		out = append(out, r)
	}
	return out, nil
}

func (a *adoption) factsOf(ctx context.Context, c stores.Candidate) (f stores.Facts, err error) {
	if c.Entry == nil {
		return f, nil
	}
	namespace := c.Entry.Spec.Instance.Namespace
	f.To = a.request.Namespaces[namespace]
	if f.Home, err = a.namespaceNamed(ctx, namespace); err != nil {
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
	r := &v1.BackupRecord{}
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
