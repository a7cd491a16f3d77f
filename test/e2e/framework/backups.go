package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Backups gives a test access to a claim's backups: to their BackupRecords, and to their archives on the backup
// volume.
type Backups struct{ server *Server }

// MustList returns the BackupRecords of the claim. It ends the test if it cannot list them.
func (b Backups) MustList(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	records, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// Only returns the claim's only BackupRecord. It ends the test unless there is exactly one.
func (b Backups) Only(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	records, err := b.List(t.Context())
	if err != nil || len(records) != 1 {
		t.Fatalf("want one backup, got %d, %v", len(records), err)
	}
	return &records[0]
}

// Newest returns the BackupRecord that was created last.
func (b Backups) Newest(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	records := b.MustList(t)
	newest := slices.MaxFunc(records, func(a, b unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	return &newest
}

// HaveArchives checks that the backup volume contains the archives of the given backups, and no others.
func (b Backups) HaveArchives(t *testing.T, want []string) {
	t.Helper()
	StartToolbox(t, b.server.Namespace, "archives", b.server.BackupPVC())
	out, err := Exec(t.Context(), b.server.Namespace, "archives", "", "ls", "/data")
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(strings.Fields(out), func(name string) bool { return name == "lost+found" })
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the archives are not those of the backups (-want, +got):\n%s", diff)
	}
}

// PhaseVerified is the phase of a verified backup.
const PhaseVerified = "Verified"

// List returns the BackupRecords of the claim.
func (b Backups) List(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := NewList("crossplane-mysql.io/v1alpha1/BackupRecord")
	if err := Suite.Kube.List(ctx, list); err != nil {
		return nil, err
	}
	var mine []unstructured.Unstructured
	for _, r := range list.Items {
		if b.Has(&r) {
			mine = append(mine, r)
		}
	}
	return mine, nil
}

// Has reports whether a BackupRecord belongs to the server's claim.
func (b Backups) Has(record *unstructured.Unstructured) bool {
	origin, _, _ := unstructured.NestedStringMap(record.Object, "spec", "instance")
	return origin["namespace"] == b.server.Namespace && origin["name"] == b.server.Name
}

// IsVerified returns an error if the backup is not verified.
func IsVerified(r *unstructured.Unstructured) error {
	phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
	if phase == PhaseVerified {
		return nil
	}
	message, _, _ := unstructured.NestedString(r.Object, "status", "message")
	return fmt.Errorf("%s is %s: %s", r.GetName(), phase, message)
}

// AreVerified checks that the claim has the given number of backups, and that all of them are verified.
func (b Backups) AreVerified(t *testing.T, want int) {
	t.Helper()
	records, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != want {
		t.Errorf("want %d backups, got %d", want, len(records))
	}
	for _, r := range records {
		if err := IsVerified(&r); err != nil {
			t.Errorf("want each backup to be Verified: %v", err)
		}
	}
}
