package adopt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// TestTwoAdoptions runs two imports concurrently. One must fail, and must not remove the request of the other. An
// import must continue after a temporary error.
func TestTwoAdoptions(t *testing.T) {
	scheme, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	const another = "another question"
	looks := 0
	kube := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: "offsite"}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				opts ...client.GetOption) error {
				switch looks++; looks {
				case 1:
					return errors.New("connection refused")
				case 2: // The other import has written its request.
					s := &v1.BackupStore{}
					if err := c.Get(ctx, key, s); err != nil {
						return err
					}
					s.Annotations[v1.AnnotationAdopt] = another
					if err := c.Update(ctx, s); err != nil {
						return err
					}
				}
				return c.Get(ctx, key, o, opts...)
			}}).Build()
	var progress bytes.Buffer
	err = (&StoreAdoption{Kube: kube, Store: "offsite", Output: io.Discard, Progress: &progress}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another user has requested an adoption") ||
		!strings.Contains(progress.String(), "connection refused") {
		t.Errorf("got %v, %s", err, progress.String())
	}
	s := &v1.BackupStore{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "offsite"}, s); err != nil ||
		s.Annotations[v1.AnnotationAdopt] != another {
		t.Errorf("the other's question is %q, %v", s.Annotations[v1.AnnotationAdopt], err)
	}
}

// TestStoreAdoption checks that the request is written, the result is printed, and the request is removed.
func TestStoreAdoption(t *testing.T) {
	timestamp := metav1.Unix(1000, 0)
	backup := func(verdict v1.AdoptionVerdict, reason string) v1.AdoptedBackup {
		return v1.AdoptedBackup{Name: "mysql.shop.db-1", Kind: "MySQL", Namespace: "shop", Instance: "db",
			AnnouncedAt: &timestamp, Version: "8.4.6", Size: "3706215", Verdict: verdict, Why: reason}
	}
	for name, tc := range map[string]struct {
		answer v1.StoreAdoption
		dryRun bool
		says   string
		fails  string
	}{
		"Adopted": {answer: v1.StoreAdoption{Backups: []v1.AdoptedBackup{backup(v1.Adopted, "")}},
			says: "8.4.6     4Mi    is adopted in namespace new-shop"},
		"DryRun": {answer: v1.StoreAdoption{Backups: []v1.AdoptedBackup{backup(v1.Adopted, "")}}, dryRun: true,
			says: "would be adopted in namespace new-shop"},
		"Known": {answer: v1.StoreAdoption{Backups: []v1.AdoptedBackup{backup(v1.AdoptedBefore, "in namespace crm")}},
			says: "already has a BackupRecord, in namespace crm"},
		"Unnamed": {answer: v1.StoreAdoption{Backups: []v1.AdoptedBackup{backup(v1.AdoptionUnnamed, "")}},
			says: "to adopt it: --map shop=NAMESPACE"},
		"Refused": {answer: v1.StoreAdoption{
			Backups: []v1.AdoptedBackup{backup(v1.Adopted, ""),
				backup(v1.AdoptionRefused, "no seal")}}, says: "refused: no seal", fails: "1 backups were refused"},
		"More": {answer: v1.StoreAdoption{Message: "3 more are not shown",
			Backups: []v1.AdoptedBackup{backup(v1.Adopted, "")}}, says: "3 more are not shown"},
		"Nothing": {says: "BackupStore offsite contains no backups.\n"},
		"Down": {answer: v1.StoreAdoption{Message: "the store cannot be reached"},
			fails: "BackupStore offsite: the store cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := instance.NewScheme()
			if err != nil {
				t.Fatal(err)
			}
			var asked []string
			kube := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1.BackupStore{}).
				WithObjects(&v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: "offsite"}}).
				WithInterceptorFuncs(interceptor.Funcs{
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
						opts ...client.PatchOption) error {
						if err := c.Patch(ctx, o, patch, opts...); err != nil {
							return err
						}
						s := &v1.BackupStore{}
						if err := c.Get(ctx, client.ObjectKeyFromObject(o), s); err != nil {
							return err
						}
						asked = append(asked, s.Annotations[v1.AnnotationAdopt])
						request := v1.AdoptionRequest{}
						if asked[len(asked)-1] == "" {
							return nil
						}
						if err := json.Unmarshal([]byte(asked[len(asked)-1]), &request); err != nil {
							return err
						}
						if request.DryRun != tc.dryRun || request.Namespaces["shop"] != "new-shop" {
							t.Errorf("it asks for %+v", request)
						}
						tc.answer.ID = request.ID
						s.Status.Adoption = &tc.answer
						return c.Status().Update(ctx, s)
					}}).Build()
			var out, progress bytes.Buffer
			err = (&StoreAdoption{Kube: kube, Store: "offsite", Namespaces: map[string]string{"shop": "new-shop"},
				DryRun: tc.dryRun, Output: &out, Progress: &progress}).Run(t.Context())
			if !strings.Contains(out.String(), tc.says) || (err != nil) != (tc.fails != "") || err != nil &&
				!strings.Contains(err.Error(), tc.fails) {
				t.Errorf("want %q and error %q, got %v\n%s", tc.says, tc.fails, err, out.String())
			}
			if len(asked) != 2 || asked[0] == "" || asked[1] != "" {
				t.Errorf("want a question that is taken back, got %q", asked)
			}
		})
	}
}
