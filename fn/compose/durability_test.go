package compose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/durability"
)

// durable sets spec.backup.continuous.durability to Store, for an instance with GTIDs.
func durable(in *Input) {
	in.XR.Status.GTIDs = true
	platform(func(s *v1.PlatformSpec) { s.AllowedBackupStores = []string{"offsite"} })(in)
	in.XR.Spec.Backup.StoreRef = &v1.BackupStoreReference{Name: "offsite"}
	in.XR.Spec.Backup.Continuous = &v1.ContinuousBackup{Durability: v1.DurabilityStore}
}

// composedPods returns the pods of all Deployments and Jobs in an Output.
func composedPods(out *Output) map[string]corev1.PodSpec {
	pods := map[string]corev1.PodSpec{}
	for name, r := range out.Resources {
		switch o := r.Object.(type) {
		case *appsv1.Deployment:
			pods[name] = o.Spec.Template.Spec
		case *batchv1.Job:
			pods[name] = o.Spec.Template.Spec
		}
	}
	return pods
}

// TestOnlyTheServerWaits checks that the server of the instance has the arguments of durability Store, and that no other
// container has them. A server that initializes, restores or validates would wait for the BackupStore forever.
func TestOnlyTheServerWaits(t *testing.T) {
	validates := func() Input {
		r := newRig(t, "max_connections", "5")
		durable(&r.in)
		r.in.XR.Spec.Config["max_connections"] = "6"
		return r.in
	}()
	found := &v1.RecoverySource{Choice: v1.ChoiceAt + testMoment, Backup: "b1", Recovery: recoveryTo(testTimeline)}
	cases := map[string]struct {
		in   Input
		pods []string
	}{
		"New":   {given(durable), []string{v1.ResourceDeployment}},
		"InUse": {given(inUse, durable), []string{v1.ResourceDeployment}},
		"Restore": {given(durable, previous("b1"), record("b1", 1, v1.BackupVerified, inStore)),
			[]string{v1.ResourceDeployment, v1.ResourceRestore}},
		"Recovery": {given(durable, previous("b1"), record("b1", 1, v1.BackupVerified, inStore), at(found)),
			[]string{v1.ResourceDeployment, v1.ResourceRestore}},
		"Import":   {given(ofDump, durable), []string{v1.ResourceDeployment, v1.ResourceRestore}},
		"Validate": {validates, []string{v1.ResourceDeployment, v1.ResourceSettingsCheck}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pods, seen := composedPods(composed(t, tc.in)), []string{}
			for name, pod := range pods {
				seen = append(seen, name)
				for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
					if name == v1.ResourceDeployment && c.Name == engines[v1.TypeMySQL].name {
						continue
					}
					if text := fmt.Sprint(c.Command, c.Args, c.Env); strings.Contains(text, "semi") {
						t.Errorf("container %s of %s has the arguments of durability Store: %s", c.Name, name, text)
					}
				}
			}
			slices.Sort(seen)
			if diff := cmp.Diff(tc.pods, seen); diff != "" {
				t.Errorf("pods: -want, +got:\n%s", diff)
			}
			if got := serverTemplate(serverOf(t, tc.in)).Spec.Containers[0]; !cmp.Equal(durability.Arguments(v1.DefaultImage), got.Args) ||
				got.Command != nil {
				t.Errorf("want the arguments of durability Store, got %q %q", got.Command, got.Args)
			}
		})
	}
}

// TestDurabilityRestarts checks that a change of the durability restarts the server, and that nothing else of
// spec.backup.continuous does.
func TestDurabilityRestarts(t *testing.T) {
	const server = v1.DurabilityServer
	base := digestOf(serverTemplate(serverOf(t, given(inUse))))
	cases := map[string]struct {
		continuous *v1.ContinuousBackup
		restarts   bool
	}{
		"Empty":    {continuous: &v1.ContinuousBackup{}},
		"Server":   {continuous: &v1.ContinuousBackup{Durability: server}},
		"Disabled": {continuous: &v1.ContinuousBackup{Enabled: new(false), Durability: server}},
		"Store":    {continuous: &v1.ContinuousBackup{Durability: v1.DurabilityStore}, restarts: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := serverOf(t, given(inUse, func(in *Input) { in.XR.Spec.Backup.Continuous = tc.continuous }))
			if restarts := digestOf(serverTemplate(in)) != base; restarts != tc.restarts {
				t.Errorf("restarts: want %t, got %t", tc.restarts, restarts)
			}
		})
	}
	waits := given(inUse, durable)
	continues := given(inUse, durable, func(in *Input) {
		in.XR.Spec.Backup.Continuous.StoreFailurePolicy = v1.StoreFailureContinue
	})
	if digestOf(serverTemplate(serverOf(t, waits))) != digestOf(serverTemplate(serverOf(t, continues))) {
		t.Error("want no restart after a change of storeFailurePolicy")
	}
}

// TestDurabilityNeedsAStore checks that the function refuses durability Store if commits would wait forever, or would
// not wait.
func TestDurabilityNeedsAStore(t *testing.T) {
	cases := map[string]struct {
		change  func(*Input)
		refusal string
	}{
		"Store": {change: func(*Input) {}},
		"Default": {change: func(in *Input) {
			platform(func(s *v1.PlatformSpec) { s.DefaultBackupStore = in.XR.Spec.Backup.StoreRef.Name })(in)
			in.XR.Spec.Backup.StoreRef = nil
		}},
		"Unknown": {change: func(in *Input) {
			in.Required.Platform.Known, in.XR.Spec.Backup.StoreRef = false, nil
		}},
		"Volume": {change: func(in *Input) { in.XR.Spec.Backup.StoreRef = nil },
			refusal: "spec.backup.continuous: Forbidden: requires a BackupStore. Set spec.backup.storeRef"},
		"Discard": {change: func(in *Input) { in.XR.Spec.DeletionPolicy = v1.DeletionDiscard },
			refusal: "spec.backup.continuous: Forbidden: is not possible with deletionPolicy Discard"},
		"Database": {change: asDatabase, refusal: "spec.backup.continuous: Forbidden: is supported only for a MySQL"},
		"Disabled": {change: func(in *Input) { in.XR.Spec.Backup.Continuous.Enabled = new(false) },
			refusal: "spec.backup.continuous.durability: Forbidden: Store requires the archive"},
		"Image": {change: func(in *Input) { in.XR.Spec.Image = new("mysql:8.0.25") },
			refusal: "spec.image: Forbidden: durability Store requires MySQL 8.0.26 or newer"},
		"Setting": {change: config("skip_log_bin", ""),
			refusal: "spec.config[skip_log_bin]: Forbidden: turns off the binary log"},
		"Earlier": {change: func(in *Input) { inUse(in); in.XR.Status.GTIDs = false },
			refusal: "spec.config[gtid_mode]: Required value: durability Store requires GTIDs"},
		"Server": {change: func(in *Input) {
			config("skip_log_bin", "")(in)
			in.XR.Spec.Backup.Continuous.Durability = v1.DurabilityServer
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Compose(given(durable, tc.change))
			switch {
			case tc.refusal == "" && err != nil:
				t.Errorf("want no refusal, got %v", err)
			case tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)):
				t.Errorf("want the refusal %q, got %v", tc.refusal, err)
			}
		})
	}
}

// TestArchivingCondition checks the reason of the condition Archiving for each state that the controller reports.
func TestArchivingCondition(t *testing.T) {
	cases := map[string]struct {
		status *v1.ArchivingStatus
		want   Condition
	}{
		"Unknown":     {nil, Condition{Reason: v1.ReasonNotStarted}},
		"Works":       {&v1.ArchivingStatus{OK: true}, Condition{True: true, Reason: v1.ReasonArchived}},
		"Fails":       {&v1.ArchivingStatus{Message: "x"}, Condition{Reason: v1.ReasonArchiveFailing}},
		"Unsupported": {&v1.ArchivingStatus{Unsupported: true}, Condition{Reason: v1.ReasonArchiveUnsupported}},
		"Suspended":   {&v1.ArchivingStatus{Suspended: true}, Condition{Reason: v1.ReasonStoreDurabilitySuspended}},
		"StillSuspended": {&v1.ArchivingStatus{OK: true, Suspended: true},
			Condition{Reason: v1.ReasonStoreDurabilitySuspended}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := archivingCondition(tc.status)
			if got.True != tc.want.True || got.Reason != tc.want.Reason {
				t.Errorf("want %v %s, got %v %s", tc.want.True, tc.want.Reason, got.True, got.Reason)
			}
		})
	}
}

// TestOldImageStartsUntilItChanges checks that the server of an old image has no arguments that it does not know, while
// the change to a newer image waits for a backup.
func TestOldImageStartsUntilItChanges(t *testing.T) {
	const old = "mysql:8.0.20"
	in := given(inUse, durable, func(in *Input) {
		in.XR.Spec.Image, in.XR.Status.Image, in.XR.Status.ServedImage = new("mysql:8.4"), old, old
	})
	c := serverTemplate(serverOf(t, in)).Spec.Containers[0]
	if c.Image != old || c.Args != nil {
		t.Errorf("want %s without arguments, got %s with %q", old, c.Image, c.Args)
	}
	if _, err := Compose(in); err != nil {
		t.Errorf("want no refusal, because the wanted image is suitable, got %v", err)
	}
}
