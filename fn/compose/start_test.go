package compose

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	testNamespace = types.UID("namespace")
	testInstance  = types.UID("this-life")
	testSum       = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

// given returns the Input of a new instance whose required resources are known, with the given changes applied.
func given(changes ...func(*Input)) Input {
	known := Required[metav1.PartialObjectMetadata]{Known: true}
	in := Input{
		XR: &v1.XMySQL{
			ObjectMeta: metav1.ObjectMeta{Name: "db-x7k2p", UID: testInstance},
			Spec: v1.XMySQLSpec{
				MySQLSpec: v1.MySQLSpec{Database: "shop", Password: new("secret"), StorageSize: new("1Gi")},
				ClaimRef:  &v1.ClaimReference{Kind: v1.KindMySQL, Namespace: "default", Name: "db"},
			},
			Status: v1.MySQLStatus{InternalStatus: v1.InternalStatus{PreviousBackup: v1.PreviousNone,
				Authorities: "ours"}},
		},
		Settings: v1.Settings{Volumes: v1.VolumesStorageClass, DefaultImage: v1.DefaultImage},
		Required: RequiredResources{
			Platform: Required[v1.Platform]{Known: true,
				Items: []v1.Platform{{Spec: v1.PlatformSpec{AgentImage: "agent"}}}},
			Records:    Required[v1.BackupRecord]{Known: true},
			Connection: Required[corev1.Secret]{Known: true},
			Volume:     Required[corev1.PersistentVolume]{Known: true, Items: []corev1.PersistentVolume{{}}},
			Namespace: Required[metav1.PartialObjectMetadata]{Known: true,
				Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: testNamespace}}}},
			Existing: map[string]Required[metav1.PartialObjectMetadata]{},
		},
	}
	for _, name := range ResourceNames() {
		in.Required.Existing[name] = known
	}
	for _, c := range changes {
		c(&in)
	}
	return in
}

func previous(name string) func(*Input) {
	return func(in *Input) { in.XR.Status.PreviousBackup = name }
}

// record returns a change of an Input that adds a BackupRecord of a previous instance, created on the given day of
// January.
func record(name string, day int, phase v1.BackupPhase, changes ...func(*v1.BackupRecord)) func(*Input) {
	return func(in *Input) {
		r := v1.BackupRecord{
			ObjectMeta: metav1.ObjectMeta{Name: name,
				CreationTimestamp: metav1.NewTime(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC))},
			Spec: v1.BackupRecordSpec{
				Instance: v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "default", NamespaceUID: testNamespace, Name: "db",
					XR: "earlier"},
				Archive: &v1.Archive{PVCName: "backup-db-pvc", Path: name + ".tar.zst", SHA256: testSum},
			},
			Status: v1.BackupRecordStatus{Phase: phase},
		}
		for _, c := range changes {
			c(&r)
		}
		in.Required.Records.Items = append(in.Required.Records.Items, r)
	}
}

// announced sets the time at which a BackupRecord was first created. It differs from the creation time if the
// controller has created the BackupRecord again.
func announced(day int) func(*v1.BackupRecord) {
	return func(r *v1.BackupRecord) {
		r.Spec.AnnouncedAt = &metav1.Time{Time: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)}
	}
}

// nth sets the sequence number of a backup, and the UID of the composite resource that it was taken of.
func nth(number int64, uid types.UID) func(*v1.BackupRecord) {
	return func(r *v1.BackupRecord) { r.Spec.Number, r.Spec.Instance.XR = number, uid }
}

// named sets spec.restore.backup to the given name, and adds the BackupRecord with that name.
func named(name string, changes ...func(*v1.BackupRecord)) func(*Input) {
	return func(in *Input) {
		one := Input{}
		record(name, 1, v1.BackupVerified, changes...)(&one)
		in.XR.Spec.Restore.Backup = &name
		in.Required.Named = Required[v1.BackupRecord]{Known: true, Items: one.Required.Records.Items}
	}
}

// from returns a change of an Input that sets spec.restore.from to the name of another claim. It also adds that claim's
// BackupRecords.
func from(name string, changes ...func(*Input)) func(*Input) {
	return func(in *Input) {
		one := Input{}
		for _, record := range changes {
			record(&one)
		}
		for i := range one.Required.Records.Items {
			if r := &one.Required.Records.Items[i]; r.Spec.Instance.Name == "db" {
				r.Spec.Instance.Name = "neighbour"
			}
		}
		in.XR.Spec.Restore.From = &name
		in.Required.Named = Required[v1.BackupRecord]{Known: true, Items: one.Required.Records.Items}
		newest := v1.PreviousNone
		if b := v1.LatestBackup(one.Required.Records.Items, (*v1.BackupRecord).IsVerified); b != nil {
			newest = b.Name
		}
		in.XR.Status.RestoreSource = &v1.RestoreSourceStatus{From: name, NewestBackup: newest}
	}
}

// foundSource sets the controller's report about the claim in spec.restore.from, whose backup is to be restored.
func foundSource(source *v1.RestoreSourceStatus) func(*Input) {
	return func(in *Input) { in.XR.Status.RestoreSource = source }
}

func asDatabase(in *Input) {
	in.XR.Kind, in.Type, in.XR.Spec.ClaimRef.Kind = v1.KindXDatabase, v1.TypeMySQL, v1.KindDatabase
}

// TestRestoreFromKnowsVolumesAndStores checks that no older backup of another claim is restored if the BackupRecord
// of its newest backup was deleted.
func TestRestoreFromKnowsVolumesAndStores(t *testing.T) {
	newest := record("o2", 2, v1.BackupVerified, nth(2, "b"))
	older := record("o1", 1, v1.BackupVerified, nth(1, "a"))
	cases := map[string]struct {
		in       Input
		restores string
		message  string
	}{
		"Agreed": {in: given(from("neighbour", older, newest)), restores: "o2"},
		"Unasked": {in: given(from("neighbour", older, newest), foundSource(nil)),
			message: "Waiting for the controller to look for backups of MySQL \"neighbour\""},
		"OfAnother": {in: given(from("neighbour", older, newest),
			foundSource(&v1.RestoreSourceStatus{From: "theirs", NewestBackup: "o2"})), message: "Waiting for the controller"},
		"Held": {in: given(from("neighbour", older),
			foundSource(&v1.RestoreSourceStatus{From: "neighbour", NewestBackup: v1.PreviousHeld,
				HeldBackup: "o2"})), message: "Backup \"o2\" is the newest backup of MySQL \"neighbour\", but its BackupRecord " +
			"is missing"},
		"HeldAlone": {in: given(from("neighbour"),
			foundSource(&v1.RestoreSourceStatus{From: "neighbour", NewestBackup: v1.PreviousHeld,
				HeldBackup: "o2"})), message: "its BackupRecord is missing"},
		"Behind": {in: given(from("neighbour", older),
			foundSource(&v1.RestoreSourceStatus{From: "neighbour",
				NewestBackup: "o2"})), message: "The server starts when both agree"},
		"Ahead": {in: given(from("neighbour", older, newest),
			foundSource(&v1.RestoreSourceStatus{From: "neighbour",
				NewestBackup: "o1"})), message: "The server starts when both agree"},
		"AsDatabase": {in: given(asDatabase, from("neighbour"),
			foundSource(&v1.RestoreSourceStatus{From: "neighbour", NewestBackup: v1.PreviousHeld, HeldBackup: "o2"})),
			message: "Backup \"o2\" is the newest backup of Database \"neighbour\""},
	}
	for name, tc := range cases {
		out := composed(t, tc.in)
		restores := ""
		if out.Status.Restore != nil {
			restores = out.Status.Restore.Backup
		}
		if restores != tc.restores || !strings.Contains(out.Status.Message, tc.message) {
			t.Errorf("%s: restores %q, %q", name, restores, out.Status.Message)
		}
	}
}

// ofNoInstance changes the spec of a BackupRecord to another claim, but keeps its label.
func ofNoInstance(r *v1.BackupRecord) { r.Spec.Instance.Name = "third" }

func ofEarlier(r *v1.BackupRecord) { r.Spec.Instance.NamespaceUID = "earlier" }

// platform returns a change of an Input that modifies the spec of the Platform.
func platform(change func(*v1.PlatformSpec)) func(*Input) {
	return func(in *Input) { change(&in.Required.Platform.Items[0].Spec) }
}

func reusable(in *Input) {
	platform(func(s *v1.PlatformSpec) { s.ReusableNamespaces = []string{"default"} })(in)
}

func job(conditions ...batchv1.JobCondition) func(*Input) {
	return func(in *Input) {
		in.Observed.Restore = &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "restore-db-job", Annotations: map[string]string{
				v1.AnnotationRestore: `{"backup":"chosen","phase":"Running","version":"8.4.6","cleanShutdown":true,"archive":{"pvcName":"backup-db-pvc","path":"chosen.tar.zst","sha256":"` + testSum + `"}}`,
			}},
			Status: batchv1.JobStatus{Conditions: conditions},
		}
	}
}

// restoredBy sets the UID of the Job whose success the controller reports.
func restoredBy(uid types.UID) func(*Input) {
	return func(in *Input) { in.XR.Status.RestoredBy, in.Observed.Restore.UID = uid, "job" }
}

// scaled returns a change of an Input that adds a Deployment. It has the given replicas, and the function has never
// started its server.
func scaled(replicas int32) func(*Input) {
	return func(in *Input) {
		in.Observed.Deployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	}
}

// server returns a change of an Input that adds a Deployment whose server the function has started.
func server(replicas int32) func(*Input) {
	return func(in *Input) {
		scaled(replicas)(in)
		in.Observed.Deployment.Annotations = map[string]string{v1.AnnotationStarted: "started-" + string(testInstance)}
	}
}

// held sets the controller's report that a backup of a previous instance exists, but its BackupRecord is missing.
func held(name string) func(*Input) {
	return func(in *Input) { in.XR.Status.PreviousBackup, in.XR.Status.HeldBackup = v1.PreviousHeld, name }
}

// began sets, in a BackupRecord, the restore source with which the backed-up instance was created.
func began(marker string) func(*v1.BackupRecord) {
	return func(r *v1.BackupRecord) { r.Spec.Choice = marker }
}

// aside sets spec.restore.insteadOf to b2, so that the restore source in the spec overrides backup b2.
func aside(in *Input) { in.XR.Spec.Restore.InsteadOf = new("b2") }

func never(in *Input) { in.XR.Spec.Restore.Policy = v1.RestoreNever }

func suspended(in *Input) { in.XR.Spec.Suspend = true }

func chosenBefore(phase v1.RestorePhase) func(*Input) {
	return func(in *Input) {
		in.XR.Status.Restore = &v1.RestoreStatus{Backup: "chosen", Phase: phase,
			Archive: v1.Archive{PVCName: "c", Path: "p", SHA256: testSum}}
	}
}

// TestDecide specifies when a server may run, and what it starts from.
func TestDecide(t *testing.T) {
	complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}
	type want struct {
		replicas int32
		backup   string
		job      bool
		reason   string
		message  string
		refusal  string
	}
	cases := map[string]struct {
		reason string
		in     Input
		want   want
	}{
		"Nothing": {reason: "The controller found no backup, so an empty server may start.", in: given(),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"NobodyLooked": {reason: "Nothing may start before the controller has looked for backups.", in: given(previous("")),
			want: want{reason: v1.ReasonWaiting, message: "controller"}},
		"NotLookedUp": {reason: "BackupRecords that have not been read must not be treated as missing.",
			in:   given(func(in *Input) { in.Required.Records.Known = false }),
			want: want{reason: v1.ReasonWaiting, message: "Waiting for Crossplane to read"}},
		"Verified": {reason: "The newest verified backup must be restored.",
			in:   given(previous("b2"), record("b1", 1, v1.BackupVerified), record("b2", 2, v1.BackupVerified)),
			want: want{backup: "b2", job: true, reason: v1.ReasonRestoring}},
		"OrderOfList": {reason: "The time of the backups must decide, not their order in the list.",
			in:   given(previous("b2"), record("b2", 2, v1.BackupVerified), record("b1", 1, v1.BackupVerified)),
			want: want{backup: "b2", job: true, reason: v1.ReasonRestoring}},
		"SameSecond": {reason: "If two backups are from the same second, their names must decide.",
			in:   given(previous("b2"), record("b2", 1, v1.BackupVerified), record("b1", 1, v1.BackupVerified)),
			want: want{backup: "b2", job: true, reason: v1.ReasonRestoring}},
		"Pending": {reason: "The server must wait for an unfinished BackupRecord.",
			in: given(record("b1", 1, v1.BackupPending)), want: want{reason: v1.ReasonWaiting, message: "not finished"}},
		"PendingUnlooked": {reason: "The controller also waits for the backup, and the message must name it.",
			in:   given(previous(""), record("b1", 1, v1.BackupPending)),
			want: want{reason: v1.ReasonWaiting, message: "not finished"}},
		"Running": {reason: "The server must wait for an unfinished backup, even if an older one is verified.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified), record("b2", 2, v1.BackupRunning)),
			want: want{reason: v1.ReasonWaiting, message: `"b2"`}},
		"OlderRunning": {reason: "The server must wait for an unfinished backup, even if a newer one is verified.",
			in:   given(previous("b2"), record("b1", 1, v1.BackupRunning), record("b2", 2, v1.BackupVerified)),
			want: want{reason: v1.ReasonWaiting, message: `"b1"`}},
		"NoPhase": {reason: "A BackupRecord without a phase is unfinished.", in: given(record("b1", 1, "")),
			want: want{reason: v1.ReasonWaiting, message: "not finished"}},
		"UnknownPhase": {reason: "A BackupRecord with the phase of a later version is unfinished.",
			in:   given(record("b1", 1, "Verifying")),
			want: want{reason: v1.ReasonWaiting, message: "not finished"}},
		"Failed": {reason: "After a failed backup, the newest data is still on its volume.",
			in: given(record("b1", 1, v1.BackupFailed)), want: want{reason: v1.ReasonWaiting, message: "has failed"}},
		"FailedNewer": {reason: "A failed backup that is newer than the verified one must block the start.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified), record("b2", 2, v1.BackupFailed)),
			want: want{reason: v1.ReasonWaiting, message: "has failed"}},
		"FailedOlder": {reason: "A newer verified backup must replace a failed one.",
			in:   given(previous("b2"), record("b1", 1, v1.BackupFailed), record("b2", 2, v1.BackupVerified)),
			want: want{backup: "b2", job: true, reason: v1.ReasonRestoring}},
		"ControllerSaysNone": {reason: "The server must wait, because the controller has not seen the new BackupRecord.",
			in: given(record("b1", 1, v1.BackupVerified)), want: want{reason: v1.ReasonWaiting, message: "agree"}},
		"ControllerSaysOther": {reason: "The controller and the function must agree on the newest backup.",
			in: given(previous("b9"), record("b1", 1, v1.BackupVerified)), want: want{reason: v1.ReasonWaiting, message: "agree"}},
		"FunctionSeesNone": {reason: "The controller knows a backup that the function cannot see, so the server must wait.",
			in:   given(previous("b1")),
			want: want{reason: v1.ReasonWaiting, message: "agree"}},
		"Deleting": {reason: "A backup that is being deleted must not be restored.",
			in: given(previous("b1"), record("b1", 1, v1.BackupVerified,
				func(r *v1.BackupRecord) { r.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })), want: want{
				reason: v1.ReasonWaiting, message: "being deleted"}},
		"OtherInstance": {reason: "A BackupRecord of another claim must be ignored, even if its label matches.",
			in:   given(record("b1", 1, v1.BackupRunning, func(r *v1.BackupRecord) { r.Spec.Instance.Name = "neighbour" })),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"OtherKind": {reason: "A BackupRecord of another kind must be ignored, even if its label matches.",
			in:   given(record("b1", 1, v1.BackupVerified, func(r *v1.BackupRecord) { r.Spec.Instance.Kind = "Database" })),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"EarlierNamespace": {reason: "An earlier namespace with the same name may have had another owner.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified, ofEarlier)),
			want: want{reason: v1.ReasonWaiting, message: "earlier namespace"}},
		"Held": {reason: "The server must wait, because a backup exists without its BackupRecord.",
			in:   given(previous(v1.PreviousHeld)),
			want: want{reason: v1.ReasonWaiting, message: "exists, but its BackupRecord is missing"}},
		"HeldNever": {reason: "The policy Never must not ignore a backup whose BackupRecord is missing.",
			in:   given(previous(v1.PreviousHeld), never),
			want: want{reason: v1.ReasonWaiting, message: "exists, but its BackupRecord is missing"}},
		"HeldOlder": {reason: "An older backup must not be restored in place of the newest one.",
			in:   given(previous(v1.PreviousHeld), record("b1", 1, v1.BackupVerified)),
			want: want{reason: v1.ReasonWaiting, message: "exists, but its BackupRecord is missing"}},
		"HeldNamed": {reason: "Only the missing BackupRecord shows whether the named backup was already applied.",
			in:   given(held("b2"), named("b1")),
			want: want{reason: v1.ReasonWaiting, message: "exists, but its BackupRecord is missing"}},
		"HeldAside": {reason: "With insteadOf, the named backup must be restored, although the BackupRecord is missing.",
			in:   given(held("b2"), record("b1", 1, v1.BackupVerified), named("b1"), aside),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},
		"HeldAsideNever": {reason: "With insteadOf, the policy Never must start an empty server.",
			in:   given(held("b2"), record("b1", 1, v1.BackupVerified), never, aside),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"HeldAsideOther": {reason: "insteadOf must name the backup whose BackupRecord is missing.",
			in:   given(held("b3"), named("b1"), aside),
			want: want{reason: v1.ReasonWaiting, message: "exists, but its BackupRecord is missing"}},
		"MadeAgain": {reason: "A BackupRecord that was created again must keep the time of its announcement.",
			in:   given(previous("b2"), record("b2", 2, v1.BackupVerified), record("b1", 3, v1.BackupVerified, announced(1))),
			want: want{backup: "b2", job: true, reason: v1.ReasonRestoring}},
		"EarlierNamed": {reason: "A backup of an earlier namespace must not be restored by its name.",
			in:   given(previous(v1.PreviousNone), named("b1", ofEarlier)),
			want: want{reason: v1.ReasonWaiting, message: "earlier namespace"}},
		"EarlierNamedAllowed": {reason: "The platform allows backups of earlier namespaces also for a named backup.",
			in:   given(previous(v1.PreviousNone), named("b1", ofEarlier), reusable),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},
		"UnknownNamespace": {reason: "A namespace that cannot be read must not be treated as the same one.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified), func(in *Input) { in.Required.Namespace.Items = nil }),
			want: want{reason: v1.ReasonWaiting, message: "earlier namespace"}},
		"EarlierAllowed": {reason: "The platform allows backups of earlier namespaces.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified, ofEarlier), reusable),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},
		"Never": {reason: "The policy Never must start an empty server.",
			in:   given(never, previous("b1"), record("b1", 1, v1.BackupVerified)),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"NeverFailed": {reason: "The policy Never must start an empty server after a failed backup, as the message suggests.",
			in: given(never, record("b1", 1, v1.BackupFailed)), want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"NeverRunning": {reason: "The policy Never must wait for an unfinished backup.",
			in: given(never, record("b1", 1, v1.BackupRunning)), want: want{reason: v1.ReasonWaiting, message: "not finished"}},
		"NeverUnheard": {reason: "The policy Never must wait until the controller has looked for backups.",
			in:   given(never, previous("")),
			want: want{reason: v1.ReasonWaiting, message: "controller"}},

		"Rivals": {reason: "Two instances existed at the same time, and a user must choose the backup.",
			in: given(previous("b2"), record("b1", 1, v1.BackupVerified, nth(4, "a")),
				record("b2", 2, v1.BackupVerified, nth(4, "b"))), want: want{reason: v1.ReasonWaiting,
				message: `Backups "b2" and "b1" are from two instances with this name`}},
		"RivalNamed": {reason: "A user has chosen one of the two backups.",
			in: given(previous("b2"), record("b1", 1, v1.BackupVerified, nth(4, "a")),
				record("b2", 2, v1.BackupVerified, nth(4, "b")), named("b1")), want: want{backup: "b1", job: true,
				reason: v1.ReasonRestoring}},
		"RivalsOnce": {reason: "A later instance has resolved the conflict between the two instances.",
			in: given(previous("b3"), record("b1", 1, v1.BackupVerified, nth(4, "a")),
				record("b2", 2, v1.BackupVerified, nth(4, "b")), record("b3", 3, v1.BackupVerified, nth(5, "c"))), want: want{
				backup: "b3", job: true, reason: v1.ReasonRestoring}},
		"RivalFailed": {reason: "The data of the failed backup is still on its volume.",
			in: given(previous("b2"), record("b1", 1, v1.BackupFailed, nth(4, "a")),
				record("b2", 2, v1.BackupVerified, nth(4, "b"))), want: want{reason: v1.ReasonWaiting,
				message: `Backup "b1" of a previous MySQL with this name has failed`}},

		"UsedNamed": {reason: "A named backup must be restored only once. After that, the newest backup must be restored.",
			in: given(previous("b2"), record("b1", 1, v1.BackupVerified), record("b2", 2, v1.BackupVerified, began("b1")),
				named("b1")), want: want{backup: "b2", job: true, reason: v1.ReasonRestoring,
				message: "To apply it again, set spec.restore.insteadOf: b2"}},
		"UsedNever": {reason: "The policy Never must be applied only once.",
			in: given(previous("b2"), record("b2", 2, v1.BackupVerified, began("Never")), never),
			want: want{backup: "b2", job: true, reason: v1.ReasonRestoring,
				message: "spec.restore.policy: Never is ignored, because a previous MySQL with this name already applied it"}},
		"UsedFailed": {reason: "The data of the failed backup may be newer than the named backup.",
			in: given(previous("b1"), record("b1", 1, v1.BackupVerified), record("b2", 2, v1.BackupFailed, began("b1")),
				named("b1")), want: want{reason: v1.ReasonWaiting, message: "has failed"}},
		"UsedEarlier": {reason: "Only the source of the newest instance counts, and it was not restored from b1.",
			in: given(previous("b3"), record("b2", 2, v1.BackupVerified, began("b1")), record("b3", 3, v1.BackupVerified),
				named("b1")), want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},
		"NewName": {reason: "A changed name must be applied.",
			in:   given(previous("b2"), record("b2", 2, v1.BackupVerified, began("b0")), named("b1")),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},
		"NewAfterFailure": {reason: "A named backup must be restored after a failed one, as the message suggests.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified), record("b2", 2, v1.BackupFailed), named("b1")),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},
		"UsedAgain": {reason: "With insteadOf, the named backup must be restored again.",
			in:   given(previous("b2"), record("b2", 2, v1.BackupVerified, began("b1")), named("b1"), aside),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},
		"AgainNever": {reason: "With insteadOf, the policy Never must be applied again.",
			in:   given(previous("b2"), record("b2", 2, v1.BackupVerified, began("Never")), never, aside),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"AgainLate": {reason: "insteadOf must be ignored if it does not name the newest backup.",
			in:   given(previous("b3"), record("b3", 3, v1.BackupVerified), named("b1"), aside),
			want: want{backup: "b3", job: true, reason: v1.ReasonRestoring, message: "insteadOf: b3"}},
		"NamedNewest": {reason: "The named backup is also the newest one.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified, began("b1")), named("b1")),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring}},

		"From": {reason: "The newest backup of the other claim must be restored.",
			in:   given(from("neighbour", record("o1", 1, v1.BackupVerified), record("o2", 2, v1.BackupVerified))),
			want: want{backup: "o2", job: true, reason: v1.ReasonRestoring}},
		"FromOwn": {reason: "A backup of the other claim must be restored, although the claim has its own backups.",
			in:   given(previous("b1"), record("b1", 3, v1.BackupVerified), from("neighbour", record("o1", 1, v1.BackupVerified))),
			want: want{backup: "o1", job: true, reason: v1.ReasonRestoring}},
		"FromNobody": {reason: "If the other claim has no backup, no empty server may start.", in: given(from("neighbour")),
			want: want{refusal: `there is no backup of MySQL "neighbour"`}},
		"FromLabel": {reason: "A label must not prove that a backup belongs to the other claim.",
			in: given(from("neighbour", record("o1", 1, v1.BackupVerified, ofNoInstance))), want: want{refusal: "there is no backup"}},
		"FromSelf": {reason: "spec.restore.from must not name the claim itself.",
			in: given(previous("b1"), record("b1", 1, v1.BackupVerified), from("db")), want: want{refusal: "is this claim"}},
		"FromUnknown": {reason: "Crossplane has not sent the backups of the other claim yet.",
			in:   given(from("neighbour"), func(in *Input) { in.Required.Named.Known = false }),
			want: want{reason: v1.ReasonWaiting, message: "Waiting for Crossplane to read the backups"}},
		"FromUnfinished": {reason: "The unfinished backup may become the newest one.",
			in:   given(from("neighbour", record("o1", 1, v1.BackupVerified), record("o2", 2, v1.BackupRunning))),
			want: want{reason: v1.ReasonWaiting, message: `Backup "o2" of MySQL "neighbour" is not finished`}},
		"FromFailed": {reason: "A user must decide what to restore if the newest backup of the other claim has failed.",
			in:   given(from("neighbour", record("o1", 1, v1.BackupVerified), record("o2", 2, v1.BackupFailed))),
			want: want{reason: v1.ReasonWaiting, message: "has failed"}},
		"FromRivals": {reason: "Two instances existed at the same time, and a user must choose the backup.",
			in: given(from("neighbour", record("o1", 1, v1.BackupVerified, nth(4, "a")),
				record("o2", 2, v1.BackupVerified, nth(4, "b")))), want: want{
				reason: v1.ReasonWaiting, message: "Neither backup contains the rows of the other"}},
		"FromDeleting": {reason: "A backup that is being deleted must not be restored.",
			in: given(from("neighbour", record("o1", 1, v1.BackupVerified,
				func(r *v1.BackupRecord) { r.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }))), want: want{
				reason: v1.ReasonWaiting, message: "being deleted"}},
		"FromEarlier": {reason: "An earlier namespace with the same name may have had another owner.",
			in:   given(from("neighbour", record("o1", 1, v1.BackupVerified, ofEarlier))),
			want: want{reason: v1.ReasonWaiting, message: "earlier namespace"}},
		"FromOnce": {reason: "spec.restore.from must be applied only once.",
			in: given(previous("b2"), record("b2", 2, v1.BackupVerified, began("from/neighbour")),
				from("neighbour", record("o1", 3, v1.BackupVerified))), want: want{backup: "b2", job: true,
				reason: v1.ReasonRestoring, message: "spec.restore.from: neighbour is ignored, because a previous MySQL with " +
					"this name already applied it"}},
		"FromAgain": {reason: "With insteadOf, spec.restore.from must be applied again.",
			in: given(previous("b2"), record("b2", 2, v1.BackupVerified, began("from/neighbour")),
				from("neighbour", record("o1", 3, v1.BackupVerified)), aside), want: want{backup: "o1", job: true,
				reason: v1.ReasonRestoring}},

		"JobRuns": {reason: "The server must wait for the Job.", in: given(previous("b1"), job()),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"JobRestored": {reason: "The controller reports that the restore succeeded, although the Job is not complete.",
			in:   given(previous("b1"), job(), restoredBy("job")),
			want: want{replicas: 1, backup: "chosen", job: true, reason: v1.ReasonRestored}},
		"JobNotRestored": {reason: "The controller reports the success of another Job.",
			in:   given(previous("b1"), job(), restoredBy("earlier")),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"JobComplete": {reason: "The server must start after the Job is complete.", in: given(previous("b1"), job(complete)),
			want: want{replicas: 1, backup: "chosen", job: true, reason: v1.ReasonRestored}},
		"JobFailed": {reason: "The server must not start after the Job has failed.", in: given(previous("b1"), job(failed)),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoreFailed, message: "has failed"}},
		"ChoiceIsKept": {reason: "A newer backup must not change the chosen backup.",
			in:   given(previous("b2"), job(), record("b2", 2, v1.BackupVerified)),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"ChoiceOfStatus": {reason: "The status must take precedence over the Job, because users can change a Job.",
			in:   given(chosenBefore(v1.RestoreRunning), job(), func(in *Input) { in.XR.Status.Restore.Backup = "first" }),
			want: want{backup: "first", job: true, reason: v1.ReasonRestoring}},
		"ChoiceOfOurs": {reason: "If the status was not written, the annotation of the Job contains the chosen backup.",
			in:   given(job(), record("chosen", 1, v1.BackupVerified)),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"ChoiceOfEarlier": {reason: "A changed Job must not give access to a backup of an earlier namespace.",
			in: given(job(), record("chosen", 1, v1.BackupVerified, ofEarlier)), want: want{refusal: "earlier namespace"}},
		"ChoiceOfNamed": {reason: "A changed Job must not give access to a named backup of an earlier namespace.",
			in:   given(job(), named("chosen", ofEarlier)),
			want: want{refusal: "earlier namespace"}},
		"ChoiceAllowed": {reason: "The platform allows backups of earlier namespaces.",
			in:   given(job(), record("chosen", 1, v1.BackupVerified, ofEarlier), reusable),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"ChoiceUnknown": {reason: "The Job must not be trusted until the BackupRecords are read.",
			in:   given(job(), previous("b1"), func(in *Input) { in.Required.Records.Known = false }),
			want: want{job: true, reason: v1.ReasonWaiting, message: "Waiting for Crossplane to read"}},
		"ChoiceWithoutJob": {reason: "A deleted Job must be created again from the status.",
			in: given(chosenBefore(v1.RestoreRunning)), want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"FailedJobDeleted": {reason: "A deleted failed Job must be created again, as a retry.",
			in: given(chosenBefore(v1.RestoreFailed)), want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"SucceededNoJob": {reason: "A Job that has succeeded must not be created again.",
			in: given(chosenBefore(v1.RestoreSucceeded)), want: want{replicas: 1, backup: "chosen", reason: v1.ReasonRestored}},
		"StartedJobLingers": {reason: "An instance that has started must never restore again, even if the Job has failed.",
			in: given(job(failed), server(1)), want: want{replicas: 1, backup: "chosen", job: true, reason: v1.ReasonRestored}},

		"Started": {reason: "A BackupRecord must not stop a running server.",
			in:   given(server(1), previous(""), record("b1", 1, v1.BackupRunning)),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"StartedNoted": {reason: "A deleted Deployment must be created again with one replica.",
			in:   given(func(in *Input) { in.XR.Status.Started = true }, record("b1", 1, v1.BackupVerified)),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"NotYetStarted": {reason: "A Deployment with zero replicas has not started a server.",
			in:   given(scaled(0), previous("")),
			want: want{reason: v1.ReasonWaiting, message: "controller"}},
		"Scaled": {reason: "A user who scales the waiting Deployment must not start a server.",
			in: given(scaled(1), previous("")), want: want{reason: v1.ReasonWaiting, message: "controller"}},
		"ScaledRestoring": {reason: "A user who scales the Deployment must not start a server during a restore.",
			in:   given(scaled(1), job()),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoring}},
		"EarlierMark": {reason: "The annotation of a previous instance must be ignored.",
			in: given(scaled(1), previous(""), func(in *Input) {
				in.Observed.Deployment.Annotations = map[string]string{v1.AnnotationStarted: "started-earlier"}
			}), want: want{reason: v1.ReasonWaiting, message: "controller"}},
		"ScaledDown": {reason: "A server that a user has scaled down must start again.", in: given(server(0), previous("")),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"FencedRestore": {reason: "No restore may begin after the data PVC was deleted.",
			in:   given(chosenBefore(v1.RestoreRunning), func(in *Input) { in.XR.Status.PVCDeleted = true }),
			want: want{backup: "chosen", reason: v1.ReasonFenced}},
		"BlindRestore": {reason: "No restore may begin before the volume has been read.",
			in: given(chosenBefore(v1.RestoreRunning), func(in *Input) {
				in.XR.Status.Volume, in.Required.Volume.Known = "pv", false
			}), want: want{backup: "chosen", reason: v1.ReasonWaiting}},
		"Blind": {reason: "A volume that has not been read may have been deleted.", in: given(func(in *Input) {
			in.XR.Status.Started, in.XR.Status.Volume, in.Required.Volume.Known = true, "pv", false
		}), want: want{reason: v1.ReasonWaiting, message: "pv"}},
		"Fenced": {reason: "A running server must stop if its PVC was deleted.",
			in:   given(server(1), func(in *Input) { in.XR.Status.PVCDeleted = true }),
			want: want{reason: v1.ReasonFenced, message: "stopped"}},
		"Suspended": {reason: "spec.suspend must stop the server.", in: given(server(1), suspended),
			want: want{reason: v1.ReasonSuspended, message: "set spec.suspend to false"}},
		"SuspendedNew": {reason: "A suspended new instance must choose its restore source when it is resumed.",
			in:   given(previous("b1"), record("b1", 1, v1.BackupVerified), suspended),
			want: want{reason: v1.ReasonSuspended, message: "nothing is restored"}},
		"SuspendedBackup": {reason: "The server must run until its online backup is complete.",
			in: given(server(1), suspended, func(in *Input) {
				in.XR.Status.RequestedBackup = &v1.LastBackupStatus{Phase: v1.LastBackupRunning, Method: v1.MethodOnline}
			}), want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"SuspendedRestore": {reason: "A suspended instance must finish a restore that has begun.",
			in: given(job(), suspended),
			want: want{backup: "chosen", job: true, reason: v1.ReasonSuspended, message: "the restore of backup \"chosen\" " +
				"continues"}},
		"SuspendedFailed": {reason: "The message must report the failed restore of a suspended instance.",
			in:   given(job(failed), suspended),
			want: want{backup: "chosen", job: true, reason: v1.ReasonRestoreFailed, message: "has failed"}},
		"SuspendedRestored": {reason: "No server may start after the restore of a suspended instance.",
			in:   given(job(complete), suspended),
			want: want{backup: "chosen", job: true, reason: v1.ReasonSuspended}},
		"PasswordUnknown": {reason: "The server must not start before its password is known.", in: given(func(in *Input) {
			in.XR.Spec.Password = nil
			in.XR.Spec.PasswordSecretRef = &v1.SecretKeySelector{Name: "s", Key: "k"}
		}), want: want{reason: v1.ReasonWaiting, message: "password"}},
		"NamedUnknown": {reason: "The server must wait until the named backup has been read.",
			in:   given(func(in *Input) { in.XR.Spec.Restore.Backup = new("b1") }),
			want: want{reason: v1.ReasonWaiting, message: "Waiting for Crossplane to read"}},
		"NamedMissing": {reason: "A named backup that does not exist must be refused.",
			in:   given(func(in *Input) { in.XR.Spec.Restore.Backup, in.Required.Named.Known = new("b1"), true }),
			want: want{refusal: "there is no backup"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			password, err := resolvePassword(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decideStart(r, password)
			if tc.want.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want.refusal) {
					t.Fatalf("%s\nwant a refusal with %q, got: %v", tc.reason, tc.want.refusal, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if job := wantsRestoreJob(r, got); got.replicas != tc.want.replicas || got.reason != tc.want.reason ||
				job != tc.want.job {
				t.Errorf("%s\nwant %+v, got %+v, Job wanted: %t", tc.reason, tc.want, got, job)
			}
			if from := got.restore; tc.want.backup == "" && from != nil || tc.want.backup != "" &&
				(from == nil || from.Backup != tc.want.backup) {
				t.Errorf("%s\nwant backup %q, got %+v", tc.reason, tc.want.backup, from)
			}
			if !strings.Contains(got.message, tc.want.message) {
				t.Errorf("%s\nwant a message with %q, got %q", tc.reason, tc.want.message, got.message)
			}
			if may := rootPassword(r, got, password).Data[v1.InitializeKey] != nil; may && got.replicas == 0 && !r.started {
				t.Errorf("%s\nwhoever scales the Deployment makes an empty database", tc.reason)
			}
		})
	}
}

// TestRestoreFailure checks that there is a specific message for each exit code of the job image.
func TestRestoreFailure(t *testing.T) {
	cases := map[string]struct {
		message string
		want    string
	}{
		"Version": {message: "Container restore for pod a/b failed with exit code 40 matching FailJob rule at index 0",
			want: "is newer than spec.image"},
		"Unclean": {message: "Container restore for pod a/b failed with exit code 41 matching",
			want: "did not shut down cleanly"},
		"Damaged": {message: "Container restore for pod a/b failed with exit code 42 matching",
			want: "checksum does not match"},
		"Missing": {message: "Container restore for pod a/b failed with " +
			"exit code 43 matching", want: "or its manifest.json is missing"},
		"Occupied": {message: "Container restore for pod a/b failed with exit code 44 matching",
			want: "already contains a database"},
		"NoSpace": {message: "Container restore for pod a/b failed with exit code 45 matching", want: "does not fit"},
		"Other":   {message: "Job has reached the specified backoff limit", want: "backoff limit"},
		"Huge":    {message: "failed with exit code 99999999999999999999", want: "has failed"},
		"None":    {message: "", want: "reports no reason"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "restore-db-job"}}
			j.Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: tc.message}}
			got := restoreFailure(j, &v1.RestoreStatus{Backup: "b1"}, "b1")
			if !strings.Contains(got, tc.want) || !strings.Contains(got, "delete Job default/restore-db-job") {
				t.Errorf("want %q and how to try again, got %q", tc.want, got)
			}
		})
	}
}
