package lifecycle

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// backupPVC mounts the volume that holds the backups of all lives of
// an instance. It has no owner and no XR's label: nothing takes it along.
func backupPVC(s *instance.State) *corev1.PersistentVolumeClaim {
	size, _ := wantedSize(s)
	annotations := agent.Annotations(s.Life)
	annotations[v1.AnnotationMadeFor] = string(s.Life.XR)
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.JobLocation().Namespace, Name: s.JobLocation().Backup, Labels: backupLabels(s.Life), Annotations: annotations,
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			StorageClassName: s.Settings.BackupClass,
		},
	}
	if c.Spec.StorageClassName == nil {
		c.Spec.StorageClassName = s.DataPVC.Spec.StorageClassName
	}
	if s.HostPath() {
		c.Spec.StorageClassName, c.Spec.VolumeName = new(""), s.Life.BackupPVName(s.NamespaceUID())
	}
	if v := s.BackupPV; v != nil {
		c.Spec.StorageClassName, c.Spec.VolumeName = &v.Spec.StorageClassName, v.Name
		if room, ok := v1.StorageOf(v.Spec.Capacity); ok && size.Cmp(room) > 0 {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = room // It binds first, and grows then.
		}
	}
	return c
}

// backupPV is a folder beside the data's, on the same node.
func backupPV(s *instance.State) *corev1.PersistentVolume {
	size, _ := wantedSize(s)
	name := s.Life.BackupPVName(s.NamespaceUID())
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: backupLabels(s.Life), Annotations: backupAnnotations(s), Finalizers: []string{v1.Finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			ClaimRef:                      reservedFor(s.JobLocation().Namespace, s.JobLocation().Backup),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			NodeAffinity:                  s.DataPV.Spec.NodeAffinity,
		},
	}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{
		Path: path.Join(path.Dir(s.DataPV.Spec.HostPath.Path), name),
		Type: new(corev1.HostPathDirectoryOrCreate),
	}
	return v
}

// backupLabels lack the XR's: backups are of all lives.
func backupLabels(i v1.Instance) map[string]string {
	i.XR = ""
	l := i.Labels()
	l[v1.LabelComponent] = v1.ComponentBackup
	return l
}

func backupAnnotations(s *instance.State) map[string]string {
	a := agent.Annotations(s.Life)
	a[v1.AnnotationNamespaceUID] = string(s.NamespaceUID())
	return a
}
