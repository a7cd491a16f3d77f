package adopt

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// patience is how long the controller may take before somebody is told that it does.
const patience = 10 * time.Second

// A StoreAdoption of what another cluster has left in a store. The controller does it: it has the store's keys, and reaches it.
type StoreAdoption struct {
	Kube client.Client
	// Store is the name of the BackupStore.
	Store string
	// Namespaces of this cluster, by the names of those that the backups were taken in.
	Namespaces map[string]string
	// DryRun looks, and writes nothing.
	DryRun bool
	// Output takes what is found, and Progress what is waited for.
	Output, Progress io.Writer
}

// Run it. The error says if anything that was asked for was refused.
func (a *StoreAdoption) Run(ctx context.Context) (err error) {
	request := v1.AdoptionRequest{ID: rand.Text(), Namespaces: a.Namespaces, DryRun: a.DryRun}
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := a.ask(ctx, string(raw)); err != nil {
		return fmt.Errorf("cannot ask the controller, by an annotation of BackupStore %s: %w", a.Store, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
		defer cancel()
		err = errors.Join(err, a.takeBack(ctx, string(raw)))
	}()
	done, err := a.waitForAnswer(ctx, request.ID, string(raw))
	if err != nil {
		return err
	}
	return a.print(done)
}

func (a *StoreAdoption) ask(ctx context.Context, request string) error {
	return a.patch(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1.AnnotationAdopt: request}}})
}

// takeBack the question, if it is ours still.
func (a *StoreAdoption) takeBack(ctx context.Context, request string) error {
	s := &v1.BackupStore{}
	if err := a.Kube.Get(ctx, client.ObjectKey{Name: a.Store}, s); err != nil || s.Annotations[v1.AnnotationAdopt] != request {
		return client.IgnoreNotFound(err)
	}
	const at = "/metadata/annotations/"
	path := at + strings.ReplaceAll(v1.AnnotationAdopt, "/", "~1")
	err := a.patch(ctx, types.JSONPatchType, []map[string]string{{"op": "test", "path": path, "value": request}, {"op": "remove", "path": path}})
	if kerrors.IsInvalid(err) { // Somebody has just asked something else.
		return nil
	}
	return client.IgnoreNotFound(err)
}

func (a *StoreAdoption) patch(ctx context.Context, kind types.PatchType, what any) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return err
	}
	s := &v1.BackupStore{}
	s.Name = a.Store
	return a.Kube.Patch(ctx, s, client.RawPatch(kind, raw))
}

// waitForAnswer of the controller, which reads all that lies in the store.
func (a *StoreAdoption) waitForAnswer(ctx context.Context, id, request string) (*v1.StoreAdoption, error) {
	tick, since, said := time.NewTicker(look), time.Now(), ""
	defer tick.Stop()
	for {
		s, say := &v1.BackupStore{}, ""
		switch err := a.Kube.Get(ctx, client.ObjectKey{Name: a.Store}, s); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && instance.IsPassing(err): // The controller goes on.
			say = fmt.Sprintf("cannot get BackupStore %s: %v", a.Store, err)
		case err != nil:
			return nil, fmt.Errorf("cannot get BackupStore %s: %w", a.Store, err)
		case s.Status.Adoption != nil && s.Status.Adoption.ID == id:
			return s.Status.Adoption, nil
		case s.Annotations[v1.AnnotationAdopt] != request:
			return nil, fmt.Errorf("somebody else has asked for an adoption from BackupStore %s meanwhile: type it again when that has ended", a.Store)
		case time.Since(since) > patience:
			say = fmt.Sprintf("waiting for the controller, which reads BackupStore %s: is it running?", a.Store)
		}
		if say != "" && say != said {
			fmt.Fprintln(a.Progress, say) //nolint:errcheck // A lost line is no reason to fail.
			said = say
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// print what became of it, as a table.
func (a *StoreAdoption) print(done *v1.StoreAdoption) error {
	if len(done.Backups) == 0 && done.Message != "" {
		return fmt.Errorf("BackupStore %s: %s", a.Store, done.Message)
	}
	if len(done.Backups) == 0 {
		_, err := fmt.Fprintf(a.Output, "There is no backup in BackupStore %s.\n", a.Store)
		return err
	}
	w := tabwriter.NewWriter(a.Output, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tKIND\tNAME\tBACKUP\tTAKEN\tVERSION\tSIZE\tWHAT") //nolint:errcheck // Flush tells.
	refused := 0
	for i := range done.Backups {
		b := &done.Backups[i]
		if b.Verdict == v1.AdoptionRefused {
			refused++
		}
		taken := ""
		if b.AnnouncedAt != nil {
			taken = b.AnnouncedAt.UTC().Format(time.DateTime)
		}
		fmt.Fprintln(w, strings.Join([]string{b.Namespace, b.Kind, b.Instance, b.Name, taken, b.Version, b.Size, a.whatBecomes(b)}, "\t")) //nolint:errcheck // Flush tells.
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if done.Message != "" {
		if _, err := fmt.Fprintln(a.Output, done.Message); err != nil {
			return err
		}
	}
	return refusedError(refused)
}

// whatBecomes of a backup, in words.
func (a *StoreAdoption) whatBecomes(b *v1.AdoptedBackup) string {
	switch b.Verdict {
	case v1.AdoptedBefore:
		return "has its record, " + b.Why
	case v1.AdoptionRefused:
		return "refused: " + b.Why
	case v1.AdoptionUnnamed:
		return fmt.Sprintf("to adopt it: --map %s=NAMESPACE", b.Namespace)
	case v1.Adopted:
	}
	if a.DryRun {
		return "would be adopted, in namespace " + a.Namespaces[b.Namespace]
	}
	return "is adopted, in namespace " + a.Namespaces[b.Namespace]
}
