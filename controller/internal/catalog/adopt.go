package catalog

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// AdoptBackups writes on a volume whose it is, keeps it, and notes backups on it that nobody knows
// any more. Their records are asked for with that, and made as those that somebody deleted. The PVC,
// which a person may have made, is one of ours from then on.
func AdoptBackups(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, of v1.Instance, namespace types.UID, backups []v1.MySQLBackup) []change.Change {
	mark := change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) {
		steps.SetLabelsAndAnnotations(c, steps.BackupLabels(of), agent.Annotations(of))
		steps.SetAnnotation(c, v1.AnnotationRetainedPV, v.Name)
	})
	note := change.PatchObject(v, func(v *corev1.PersistentVolume) {
		steps.RetainPV(v)
		steps.SetLabelsAndAnnotations(v, steps.BackupLabels(of), agent.Annotations(of))
		if instance.NamespaceOf(v) == "" {
			steps.SetAnnotation(v, v1.AnnotationNamespaceUID, string(namespace))
		}
		earlier := instance.EarlierNamespaces(v)
		for i := range backups {
			b := &backups[i]
			steps.SetAnnotation(v, v1.AnnotationBackupPrefix+b.Name, NoteText(b))
			if uid := b.Spec.Instance.NamespaceUID; !instance.HasBackupsOf(v, uid) && !slices.Contains(earlier, string(uid)) {
				earlier = append(earlier, string(uid))
			}
		}
		if len(earlier) > 0 {
			steps.SetAnnotation(v, v1.AnnotationEarlierNamespaces, strings.Join(earlier, ","))
		}
		steps.SetAnnotation(v, v1.AnnotationMakeRecord, v1.MakeAllRecords)
	})
	return []change.Change{note, mark}
}
