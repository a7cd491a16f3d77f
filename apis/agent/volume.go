package agent

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// PVCVolume returns a PVC as a volume of a pod.
func PVCVolume(name, pvc string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
	}}
}

// AccessVolumeName is the name of the volume that is mounted at AccessDir.
const AccessVolumeName = "access"

// AccessVolume returns the volume with the Secret that gives a Job access to archives in a BackupStore.
func AccessVolume(secret string) corev1.Volume { return secretVolume(AccessVolumeName, secret, 0o440) }

// AccountVolume returns the volume with the username and the password for the server to import. All users can read
// its files, because the container does not run as root. Only the required keys are mounted, because a tenant chooses
// the Secret and the image.
func AccountVolume(name, secret string) corev1.Volume {
	v := secretVolume(name, secret, 0o444)
	v.Secret.Optional = new(true) // A program that needs a missing key reports an error.
	for _, key := range []string{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey,
		corev1.ServiceAccountRootCAKey} {
		v.Secret.Items = append(v.Secret.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return v
}

// secretVolume returns a pod volume with the files of a Secret. mode is the file mode.
func secretVolume(name, secret string, mode int32) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode},
	}}
}

// Validity of the credentials with which a Job accesses a store. The controller renews the credentials of a backup
// Job while the Job runs, so that they expire soon after it ends. The credentials of a Job that reads an archive are
// valid for the maximum duration of the Job.
const (
	BackupAccessLifetime = 2 * time.Hour
	ReadAccessLifetime   = 24 * time.Hour
)

// AccessSecret returns the Secret that gives a Job access to archives in a BackupStore. It is in the namespace of the
// Job, and the caller adds its data.
func AccessSecret(instance v1.Instance, namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: instance.Labels()},
		Type:       corev1.SecretTypeOpaque,
	}
}

// EmptyVolume returns a volume that is deleted with its pod. The kubelet evicts the pod if the volume exceeds the
// given size.
func EmptyVolume(name string, size resource.Quantity) corev1.Volume {
	return corev1.Volume{Name: name,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}
}

// ScratchVolume returns a volume that is deleted with its pod. It has the given StorageClass. Without a StorageClass,
// it is a directory on the node.
func ScratchVolume(name, class string, size resource.Quantity, labels map[string]string) corev1.Volume {
	if class == "" {
		return EmptyVolume(name, size)
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			},
		},
	}}}
}

// OnNode returns the node affinity of a volume that only pods on the named node can use.
func OnNode(name string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}}
}
