package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// crowded adds the given number of earlier backups, and fills the index on the backup volume.
func crowded(records int) variation {
	return func(s *instance.State) {
		older(records)(s)
		steps.SetAnnotation(s.BackupPV, "example.org/others", strings.Repeat("x", catalog.MaxIndex-200))
	}
}

// TestIndexFull checks a backup that does not fit into a full index. The controller waits until expired backups are
// deleted. It deletes no other backup, and reports what the user can do.
func TestIndexFull(t *testing.T) {
	keep := func(n int32) variation { return func(s *instance.State) { s.XR.Spec.Backup.Retention.Count = new(n) } }
	dying := func(s *instance.State) {
		for i := range s.Records {
			if s.Records[i].IsVerified() {
				s.Records[i].DeletionTimestamp = &metav1.Time{Time: now}
			}
		}
	}
	copied := fenced
	cases := map[string]struct {
		reason  string
		state   *instance.State
		want    steps.Action
		targets int
		says    string
	}{
		"Room": {reason: "The index has room, so the backup must be recorded.",
			state: copied(withJob(complete), older(5), keep(2)), want: steps.RecordBackup},
		"Prunes": {reason: "The oldest expired backups must be deleted first.",
			state: copied(withJob(complete), crowded(5), keep(2)),
			want:  steps.MarkForRemoval, targets: 3, says: "no room to record another one"},
		"AFew": {reason: "No more backups must be deleted at a time than are needed.",
			state: copied(withJob(complete), crowded(40), keep(2)),
			want:  steps.MarkForRemoval, targets: catalog.PrunedForIndex},
		"Going": {reason: "The controller must wait until the expired backups are deleted.",
			state: copied(withJob(complete), crowded(5), keep(2), dying), want: steps.Wait, says: "older backups are deleted"},
		"Kept": {reason: "Retention keeps all backups, so none of them must be deleted.",
			state: copied(withJob(complete), crowded(5), keep(5)), want: steps.Wait,
			says: "has no room to record it"},
		"InStore": {reason: "A store has no index with limited room.",
			state: copied(toStore, withJob(sent), older(5), keep(2)), want: steps.RecordBackup},
		"KeptByXR": {reason: "The newest backups must be kept, so a user must decide.",
			state: copied(withJob(complete), crowded(2), keep(2)), want: steps.Wait, says: "kubectl annotate backuprecord"},
	}
	for name, tc := range cases {
		got := Next(tc.state)
		if got.Action != tc.want || tc.want == steps.MarkForRemoval && len(got.Targets) != tc.targets ||
			!strings.Contains(got.Text(), tc.says) {
			t.Errorf("%s: %s want %s of %d, got %s of %d: %q", name, tc.reason, tc.want, tc.targets, got.Action,
				len(got.Targets), got.Text())
		}
	}
}

// TestIndexKeepsRoomForDeletion checks that backups of a running instance leave the space in the index that the final
// backup needs. The server keeps running.
func TestIndexKeepsRoomForDeletion(t *testing.T) {
	v := &corev1.PersistentVolume{}
	steps.SetAnnotation(v, "example.org/others", strings.Repeat("x", catalog.MaxIndex-catalog.IndexOfDeletion-200))
	full := func(s *instance.State) { s.BackupPV.Annotations = v.Annotations }
	for name, tc := range map[string]struct {
		state *instance.State
		want  steps.Action
	}{
		"Deletion": {fenced(withJob(complete), full), steps.RecordBackup},
		"Life":     {running(begun(v1.BackupRunning, time.Minute), withJob(complete), full), steps.ResumeServer},
		"Resumed":  {running(begun(v1.BackupRunning, time.Minute), withJob(complete), full, resumed), steps.Wait},
	} {
		if got := Next(tc.state); got.Action != tc.want {
			t.Errorf("%s: want %s, got %s: %q", name, tc.want, got.Action, got.Text())
		}
	}
}

// TestIndexBound checks that the index never exceeds the limit of the API server. A volume has space for the maximum
// number of scheduled backups and for the backups of deletions.
func TestIndexBound(t *testing.T) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-0aa1c2b4-0000-4000-8000-000000000000"}}
	instance := v1.Instance{Kind: v1.KindMySQL, Namespace: "shop", Name: "mysql-instance",
		XR: "0aa1c2b4-0000-4000-8000-00000000000a"}
	n := 0
	for ; ; n++ {
		r := &v1.BackupRecord{
			ObjectMeta: metav1.ObjectMeta{Name: instance.NumberedRecordName(int64(n)),
				UID: types.UID(fmt.Sprintf("0aa1c2b4-0000-4000-8000-%012d", n)), CreationTimestamp: metav1.Now()},
			Spec: v1.BackupRecordSpec{
				Instance: v1.BackedUpInstance{Kind: instance.Kind, Namespace: instance.Namespace,
					NamespaceUID: "0aa1c2b4-0000-4000-8000-00000000000b", Name: instance.Name, XR: instance.XR},
				Image: "mysql:8.4.6", Version: "8.4.6", CleanShutdown: true, StorageSize: "10Gi", StorageClass: "standard",
				Number: int64(n + 1), Since: 1, Origin: v1.OriginSchedule, Method: v1.MethodOnline, Request: "2026-11-20T10:00Z",
				Archive: &v1.Archive{PVCName: instance.BackupPVCName(), Path: instance.NumberedRecordName(int64(n)) + "/" +
					catalog.ArchiveName, SHA256: fmt.Sprintf("%064d", n), Size: "3706215", DataBytes: 104857600},
			},
		}
		if !catalog.HasRoomInIndex(v, r, 0) {
			break
		}
		v, _ = catalog.WriteEntry(v, r).Object.(*corev1.PersistentVolume)
		if errs := apivalidation.ValidateAnnotations(v.Annotations, field.NewPath("metadata", "annotations")); len(errs) > 0 {
			t.Fatalf("backup %d is one too many for the API server: %v", n, errs.ToAggregate())
		}
	}
	if most := (&v1.PlatformSpec{}).MostBackups(false); int64(n) < most+20 {
		t.Errorf("a volume records %d backups, and schedules may keep %d", n, most)
	}
}

// TestFullIndexLosesNoArchive checks that a BackupRecord is not deleted if no volume contains a catalog entry of its
// archive and the index has no room for the entry.
func TestFullIndexLosesNoArchive(t *testing.T) {
	full := func(k *keepsake) {
		steps.SetAnnotation(k.volume, "example.org/others", strings.Repeat("x", catalog.MaxIndex))
	}
	for name, tc := range map[string]struct {
		owner *keepsake
		want  steps.Action
	}{
		"Dying":    {leaves(t, unnoted, recordDeleted, full), catalog.ReportDelay},
		"DyingFit": {leaves(t, unnoted, recordDeleted), catalog.StoreEntryOfRecord},
		"Stays":    {leaves(t, unnoted, full), steps.NoOp},
	} {
		next := catalog.NextOfArchives(tc.owner.archives())
		got := steps.NoOp
		if len(next) > 0 {
			got = next[0].Action
		}
		if got != tc.want {
			t.Errorf("%s: want %s, got %+v", name, tc.want, next)
		}
	}
}

// TestFunctionGetsNewestRecords checks that the function gets the newest BackupRecords of a name, and the newest one
// of each instance.
func TestFunctionGetsNewestRecords(t *testing.T) {
	record := func(n int, xr types.UID) v1.BackupRecord {
		r := v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%04d", xr, n),
			Finalizers: []string{v1.Finalizer}}, Status: v1.BackupRecordStatus{Phase: v1.BackupVerified}}
		r.Spec.Instance.XR, r.Spec.Number = xr, int64(n)
		return r
	}
	var records []v1.BackupRecord
	for n := 1600; n > 0; n-- {
		records = append(records, record(n, "new"))
	}
	records = append(records, record(2, "old"), record(1, "old"))
	records[500].Status.Phase = v1.BackupFailed
	older := catalog.OlderRecords(records)
	if len(older) != len(records)-catalog.RecordsForFunction-2 || older[records[0].Name] || older["old-0002"] ||
		!older["old-0001"] || older[records[500].Name] {
		t.Errorf("%d of %d records are older", len(older), len(records))
	}
	a := &instance.Archives{Instance: v1.Instance{Kind: v1.KindMySQL, Namespace: home, Name: "db"}, Records: records, Now: now}
	moved := 0
	for _, step := range catalog.NextOfArchives(a) {
		for _, c := range step.Changes {
			if step.Action == catalog.LabelRecord && c.Verb == change.Patch &&
				c.Object.GetLabels()[v1.LabelInstance] == a.Instance.OlderKey() {
				moved++
			}
		}
	}
	if moved == 0 {
		t.Error("none is moved")
	}
}
