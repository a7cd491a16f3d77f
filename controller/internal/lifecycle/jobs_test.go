package lifecycle

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/golden"
)

// TestManifests compares the created objects with a golden file.
func TestManifests(t *testing.T) {
	onNode := running(dead, hostPath)
	versioned := running(dead, func(s *instance.State) {
		s.DataPVC.Annotations = map[string]string{v1.AnnotationVersion: "8.4.6"}
	})
	ofClass := running(dead)
	ofClass.Settings.BackupClass = new("cheap")
	placed := func(s *instance.State) {
		s.XR.Status.UID = s.Instance.XR
		s.XR.Status.Nodes = &v1.NodePlacement{
			NodeSelector: map[string]string{"disk": "ssd"},
			NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 1, Preference: corev1.NodeSelectorTerm{
						MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
					}}}},
			Tolerations: []corev1.Toleration{{Key: "databases", Operator: corev1.TolerationOpExists}},
		}
	}
	cases := map[string]any{
		"backup-job-placed": backup.NewJob(running(dead, placed)),
		"online-job-placed": backup.NewJob(running(placed, begun(v1.BackupPending, time.Minute), online,
			func(s *instance.State) { s.BackupPVC.Status.Phase = corev1.ClaimPending })),
		"backup-job":            backup.NewJob(versioned),
		"backup-job-silent":     backup.NewJob(running(dead, silent)),
		"backup-job-database":   backup.NewJob(running(dead, silent, asDatabase)),
		"backup-job-hostpath":   backup.NewJob(onNode),
		"backup-job-store":      backup.NewJob(running(dead, toStore)),
		"backup-job-rescue":     backup.NewJob(running(dead, toStore, homeless)),
		"backup-job-orphan":     backup.NewJob(running(dead, toStore, orphaned)),
		"online-job":            backup.NewJob(running(begun(v1.BackupPending, time.Minute), online)),
		"online-job-hostpath":   backup.NewJob(running(hostPath, begun(v1.BackupPending, time.Minute), online)),
		"online-access":         backup.OfferClone(running(begun(v1.BackupPending, time.Minute), online)).Object,
		"backup-access":         backup.GiveBackupAccess(running(dead, toStore)).Object,
		"backup-access-orphan":  backup.GiveBackupAccess(running(dead, toStore, orphaned)).Object,
		"backup-access-rescue":  backup.GiveBackupAccess(running(dead, toStore, homeless)).Object,
		"restore-access":        restoreAccess(),
		"wipe-job":              backup.WipeJob(onNode),
		"prune-job":             backup.PruneJob(running(dead), []client.Object{&v1.BackupRecord{}}),
		"backup-claim":          backup.NewPVC(running()),
		"backup-claim-class":    backup.NewPVC(ofClass),
		"backup-claim-hostpath": backup.NewPVC(onNode),
		"backup-claim-again": backup.NewPVC(running(func(s *instance.State) {
			s.BackupPV = &corev1.PersistentVolume{}
			s.BackupPV.Name, s.BackupPV.Spec.StorageClassName = "pvc-2", "fast"
		})),
		"backup-volume-hostpath": backup.NewPV(onNode),
		"record":                 backup.NewRecord(versioned),
	}
	for name, got := range cases {
		t.Run(name, func(t *testing.T) {
			raw := golden.Manifest(t, name, got)
			for _, secret := range []string{"password", "MYSQL_ROOT"} {
				if bytes.Contains(raw, []byte(secret)) {
					t.Errorf("a manifest speaks of a %s", secret)
				}
			}
		})
	}
}

// restoreAccess returns the Secret with access to a store, without the part that the store adds.
func restoreAccess() client.Object {
	from := &v1.StoreEntry{Name: "old-a",
		BackupEntry: v1.BackupEntry{Spec: v1.BackupRecordSpec{
			Archive: &v1.Archive{Store: modelStore, Path: "v1/ns/xr/old-a/k7v2m9xw4q.tar.zst"}}}}
	return backup.GiveRestoreAccess(running(toStore, restoresFrom(from)), steps.Step{})[0].Object
}

// TestJobsHavePullSecrets checks that each Job in the instance's namespace has the pull secrets of the instance. This
// holds even if the XR is deleted and only the volume names the Secrets. The admission policies accept the Jobs. A
// Job in another namespace has no pull secrets.
func TestJobsHavePullSecrets(t *testing.T) {
	want := []v1.ImagePullSecret{{Name: "registry"}, {Name: "mirror"}}
	pulling := func(s *instance.State) { s.XR.Spec.ImagePullSecrets = want }
	volumeKnows := func(s *instance.State) { s.DataPV.Annotations[v1.AnnotationPullSecrets] = "registry,mirror" }
	k := leaves(t)
	k.record.Spec.ImagePullSecrets = want
	jobs := map[string]*batchv1.Job{
		"backup": backup.NewJob(running(dead, pulling)),
		"online": backup.NewJob(running(pulling, begun(v1.BackupPending, time.Minute), online)),
		"orphan": backup.NewJob(running(dead, toStore, volumeKnows, orphaned)),
		"unread": backup.NewJob(running(dead, volumeKnows, func(s *instance.State) {
			s.XR.Unreadable = v1.UnreadableFields{{Path: []string{"spec", "imagePullSecrets"}}}
		})),
		"wipe":  backup.WipeJob(running(dead, hostPath, pulling)),
		"prune": backup.PruneJob(running(dead, pulling), nil),
		"erase": catalog.RemovalJob(k.archives(), k.record, k.volume),
	}
	for name, j := range jobs {
		if diff := cmp.Diff(v1.PodPullSecrets(want), j.Spec.Template.Spec.ImagePullSecrets); diff != "" {
			t.Errorf("Job %s: -want, +got:\n%s", name, diff)
		}
		if err := refusal(t.Context(), nil, j); err != nil {
			t.Errorf("Job %s: a policy of controller/deploy refuses it: %v", name, err)
		}
	}
	if j := backup.NewJob(running(dead, toStore, pulling, homeless)); len(j.Spec.Template.Spec.ImagePullSecrets) > 0 {
		t.Errorf("Job %s/%s names Secrets of another namespace", j.Namespace, j.Name)
	}
	for name, s := range map[string]*instance.State{"XR": running(pulling),
		"volume": running(dead, toStore, volumeKnows, orphaned)} {
		if diff := cmp.Diff(want, backup.NewRecord(s).Spec.ImagePullSecrets); diff != "" {
			t.Errorf("The record by the %s: -want, +got:\n%s", name, diff)
		}
	}
	s := running(pulling)
	if isDataPVMarked(s) {
		t.Error("want the volume marked again: it does not have the names")
	}
	s = running(volumeKnows)
	if isDataPVMarked(s) || backup.IdentityAnnotations(s)[v1.AnnotationPullSecrets] != "" {
		t.Error("want the names removed from the volume")
	}
}

// TestJobsHavePlatformsResources checks that each Job has the resources that the platform sets, so that a quota that
// requires limits accepts the Job.
func TestJobsHavePlatformsResources(t *testing.T) {
	want := &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}}
	s := running(dead, hostPath)
	s.Settings.JobResources = want
	k := leaves(t)
	a := k.archives()
	a.Settings.JobResources = want
	for _, j := range []*batchv1.Job{backup.NewJob(s), backup.WipeJob(s), backup.PruneJob(s, nil),
		catalog.RemovalJob(a, k.record, k.volume)} {
		if diff := cmp.Diff(*want, j.Spec.Template.Spec.Containers[0].Resources); diff != "" {
			t.Errorf("Job %s: -want, +got:\n%s", j.Name, diff)
		}
	}
}
