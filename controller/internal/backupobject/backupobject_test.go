package backupobject

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
)

var now = metav1.NewTime(time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)) //nolint:gochecknoglobals // A constant time.

type variation func(*Subject)

func subject(vary ...variation) *Subject {
	s := &Subject{Namespace: &corev1.Namespace{}, HasInstance: true}
	for _, v := range vary {
		v(s)
	}
	return s
}

// asked adds a Backup that a user has created.
func asked(s *Subject) {
	s.Backup = &v1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "one", UID: "uid"},
		Spec: v1.BackupObjectSpec{Instance: v1.InstanceReference{Name: "shop"}}}
}

// recorded adds a BackupRecord with a phase and an origin.
func recorded(phase v1.BackupPhase, origin v1.BackupOrigin) variation {
	return func(s *Subject) {
		s.Record = &v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: "team-shop-1", UID: "record-uid"},
			Spec: v1.BackupRecordSpec{Origin: origin, Instance: v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team",
				Name: "shop"}, Version: "8.4.6", Archive: &v1.Archive{Store: "offsite", Path: "a.tar.zst", Size: "1048577"}},
			Status: v1.BackupRecordStatus{Phase: phase, StartTime: &now}}
		if origin == v1.OriginRequest {
			s.Record.Spec.Request = "one"
		}
		if phase == v1.BackupVerified {
			s.Record.Status.CompletionTime = &now
		}
	}
}

func attempted(phase v1.LastBackupPhase, message string) variation {
	return func(s *Subject) { s.Attempt = &v1.LastBackupStatus{Phase: phase, Message: message, BegunAt: now} }
}

// says adds a Backup whose status has an earlier reason, origin and BackupRecord.
func says(reason string, origin v1.BackupOrigin, record string) variation {
	return func(s *Subject) {
		status := metav1.ConditionFalse
		if reason == v1.ReasonBackupVerified {
			status = metav1.ConditionTrue
		}
		setComplete(&s.Backup.Status, status, reason, "")
		s.Backup.Status.Origin, s.Backup.Status.Record = origin, record
	}
}

func annotated(uid string) variation {
	return func(s *Subject) { s.Backup.Annotations = map[string]string{v1.AnnotationDeleteArchive: uid} }
}

func deleted(finalizers ...string) variation {
	return func(s *Subject) { s.Backup.DeletionTimestamp, s.Backup.Finalizers = &now, finalizers }
}

func TestNext(t *testing.T) {
	verified := recorded(v1.BackupVerified, v1.OriginRequest)
	cases := map[string]struct {
		reason   string
		in       *Subject
		verbs    []change.Verb
		complete string // The reason of the condition that the controller writes.
		message  string
		waits    bool
	}{
		"Nothing": {reason: "There is neither a Backup nor a BackupRecord.", in: subject()},
		"OfDeletion": {reason: "Each BackupRecord of the namespace must get a Backup, so that users can see it.",
			in:    subject(recorded(v1.BackupVerified, v1.OriginDeletion)),
			verbs: []change.Verb{change.Create, change.PatchStatus}, complete: v1.ReasonBackupVerified},
		"RecordGoes": {reason: "The Backup must not be created again while its archive is being deleted.",
			in: subject(verified, func(s *Subject) {
				s.Record.DeletionTimestamp = &now
			})},
		"NamespaceGoes": {reason: "No object can be created in a namespace that is being deleted.", in: subject(verified, func(s *Subject) {
			s.Namespace.DeletionTimestamp = &now
		})},
		"Asked": {reason: "The requested backup has not started yet.", in: subject(asked), verbs: []change.Verb{change.PatchStatus},
			complete: v1.ReasonBackupWaiting,
			message:  "The backup starts once the server accepts clients and no other backup of it is running",
			waits:    true},
		"NoInstance": {reason: "The user may have specified a wrong instance name.",
			in:    subject(asked, func(s *Subject) { s.HasInstance = false }),
			verbs: []change.Verb{change.PatchStatus}, complete: v1.ReasonBackupWaiting,
			message: `There is no MySQL "shop" in this namespace. The backup is taken once it exists`, waits: true},
		"Begun": {reason: "The message must contain the progress from the status of the instance.",
			in:    subject(asked, attempted(v1.LastBackupRunning, "5 %")),
			verbs: []change.Verb{change.PatchStatus}, complete: v1.ReasonBackupInProgress, message: "5 %", waits: true},
		"Recorded": {reason: "The message must contain the progress even if there is a BackupRecord.",
			in: subject(asked, attempted(v1.LastBackupRunning, "7 %"),
				recorded(v1.BackupRunning, v1.OriginRequest)), verbs: []change.Verb{change.PatchStatus},
			complete: v1.ReasonBackupInProgress, message: "7 %", waits: true},
		"Failing": {reason: "The Backup must stay in progress until the failed backup is cleaned up.",
			in: subject(asked, attempted(v1.LastBackupFailing, "No room"),
				says(v1.ReasonBackupInProgress, v1.OriginRequest, "gone")),
			verbs: []change.Verb{change.PatchStatus}, complete: v1.ReasonBackupInProgress, message: "No room", waits: true},
		"Failed": {reason: "The requested backup has failed.", in: subject(asked, attempted(v1.LastBackupFailed, "No room")),
			verbs: []change.Verb{change.PatchStatus}, complete: v1.ReasonBackupFailed, message: "No room"},
		"FailedBefore": {reason: "A failed Backup must stay failed after another backup was started.",
			in: subject(asked, says(v1.ReasonBackupFailed, v1.OriginRequest, ""))},
		"Verified": {reason: "The requested backup is verified.", in: subject(asked, verified), verbs: []change.Verb{change.PatchStatus},
			complete: v1.ReasonBackupVerified, message: "The backup is verified"},
		"ArchiveRemoved": {reason: "The archive was deleted by the retention policy, so the Backup must be deleted.",
			in:    subject(asked, says(v1.ReasonBackupVerified, v1.OriginRequest, "team-shop-1")),
			verbs: []change.Verb{change.Delete}},
		"UnverifiedRemoved": {reason: "The unverified final backup was discarded, so the Backup must be deleted.",
			in:    subject(asked, says(v1.ReasonBackupInProgress, v1.OriginDeletion, "team-shop-1")),
			verbs: []change.Verb{change.Delete}},
		"Marked": {reason: "The Backup must get a finalizer, so that its archive can be deleted with it.",
			in:    subject(asked, verified, annotated("uid")),
			verbs: []change.Verb{change.Patch}},
		"MarkedByCopy": {reason: "The annotation of a copied Backup contains another UID, so it must have no effect.",
			in:    subject(asked, verified, annotated("other"), says(v1.ReasonBackupVerified, v1.OriginRequest, "x")),
			verbs: []change.Verb{change.PatchStatus}, complete: v1.ReasonBackupVerified},
		"Deleted": {reason: "A Backup without a finalizer is deleted and will be created again.", in: subject(asked, verified, deleted())},
		"DeletedByCopy": {reason: "The annotation contains another UID, so the archive must be kept.",
			in: subject(asked, verified, annotated("other"), deleted(v1.Finalizer)), verbs: []change.Verb{change.Patch}},
		"DeletedArchive": {reason: "The archive must be deleted before the Backup.",
			in:    subject(asked, verified, annotated("uid"), deleted(v1.Finalizer)),
			verbs: []change.Verb{change.Patch, change.Delete}},
		"Removing": {reason: "The archive is being deleted, so the Backup must wait.",
			in: subject(asked, verified, annotated("uid"), deleted(v1.Finalizer),
				func(s *Subject) { s.Record.DeletionTimestamp = &now })},
		"Removed": {reason: "The archive is deleted, so the finalizer must be removed from the Backup.",
			in:    subject(asked, annotated("uid"), deleted(v1.Finalizer)),
			verbs: []change.Verb{change.Patch}},
		"NamespaceDeleted": {reason: "The deletion of a namespace must not delete archives.",
			in: subject(asked, verified, annotated("uid"), deleted(v1.Finalizer), func(s *Subject) {
				s.Namespace.DeletionTimestamp = &now
			}), verbs: []change.Verb{change.Patch}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changes, after := Next(tc.in)
			verbs := make([]change.Verb, 0, len(changes))
			for _, c := range changes {
				verbs = append(verbs, c.Verb)
			}
			if !slices.Equal(verbs, tc.verbs) || (after > 0) != tc.waits {
				t.Fatalf("%s: want %v, got %v, %s", tc.reason, tc.verbs, verbs, after)
			}
			if tc.complete == "" {
				return
			}
			got := changes[len(changes)-1].Object.(*v1.Backup)
			complete := apimeta.FindStatusCondition(got.Status.Conditions, v1.ConditionComplete)
			if complete == nil || complete.Reason != tc.complete || tc.message != "" && got.Status.Message != tc.message {
				t.Errorf("%s: got %+v", tc.reason, got.Status)
			}
			tc.in.Backup = got
			if repeated, _ := Next(tc.in); len(repeated) > 0 {
				t.Errorf("%s: it is written again: %+v", tc.reason, repeated)
			}
		})
	}
}

// TestStatusOfRecord checks that the status contains location, size and version.
func TestStatusOfRecord(t *testing.T) {
	s := subject(recorded(v1.BackupVerified, v1.OriginSchedule))
	s.Record.Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: metav1.ConditionTrue,
		Reason: v1.ReasonServerStarted, LastTransitionTime: now}}
	got := statusOfRecord(s.Record, &v1.BackupObjectStatus{})
	if *got.Location != (v1.BackupLocation{Kind: v1.KindBackupStore, Name: "offsite", Path: "a.tar.zst"}) ||
		got.Size != "2Mi" ||
		got.ServerVersion != "8.4.6" || got.Origin != v1.OriginSchedule || got.Method != v1.MethodCold ||
		!apimeta.IsStatusConditionTrue(got.Conditions, v1.ConditionRestoreTested) || got.CompletionTime == nil {
		t.Errorf("got %+v", got)
	}
}
