package instance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// choosing returns an XR that is about to be restored from the given backup. phase is the phase of the restore.
func choosing(backup, phase string) *unstructured.Unstructured {
	u := xr("x", "uid-1", "db", false)
	u.Object["status"] = map[string]any{"restore": map[string]any{"backup": backup, "phase": phase}}
	return u
}

// recordOf returns a BackupRecord of a namespace.
func recordOf(namespace types.UID) *v1.BackupRecord {
	r := record("b", "db", 1)
	r.Spec.Instance.NamespaceUID = namespace
	return r
}

// backupsAt returns a volume that contains backups of the given namespace UID and is reserved for the PVC in ref.
func backupsAt(name, namespace string, ref *corev1.ObjectReference) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{v1.Finalizer}, Labels: key.Instance("").Labels(),
		Annotations: map[string]string{v1.AnnotationNamespaceUID: namespace},
	}}
	v.Labels[v1.LabelComponent] = v1.ComponentBackup
	v.Spec.ClaimRef = ref
	return v
}

func inherited(v *corev1.PersistentVolume, from string) *corev1.PersistentVolume {
	v.Annotations[v1.AnnotationEarlierNamespaces] = from
	return v
}

func at(namespace, name string, uid types.UID) *corev1.ObjectReference {
	return &corev1.ObjectReference{Namespace: namespace, Name: name, UID: uid}
}

func backupPVCOn(volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metaOf(instanceID.BackupPVCName(), nil),
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
}

// TestGatherBackups checks that the volume of a previous namespace is found only if the function chose a backup on
// it.
func TestGatherBackups(t *testing.T) {
	type want struct {
		BackupPVC, BackupPV, EarlierBackupPV string
		Busy, Restore                        bool
		PodFailure                           bool
	}
	old, usual := recordOf("earlier"), instanceID.BackupPVCName()
	left := func() *corev1.PersistentVolume { return backupsAt("pv-0", "earlier", at("default", usual, "gone")) }
	started := choosing("b", "Running")
	started.Object["status"].(map[string]any)["internal"] = map[string]any{"started": true}
	other := left()
	other.Labels[v1.LabelInstance] = otherName
	recovered := pvcAt(v1.RecoveryNamespace, "backups-0", "")
	recovered.UID = "rescue"
	cases := map[string]struct {
		reason  string
		objects []client.Object
		want    want
	}{
		"Chosen": {reason: "The function chooses a backup of a previous namespace only if the platform allows it.",
			objects: []client.Object{choosing("b", "Running"), old, left()}, want: want{EarlierBackupPV: "pv-0"}},
		"Refused": {reason: "A volume of a previous namespace must not be used if the function chose no backup on it.",
			objects: []client.Object{xr("x", "uid-1", "db", false), old, left()}},
		"Restored": {reason: "A volume must not be adopted after the restore has succeeded.",
			objects: []client.Object{choosing("b", "Succeeded"), old, left()}},
		"Started": {reason: "An instance that has started must not adopt a volume, because nothing is restored into it.",
			objects: []client.Object{started, old, left()}},
		"Dying": {reason: "An instance that is being deleted must not adopt a volume.",
			objects: []client.Object{onVolume(xr("x", "uid-1", "db", true)), old, left()}},
		"Own": {reason: "The chosen backup is from the current namespace, so no earlier volume is needed.",
			objects: []client.Object{choosing("b", "Running"), recordOf("ns"), left()}},
		"Unproven": {reason: "The function never chooses a backup that is not verified.",
			objects: []client.Object{choosing("b", "Running"), unproven(recordOf("earlier")), left()}},
		"Nameless": {reason: "A BackupRecord without a namespace UID must not match any volume.",
			objects: []client.Object{choosing("b", "Running"), recordOf(""), backupsAt("pv-0", "", nil)}},
		"Another": {reason: "The volume of this claim must not be used for a backup of another claim.",
			objects: []client.Object{choosing("c", "Running"), old, record("c", "another", 1), left()}},
		"TheRight": {reason: "Each namespace had its own volume, so the one with the chosen backup must be found.",
			objects: []client.Object{choosing("b", "Running"), old, backupsAt("pv-a", "first", nil), left(),
				backupsAt("pv-z", "last", nil)}, want: want{EarlierBackupPV: "pv-0"}},
		"Inherited": {reason: "The volume of a later namespace also contains the backups of the earlier namespaces.",
			objects: []client.Object{choosing("b", "Running"), old, inherited(backupsAt("pv-2", "second", nil), "zero,earlier")},
			want:    want{EarlierBackupPV: "pv-2"}},
		"Done": {reason: "The volume already belongs to this namespace and is reserved for its backup PVC.",
			objects: []client.Object{choosing("b", "Running"), old,
				inherited(backupsAt("pv-0", "ns", at("default", usual, "")), "earlier")}, want: want{BackupPV: "pv-0"}},
		"DonePVC": {reason: "The volume already belongs to this namespace, and its backup PVC exists.",
			objects: []client.Object{choosing("b", "Running"), old,
				inherited(backupsAt("pv-0", "ns", at("default", usual, "")), "earlier"),
				backupPVCOn("pv-0")}, want: want{BackupPVC: "pv-0", BackupPV: "pv-0"}},
		"ByHand": {reason: "A user may also bind the backup PVC to the earlier volume manually.",
			objects: []client.Object{choosing("b", "Running"), old, backupsAt("pv-0", "earlier", at("default", usual, "")),
				backupPVCOn("pv-0")}, want: want{BackupPVC: "pv-0", BackupPV: "pv-0"}},
		"Forged": {reason: "A PVC that only names a volume is not bound to it, so the volume must not be used.",
			objects: []client.Object{choosing("b", "Running"), recordOf("ns"), left(), backupPVCOn("pv-0")},
			want:    want{BackupPVC: "pv-0"}},
		"InTheWay": {reason: "The earlier volume and the restore Job must be found, although an empty volume is bound.",
			objects: []client.Object{choosing("b", "Running"), old, left(), backupPVCOn("pv-2"),
				backupsAt("pv-2", "ns", at("default", usual, "")), jobAt("default", instanceID.Jobs().Restore())}, want: want{
				BackupPVC: "pv-2", BackupPV: "pv-2", EarlierBackupPV: "pv-0", Restore: true}},
		"Busy": {reason: "The volume is busy while the PVC in the recovery namespace still exists.",
			objects: []client.Object{choosing("b", "Running"), old,
				backupsAt("pv-0", "earlier", at(v1.RecoveryNamespace, "backups-0", "rescue")),
				recovered}, want: want{EarlierBackupPV: "pv-0", Busy: true}},
		"Lent": {reason: "A user bound the volume to another PVC, so the volume must not be used.",
			objects: []client.Object{choosing("b", "Running"), old, backupsAt("pv-0", "earlier", at("default", "mine", "x"))},
			want:    want{PodFailure: true}},
		"Released": {reason: "A volume without the finalizer must not be used, because it may be deleted at any time.",
			objects: []client.Object{choosing("b", "Running"), old, released(left())}, want: want{PodFailure: true}},
		"Label": {reason: "The label of the volume names another instance, so the volume must not be used.",
			objects: []client.Object{choosing("b", "Running"), old, other}, want: want{PodFailure: true}},
		"Nowhere": {reason: "The volume of the chosen backup is missing, and the status must report this.",
			objects: []client.Object{choosing("b", "Running"), old}, want: want{PodFailure: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := append(slices.Clone(tc.objects),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}})
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build(),
				Clock: time.Now}
			instances, err := g.Gather(context.Background(), key)
			if err != nil || len(instances) != 1 {
				t.Fatalf("%d lives, %v", len(instances), err)
			}
			s := instances[0]
			got := want{Busy: s.BackupBusy, Restore: s.RestoreJob != nil, PodFailure: strings.Contains(s.PodFailure, usual)}
			if s.BackupPVC != nil {
				got.BackupPVC = s.BackupPVC.Spec.VolumeName
			}
			if s.BackupPV != nil {
				got.BackupPV = s.BackupPV.Name
			}
			if s.EarlierBackupPV != nil {
				got.EarlierBackupPV = s.EarlierBackupPV.Name
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func unproven(r *v1.BackupRecord) *v1.BackupRecord {
	r.Status.Phase = v1.BackupRunning
	return r
}
