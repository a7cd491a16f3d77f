package lifecycle

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// AdoptBackups writes on a volume whose it is, keeps it, and notes backups on it that nobody knows
// any more. Their records are asked for with that, and made as those that somebody deleted. The PVC,
// which a person may have made, is one of ours from then on.
func AdoptBackups(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, of v1.Instance, namespace types.UID, backups []v1.MySQLBackup) []change.Change {
	mark := change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) {
		setLabelsAndAnnotations(c, backupLabels(of), agent.Annotations(of))
		setAnnotation(c, v1.AnnotationRetainedPV, v.Name)
	})
	note := change.PatchObject(v, func(v *corev1.PersistentVolume) {
		retainPV(v)
		setLabelsAndAnnotations(v, backupLabels(of), agent.Annotations(of))
		if instance.NamespaceOf(v) == "" {
			setAnnotation(v, v1.AnnotationNamespaceUID, string(namespace))
		}
		earlier := instance.EarlierNamespaces(v)
		for i := range backups {
			b := &backups[i]
			setAnnotation(v, v1.AnnotationBackupPrefix+b.Name, noteText(b))
			if uid := b.Spec.Instance.NamespaceUID; !instance.HasBackupsOf(v, uid) && !slices.Contains(earlier, string(uid)) {
				earlier = append(earlier, string(uid))
			}
		}
		if len(earlier) > 0 {
			setAnnotation(v, v1.AnnotationEarlierNamespaces, strings.Join(earlier, ","))
		}
		setAnnotation(v, v1.AnnotationMakeRecord, v1.MakeAllRecords)
	})
	return []change.Change{note, mark}
}
