package compose

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	testMoment   = "2026-03-01T12:00:00.25Z"
	testTimeline = "v1-log/" + string(testNamespace) + "/earlier/20260301093000-k7v2m9xw4q"
)

// inStore moves the archive of a BackupRecord from its backup volume to the BackupStore offsite.
func inStore(r *v1.BackupRecord) {
	r.Spec.Archive.PVCName, r.Spec.Archive.Store = "", "offsite"
	r.Spec.Archive.Path = v1.StorePrefix(r.Spec.Instance, r.Name) + "/k7v2m9xw4q.tar.zst"
}

// recoveryTo returns a recovery, in the form in which the controller reports it, that applies the archived binary log
// of a timeline.
func recoveryTo(timeline string) *v1.Recovery {
	return &v1.Recovery{At: testMoment, Timeline: timeline, Segment: 7, Digest: testSum, Until: testMoment}
}

// at returns a change of an Input that sets spec.restore.at, and the backup and binary log that the controller has
// found for that time.
func at(found *v1.RecoverySource) func(*Input) {
	return func(in *Input) {
		in.XR.Spec.Restore.At = new(testMoment)
		in.XR.Status.RecoverySource = found
	}
}

// TestRecovery checks when a recovery begins, and what it waits for. A timeline of another instance must never be used,
// because users of the namespace can write the annotation of the Job.
func TestRecovery(t *testing.T) {
	choice := v1.ChoiceAt + testMoment
	found := &v1.RecoverySource{Choice: choice, Backup: "b1", Recovery: recoveryTo(testTimeline)}
	foreign := &v1.RecoverySource{Choice: choice, Backup: "b1",
		Recovery: recoveryTo("v1-log/theirs/earlier/20260301093000-k7v2m9xw4q")}
	two := []func(*Input){previous("b2"), record("b1", 1, v1.BackupVerified, inStore), record("b2", 2, v1.BackupVerified, inStore)}
	cases := map[string]struct {
		reason           string
		in               Input
		backup           string
		message, refusal string
	}{
		"Found": {reason: "The controller has chosen the older backup.", in: given(append(two, at(found))...), backup: "b1"},
		"NotSearched": {reason: "Only the controller reads the store.", in: given(append(two, at(nil))...),
			message: "Waiting for the controller to find a backup"},
		"Changed": {reason: "The user has changed the time.",
			in:      given(append(two, at(&v1.RecoverySource{Choice: "@earlier", Backup: "b1", Recovery: recoveryTo(testTimeline)}))...),
			message: "Waiting for the controller to find a backup"},
		"NotPossible": {reason: "The message must contain the possible times.",
			in:      given(append(two, at(&v1.RecoverySource{Choice: choice, Message: "Possible is a to b"}))...),
			refusal: "spec.restore.at: Possible is a to b. Change the field"},
		"Unread": {reason: "Crossplane has not read the BackupRecord yet.",
			in:      given(previous("b2"), record("b2", 2, v1.BackupVerified, inStore), at(found)),
			message: `Waiting for Crossplane to read backup "b1"`},
		"Foreign": {reason: "The log belongs to another instance.", in: given(append(two, at(foreign))...),
			refusal: "does not belong to backup"},
		"OnVolume": {reason: "The Job has no access to a store.",
			in:      given(previous("b1"), record("b1", 1, v1.BackupVerified), at(found)),
			refusal: "does not belong to backup"},
		"Once": {reason: "The previous instance was recovered to this time.",
			in: given(previous("b2"), record("b1", 1, v1.BackupVerified, inStore),
				record("b2", 2, v1.BackupVerified, inStore, began(choice)), at(found)),
			backup: "b2", message: "spec.restore.at: " + testMoment + " is ignored"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := Compose(tc.in)
			if tc.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refusal) {
					t.Errorf("%s want the refusal %q, got %v", tc.reason, tc.refusal, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			backup := ""
			if r := out.Status.Restore; r != nil {
				backup = r.Backup
			}
			if backup != tc.backup || !strings.Contains(out.Status.Message, tc.message) {
				t.Errorf("%s want backup %q and %q, got %q and %q", tc.reason, tc.backup, tc.message, backup, out.Status.Message)
			}
		})
	}
}

// TestContinuousNeedsBackups checks that an instance without backups cannot archive its binary log.
func TestContinuousNeedsBackups(t *testing.T) {
	_, err := Compose(given(func(in *Input) {
		in.XR.Spec.DeletionPolicy, in.XR.Spec.Backup.Continuous = v1.DeletionDiscard, &v1.ContinuousBackup{}
	}))
	if err == nil || !strings.Contains(err.Error(), "spec.backup.continuous: Forbidden: is not possible with deletionPolicy Discard") {
		t.Errorf("want a refusal, got %v", err)
	}
}

// TestForgedRecovery checks that the annotation of a Job cannot name the binary log of another instance.
func TestForgedRecovery(t *testing.T) {
	forged, err := json.Marshal(v1.RestoreStatus{Backup: "b1", Phase: v1.RestoreRunning,
		Archive:  v1.Archive{Store: "offsite", Path: "b1.tar.zst", SHA256: testSum},
		Recovery: recoveryTo("v1-log/theirs/theirs/20260301093000-k7v2m9xw4q")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compose(given(previous("b1"), record("b1", 1, v1.BackupVerified, inStore), importJob(string(forged))))
	if err == nil || !strings.Contains(err.Error(), "does not belong to backup") {
		t.Errorf("want a refusal, got %v", err)
	}
}

// TestRecoveryPod checks that the log is applied after the backup was unpacked and before the result is verified, and
// that only these two containers have access to the store.
func TestRecoveryPod(t *testing.T) {
	found := &v1.RecoverySource{Choice: v1.ChoiceAt + testMoment, Backup: "b1", Recovery: recoveryTo(testTimeline)}
	out := composed(t, given(previous("b1"), record("b1", 1, v1.BackupVerified, inStore), at(found)))
	pod := podOfRestore(t, out)
	containers := slices.Concat(pod.InitContainers, pod.Containers)
	names := make([]string, 0, len(containers))
	for _, c := range containers {
		names = append(names, c.Name)
		hasAccess := false
		for _, m := range c.VolumeMounts {
			hasAccess = hasAccess || m.Name == "access"
		}
		if want := c.Name == "restore-base" || c.Name == "apply-log"; hasAccess != want {
			t.Errorf("container %s: access to the store: want %t, got %t", c.Name, want, hasAccess)
		}
	}
	if got := strings.Join(names, " "); got != "tools version restore-base apply-log restore" {
		t.Errorf("the containers are %s", got)
	}
}

// podOfRestore returns the pod of the restore Job.
func podOfRestore(t *testing.T, out *Output) corev1.PodSpec {
	t.Helper()
	j, ok := out.Resources[v1.ResourceRestore].Object.(*batchv1.Job)
	if !ok {
		t.Fatal("there is no restore Job")
	}
	return j.Spec.Template.Spec
}
