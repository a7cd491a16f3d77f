package agent

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// PVCVolume is a PVC as a volume of a pod.
func PVCVolume(name, pvc string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
	}}
}

// AccessVolumeName is that of the volume which is mounted as the AccessFolder.
const AccessVolumeName = "access"

// AccessVolume has the way to a store, for the agent's command.
func AccessVolume(secret string) corev1.Volume { return secretVolume(AccessVolumeName, secret, 0o440) }

// AccountVolume has the way to a server that is imported, for a container that is not root where the others are, and no more
// of the Secret: a tenant has chosen both.
func AccountVolume(name, secret string) corev1.Volume {
	v := secretVolume(name, secret, 0o444)
	v.Secret.Optional = new(true) // Who needs a key that is not there says so.
	for _, key := range []string{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, corev1.ServiceAccountRootCAKey} {
		v.Secret.Items = append(v.Secret.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return v
}

// secretVolume is a Secret as a volume of a pod, whose files have a mode.
func secretVolume(name, secret string, mode int32) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode},
	}}
}

// How long the access of a Job to a store lasts. That of a backup is renewed while its Job runs, so that it ends soon after the Job. A
// Job that reads an archive has it for as long as that may take.
const (
	BackupAccessLife = 2 * time.Hour
	ReadAccessLife   = 24 * time.Hour
)

// AccessSecret of a Job of an instance, in its namespace, without its content.
func AccessSecret(of v1.Instance, namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: of.Labels()},
		Type:       corev1.SecretTypeOpaque,
	}
}

// EmptyVolume goes with its pod, and has no more than this size of its node's disk: the
// kubelet evicts a pod that writes more.
func EmptyVolume(name string, size resource.Quantity) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}
}

// ScratchVolume goes with its pod, too: one of a StorageClass, or without one a folder of the node.
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

// OnNode keeps pods that use a volume on its node.
func OnNode(name string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}}
}
