package compose

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestMessagesNameTheBackup checks that messages contain the name of the Backup that a user created. A user can set
// that name in spec.restore.backup, but not the name of the BackupRecord.
func TestMessagesNameTheBackup(t *testing.T) {
	backup := func(record string) string { return "nightly-of-" + record }
	asked := func(r *v1.BackupRecord) { r.Spec.Origin, r.Spec.Request = v1.OriginRequest, backup(r.Name) }
	deleted := func(r *v1.BackupRecord) { r.DeletionTimestamp = &metav1.Time{} }
	large := func(r *v1.BackupRecord) { r.Spec.StorageSize = "2Gi" }
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}
	elsewhere := func(r *v1.BackupRecord) { r.Spec.Instance.NamespaceUID = "earlier" }
	for name, tc := range map[string]struct {
		in      Input
		records []string
	}{
		"Restoring":       {given(previous("b1"), record("b1", 1, v1.BackupVerified, asked)), []string{"b1"}},
		"Large":           {given(previous("b1"), record("b1", 1, v1.BackupVerified, asked, large)), []string{"b1"}},
		"Elsewhere":       {given(previous("b1"), record("b1", 1, v1.BackupVerified, asked, elsewhere)), []string{"b1"}},
		"Deleted":         {given(previous("b1"), record("b1", 1, v1.BackupVerified, asked, deleted)), []string{"b1"}},
		"Failed":          {given(previous("b1"), record("b1", 1, v1.BackupFailed, asked)), []string{"b1"}},
		"Unfinished":      {given(previous("b1"), record("b1", 1, v1.BackupRunning, asked)), []string{"b1"}},
		"Disagree":        {given(previous("None"), record("b1", 1, v1.BackupVerified, asked)), []string{"b1"}},
		"JobFailed":       {given(record("chosen", 1, v1.BackupVerified, asked), job(failed)), []string{"chosen"}},
		"Suspended":       {given(record("chosen", 1, v1.BackupVerified, asked), job(), suspended), []string{"chosen"}},
		"From":            {given(from("neighbour", record("o1", 1, v1.BackupVerified, asked))), []string{"o1"}},
		"FromUnfinished":  {given(from("neighbour", record("o1", 1, v1.BackupRunning, asked))), []string{"o1"}},
		"FromFailed":      {given(from("neighbour", record("o1", 1, v1.BackupFailed, asked))), []string{"o1"}},
		"FromDeleted":     {given(from("neighbour", record("o1", 1, v1.BackupVerified, asked, deleted))), []string{"o1"}},
		"FromDisagreeing": {given(from("neighbour", record("o1", 1, v1.BackupVerified, asked)), foundOther), []string{"o1"}},
		"Rivals": {given(previous("b2"), record("b1", 1, v1.BackupVerified, asked, nth(4, "a")),
			record("b2", 2, v1.BackupVerified, asked, nth(4, "b"))), []string{"b1", "b2"}},
		"FromRivals": {given(from("neighbour", record("o1", 1, v1.BackupVerified, asked, nth(4, "a")),
			record("o2", 2, v1.BackupVerified, asked, nth(4, "b")))), []string{"o1", "o2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var message string
			if out, err := tryCompose(t, tc.in); err != nil {
				message = err.Error()
			} else {
				message = out.Status.Message
			}
			for _, record := range tc.records {
				if !strings.Contains(message, `"`+backup(record)+`"`) || strings.Contains(message, `"`+record+`"`) {
					t.Errorf("want Backup %q and not BackupRecord %q in %q", backup(record), record, message)
				}
			}
		})
	}
}

// foundOther sets the status of a controller that found a different newest backup than the function.
func foundOther(in *Input) { in.XR.Status.RestoreSource.NewestBackup = "other" }
