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

// announceAfter is the time after which the command reports that it is still waiting for the controller.
const announceAfter = 10 * time.Second

// A StoreAdoption imports backups that another cluster has written to a store. The controller runs the import,
// because it has the store's keys and network access.
type StoreAdoption struct {
	Kube client.Client
	// Store is the name of the BackupStore.
	Store string
	// Namespaces maps the original namespaces of the backups to namespaces of this cluster.
	Namespaces map[string]string
	// DryRun is true if the backups are only listed and not imported.
	DryRun bool
	// Output receives the table of results, and Progress receives the progress messages.
	Output, Progress io.Writer
}

// Run runs the import. It returns an error if a requested backup was refused.
func (a *StoreAdoption) Run(ctx context.Context) (err error) {
	request := v1.AdoptionRequest{ID: rand.Text(), Namespaces: a.Namespaces, DryRun: a.DryRun}
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := a.ask(ctx, string(raw)); err != nil {
		return fmt.Errorf("cannot request the adoption with an annotation of BackupStore %s: %w", a.Store, err)
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
	return a.patch(ctx, types.MergePatchType,
		map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1.AnnotationAdopt: request}}})
}

// takeBack removes the import request from the BackupStore, unless another user has replaced the request.
func (a *StoreAdoption) takeBack(ctx context.Context, request string) error {
	s := &v1.BackupStore{}
	if err := a.Kube.Get(ctx, client.ObjectKey{Name: a.Store}, s); err != nil ||
		s.Annotations[v1.AnnotationAdopt] != request {
		return client.IgnoreNotFound(err)
	}
	const prefix = "/metadata/annotations/"
	path := prefix + strings.ReplaceAll(v1.AnnotationAdopt, "/", "~1")
	err := a.patch(ctx, types.JSONPatchType,
		[]map[string]string{{"op": "test", "path": path, "value": request}, {"op": "remove", "path": path}})
	if kerrors.IsInvalid(err) { // Another user has just replaced the request.
		return nil
	}
	return client.IgnoreNotFound(err)
}

func (a *StoreAdoption) patch(ctx context.Context, kind types.PatchType, payload any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	s := &v1.BackupStore{}
	s.Name = a.Store
	return a.Kube.Patch(ctx, s, client.RawPatch(kind, raw))
}

// waitForAnswer waits until the controller has read all objects in the store and reports the result in the status of
// the BackupStore.
func (a *StoreAdoption) waitForAnswer(ctx context.Context, id, request string) (*v1.StoreAdoption, error) {
	tick, since, reported := time.NewTicker(pollInterval), time.Now(), ""
	defer tick.Stop()
	for {
		s, say := &v1.BackupStore{}, ""
		switch err := a.Kube.Get(ctx, client.ObjectKey{Name: a.Store}, s); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && instance.IsPassing(err): // This error does not stop the import in the controller.
			say = fmt.Sprintf("cannot get BackupStore %s: %v", a.Store, err)
		case err != nil:
			return nil, fmt.Errorf("cannot get BackupStore %s: %w", a.Store, err)
		case s.Status.Adoption != nil && s.Status.Adoption.ID == id:
			return s.Status.Adoption, nil
		case s.Annotations[v1.AnnotationAdopt] != request:
			return nil, fmt.Errorf("another user has requested an adoption from BackupStore %s in the meantime. Run the "+
				"command again when that adoption has finished", a.Store)
		case time.Since(since) > announceAfter:
			say = fmt.Sprintf("waiting for the controller to read BackupStore %s. Check that the controller is "+
				"running", a.Store)
		}
		if say != "" && say != reported {
			fmt.Fprintln(a.Progress, say) //nolint:errcheck // A lost line is not an error.
			reported = say
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// print prints the result of the import as a table with one line for each backup.
func (a *StoreAdoption) print(done *v1.StoreAdoption) error {
	if len(done.Backups) == 0 && done.Message != "" {
		return fmt.Errorf("BackupStore %s: %s", a.Store, done.Message)
	}
	if len(done.Backups) == 0 {
		_, err := fmt.Fprintf(a.Output, "BackupStore %s contains no backups.\n", a.Store)
		return err
	}
	w := tabwriter.NewWriter(a.Output, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tKIND\tNAME\tBACKUP\tTAKEN\tVERSION\tSIZE\tWHAT") //nolint:errcheck // Flush reports it.
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
		_, _ = fmt.Fprintln(w, strings.Join([]string{b.Namespace, b.Kind, b.Instance, b.Name, taken, b.Version,
			v1.RoundedSize(b.Size), a.whatBecomes(b)}, "\t"))
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

// whatBecomes returns the last column of the table: what happens to a backup, or why it is refused.
func (a *StoreAdoption) whatBecomes(b *v1.AdoptedBackup) string {
	switch b.Verdict {
	case v1.AdoptedBefore:
		return "already has a BackupRecord, " + b.Why
	case v1.AdoptionRefused:
		return "refused: " + b.Why
	case v1.AdoptionUnnamed:
		return fmt.Sprintf("to adopt it: --map %s=NAMESPACE", b.Namespace)
	case v1.Adopted:
	}
	if a.DryRun {
		return "would be adopted in namespace " + a.Namespaces[b.Namespace]
	}
	return "is adopted in namespace " + a.Namespaces[b.Namespace]
}
