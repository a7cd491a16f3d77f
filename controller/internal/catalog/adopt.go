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

// AdoptBackups retains a backup volume, labels it with its instance, and adds missing entries to its catalog. It also
// annotates the volume with a request for BackupRecords, which the controller then creates from the catalog. If a
// user created the PVC, the controller manages it from then on.
func AdoptBackups(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, instanceID v1.Instance, namespace types.UID,
	backups []v1.BackupRecord) []change.Change {
	mark := change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) {
		steps.SetLabelsAndAnnotations(c, steps.BackupLabels(instanceID), agent.Annotations(instanceID))
		steps.SetAnnotation(c, v1.AnnotationRetainedPV, v.Name)
	})
	entry := change.PatchObject(v, func(v *corev1.PersistentVolume) {
		steps.RetainPV(v)
		steps.SetLabelsAndAnnotations(v, steps.BackupLabels(instanceID), agent.Annotations(instanceID))
		if instance.NamespaceOf(v) == "" {
			steps.SetAnnotation(v, v1.AnnotationNamespaceUID, string(namespace))
		}
		earlier := instance.EarlierNamespaces(v)
		for i := range backups {
			b := &backups[i]
			steps.SetAnnotation(v, v1.AnnotationBackupPrefix+b.Name, EntryText(b))
			if uid := b.Spec.Instance.NamespaceUID; !instance.HasBackupsOf(v, uid) && !slices.Contains(earlier, string(uid)) {
				earlier = append(earlier, string(uid))
			}
		}
		if len(earlier) > 0 {
			steps.SetAnnotation(v, v1.AnnotationEarlierNamespaces, strings.Join(earlier, ","))
		}
		steps.SetAnnotation(v, v1.AnnotationMakeRecord, v1.MakeAllRecords)
	})
	return []change.Change{entry, mark}
}
