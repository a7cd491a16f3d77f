package compose

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestResolveStore checks in which store or volume the next backup is stored.
func TestResolveStore(t *testing.T) {
	asks := func(name string) func(*Input) {
		return func(in *Input) {
			in.XR.Spec.Backup.StoreRef = &v1.BackupStoreReference{Name: name}
			if name == v1.StoreVolume {
				in.XR.Spec.Backup.StoreRef, in.XR.Spec.Backup.Volume = nil, &v1.BackupVolume{}
			}
		}
	}
	allows := func(byDefault string, names ...string) func(*Input) {
		return platform(func(s *v1.PlatformSpec) { s.DefaultBackupStore, s.AllowedBackupStores = byDefault, names })
	}
	testsRestore := func(in *Input) {
		in.XR.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
	}
	hasStore := func(in *Input) { in.XR.Status.BackupStore, in.XR.Status.Started = "had", true }
	unknown := func(in *Input) { in.Required.Platform.Known = false }
	cases := map[string]struct {
		reason  string
		in      Input
		want    string
		refused string
	}{
		"Volume":  {reason: "Neither the claim nor the platform names a store.", in: given()},
		"Default": {reason: "The platform has a default store.", in: given(allows("offsite")), want: "offsite"},
		"Named": {reason: "The claim names a store that the platform allows.",
			in: given(allows("", "a", "b"), asks("b")), want: "b"},
		"NamesDefault": {reason: "A claim may name the default store.", in: given(allows("offsite"), asks("offsite")),
			want: "offsite"},
		"NotAllowed": {reason: "The platform does not allow the store of the claim.",
			in:      given(allows("offsite", "a"), asks("b")),
			refused: "b is not allowed by the platform. Allowed: a"},
		"AsksVolume": {reason: "Without a default store, a claim may ask for a volume.", in: given(asks("Volume"))},
		"AllowedVolume": {reason: "The platform allows claims to ask for a volume.",
			in: given(allows("offsite", "Volume"), asks("Volume"))},
		"RefusedVolume": {reason: "The platform does not allow volumes.", in: given(allows("offsite"), asks("Volume")),
			refused: "Volume is not allowed by the platform"},
		"Keeps": {reason: "An instance must keep its store if the new one is not allowed.",
			in:   given(hasStore, allows("", "a"), asks("b")),
			want: "had", refused: "b is not allowed by the platform"},
		"Changes": {reason: "A running instance must get a new default store.", in: given(hasStore, allows("offsite")),
			want: "offsite"},
		"NotKnownYet": {reason: "An instance must keep its store until Crossplane has sent the Platform.",
			in:   given(hasStore, unknown),
			want: "had"},
		"Discard": {reason: "With deletionPolicy Discard, there is no backup.",
			in: given(allows("offsite"), func(in *Input) { in.XR.Spec.DeletionPolicy = v1.DeletionDiscard })},
		"Required": {reason: "A restore test must also be possible with a backup in a store.",
			in: given(allows("offsite"), testsRestore), want: "offsite"},
		"RequiredVolume": {reason: "A restore test must be possible with a backup on a volume.",
			in: given(testsRestore)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if r.store != tc.want || (r.storeRefused != nil) != (tc.refused != "") || r.storeRefused != nil &&
				!strings.Contains(r.storeRefused.Error(), tc.refused) {
				t.Errorf("%s want %q, %q, got %q, %v", tc.reason, tc.want, tc.refused, r.store, r.storeRefused)
			}
			kept, refused := checkAllowed(r)
			if got := kept != nil || refused != nil; got != (tc.refused != "") || refused != nil && r.started {
				t.Errorf("%s want that it is said, got %v, %v", tc.reason, kept, refused)
			}
			if got := volumeAnnotations(r)[v1.AnnotationBackupStore]; got != tc.want {
				t.Errorf("the volume says %q", got)
			}
			if egress := jobPolicy(r).Spec.Egress; (len(egress) > 0) != (tc.want != "") {
				t.Errorf("Jobs may go to %v", egress)
			}
		})
	}
}

// TestRestoreFromStore checks that the Job can read only one archive in the store, and mounts no backup volume. It
// may connect to the gateway even if the next backup is written to a volume.
func TestRestoreFromStore(t *testing.T) {
	in := given()
	r, err := resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	from := &v1.RestoreStatus{Backup: "one", Phase: v1.RestoreRunning,
		Archive: v1.Archive{Store: "offsite", Path: "v1/ns/xr/one/x.tar.zst.age", SHA256: testSum}}
	pod := restorePod(r, from)
	command := pod.Containers[0].Command
	if !slices.Contains(command, "--object=v1/ns/xr/one/x.tar.zst.age") ||
		slices.ContainsFunc(command, func(s string) bool { return strings.HasPrefix(s, "--archive") }) {
		t.Errorf("got %q", command)
	}
	if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == r.instance.Accesses().Restore()
	}) || slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "backup" }) {
		t.Errorf("got %v", pod.Volumes)
	}
	for _, c := range pod.InitContainers {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "access" }) {
			t.Errorf("container %s, which may run an image of the claim's, has the way to the store", c.Name)
		}
	}
	in.XR.Status.Restore = from
	if r, err = resolve(in); err != nil {
		t.Fatal(err)
	}
	if len(jobPolicy(r).Spec.Egress) != 1 {
		t.Error("the Job speaks with nobody")
	}
	for name, a := range map[string]v1.Archive{
		"Both": {PVCName: "a", Store: "b", Path: "x", SHA256: testSum}, "None": {Path: "x", SHA256: testSum},
		"Name": {Store: "a/b", Path: "x", SHA256: testSum},
		"Path": {Store: "a", Path: "../x", SHA256: testSum}, "Sum": {Store: "a", Path: "x"},
	} {
		if checkArchive("one", &a) == nil {
			t.Errorf("%s: a record may not say that", name)
		}
	}
	if err := checkArchive("one", &from.Archive); err != nil {
		t.Error(err)
	}
}
