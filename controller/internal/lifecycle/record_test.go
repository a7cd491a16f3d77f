package lifecycle

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// TestBackupNumber checks that a backup has a higher number than the newest backup at the start of its instance, even
// if the clocks were wrong. This is also true if only the volume contains the number.
func TestBackupNumber(t *testing.T) {
	s := running(older(2))
	s.Records[0].Spec.Number, s.Records[1].Spec.Number = 6, 7
	s.Records[0].CreationTimestamp = metav1.NewTime(now.Add(time.Hour))
	if !s.Records[1].After(&s.Records[0]) || s.Records[0].After(&s.Records[1]) {
		t.Error("want the one with the greater number to be the newer one")
	}
	s.XR.Status.BackupNumber = 8
	s.Records[0].Spec.Number = 12 // A backup of another instance that was taken later.
	if got := backup.NewRecord(s).Spec.Number; got != 8 {
		t.Errorf("want the number that the instance began with, got %d", got)
	}
	kept := backup.IdentityAnnotations(s)
	xr := s.XR
	s.XR, s.Orphan = nil, &instance.Identity{BackupNumber: 8}
	if r := backup.NewRecord(s); kept[v1.AnnotationBackupNumber] != "8" || r.Spec.Number != 13 || r.Spec.Since != 8 {
		t.Errorf("want it to be of both since the number that the volume knows, which is %q, got %d since %d",
			kept[v1.AnnotationBackupNumber], r.Spec.Number, r.Spec.Since)
	}
	s.Records[0].Spec.Number = 5
	if r := backup.NewRecord(s); r.Spec.Number != 8 || r.Spec.Since != 0 {
		t.Errorf("want the number that the volume knows, got %d since %d", r.Spec.Number, r.Spec.Since)
	}
	s.Records[0].Spec.Number = 12
	s.XR, s.Orphan = xr, nil
	s.XR.Status.BackupNumber = 0
	if got := backup.NewRecord(s).Spec.Number; got != 13 {
		t.Errorf("want the next number where the status was lost, got %d", got)
	}
}

// TestNodesAreKept checks that the Jobs that read the data run on the nodes of the instance. This holds even if the
// XR is deleted and only the volume names the nodes. For Jobs that read the backup, the BackupRecord names the nodes.
func TestNodesAreKept(t *testing.T) {
	s := running()
	want := &v1.NodePlacement{NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations: []corev1.Toleration{{Key: "databases", Operator: corev1.TolerationOpExists}}}
	s.XR.Status.Nodes, s.XR.Status.UID = want, s.Instance.XR
	if isDataPVMarked(s) {
		t.Error("want the volume marked again: it does not know the nodes")
	}
	maps.Copy(s.DataPV.Annotations, backup.IdentityAnnotations(s))
	if !isDataPVMarked(s) {
		t.Error("want the volume marked")
	}
	s.DataPVC.Annotations = map[string]string{v1.AnnotationNodes: `{"nodeSelector":{"disk":"theirs"}}`}
	s.XR, s.Orphan = nil, &instance.Identity{}
	if diff := cmp.Diff(want, backup.NewRecord(s).Spec.Nodes); diff != "" {
		t.Errorf("The record: -want, +got:\n%s", diff)
	}
	if pod := backup.NewJob(s).Spec.Template.Spec; len(pod.NodeSelector) > 0 || len(pod.Tolerations) != 1 ||
		pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		t.Errorf("want a Job that tolerates what the server does, and is bound to no node, got %+v", pod)
	}
	s = running()
	s.XR.Status.UID, s.DataPV.Annotations[v1.AnnotationNodes] = "", want.Annotation()
	if !isDataPVMarked(s) || backup.NewRecord(s).Spec.Nodes == nil {
		t.Error("want the volume believed where the status was lost")
	}
	s = running()
	s.XR.Status.UID, s.DataPV.Annotations[v1.AnnotationNodes] = s.Instance.XR, want.Annotation()
	if isDataPVMarked(s) {
		t.Error("want it taken back from the volume")
	}
}

// TestChoiceIsKept checks that the BackupRecord contains the restore source of its instance, even if the XR is
// deleted and only the volume names that source.
func TestChoiceIsKept(t *testing.T) {
	s := running()
	const choice = "backup-of-spring"
	s.XR.Status.Choice = choice
	if got := backup.NewRecord(s).Spec.Choice; got != choice {
		t.Errorf("want the choice of the XR in the record, got %q", got)
	}
	if isDataPVMarked(s) {
		t.Error("want the volume marked again: it does not know the choice")
	}
	kept := backup.IdentityAnnotations(s)
	s.XR, s.Orphan = nil, &instance.Identity{Choice: kept[v1.AnnotationChoice]}
	if got := backup.NewRecord(s).Spec.Choice; got != choice {
		t.Errorf("want the choice that the volume knows in the record, got %q", got)
	}
}
