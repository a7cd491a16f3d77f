package reconciler

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/stores"
)

// An adoption of what another cluster has left in a store, while it is under way.
type adoption struct {
	*storeReconciler

	open    *stores.Store
	request v1.AdoptionRequest
	// namespaces of this cluster, by name, as far as they were asked for. One that is not there is nil.
	namespaces map[string]*corev1.Namespace
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
	left := 0
	for _, c := range all {
		found, err := a.take(ctx, c)
		switch {
		case err != nil:
			return nil, err
		case len(out.Backups) == v1.MaxAdopted:
			left++
		default:
			out.Backups = append(out.Backups, found)
		}
	}
	if left > 0 {
		out.Message = fmt.Sprintf("%d more are not shown", left)
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
	if n == nil || a.request.DryRun {
		return out, nil
	}
	if err := a.open.Publish(ctx, n); err != nil {
		out.Verdict, out.Why = v1.AdoptionRefused, v1.PrintableText(err.Error(), v1.MaxForeignText)
		return out, nil // Who asked hears it.
	}
	return out, a.makeRecordOf(ctx, n)
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
