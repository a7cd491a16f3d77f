// Package job has what all Jobs that the controller makes have in common: whose
// they are, and how little their pods may do.
package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Program of the agent in its own image.
const Program = "/controller"

// serverUID is the uid and gid of the server in the official images of MySQL.
const serverUID int64 = 999

// New Job for a life of an instance. It runs once: the controller tries again,
// and says why. Its pod has no API credentials and no password.
func New(life v1.Instance, namespace, name, component string, pod corev1.PodSpec) *batchv1.Job {
	labels := life.Labels()
	labels[v1.LabelComponent] = component
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.AutomountServiceAccountToken = new(false)
	pod.EnableServiceLinks = new(false)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: Annotations(life)},
		Spec: batchv1.JobSpec{
			BackoffLimit:         new(int32(0)),
			PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       pod,
			},
		},
	}
}

// Container of a Job, with this much memory reserved. It writes to what it
// mounts, and nowhere else.
func Container(name, image, memory string, security *corev1.SecurityContext, mounts []corev1.VolumeMount, command ...string) corev1.Container {
	return corev1.Container{
		Name:                     name,
		Image:                    image,
		Command:                  command,
		SecurityContext:          security,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse(memory),
		}},
		VolumeMounts: mounts,
	}
}

// PVCVolume is a PVC as a volume of a pod.
func PVCVolume(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// PodSecurity is the server's: the uid that owns the files, or root in a folder
// that the kubelet made for root.
func PodSecurity(hostPath bool) *corev1.PodSecurityContext {
	seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	if hostPath {
		return &corev1.PodSecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), SeccompProfile: seccomp}
	}
	return &corev1.PodSecurityContext{
		RunAsNonRoot:        new(true),
		RunAsUser:           new(serverUID),
		RunAsGroup:          new(serverUID),
		FSGroup:             new(serverUID),
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      seccomp,
	}
}

// Security of a container that needs no rights at all.
func Security() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// FileSecurity is that of a container of the agent's image: on hostPath it may
// read and change files that are not its own.
func FileSecurity(hostPath bool) *corev1.SecurityContext {
	c := Security()
	if hostPath {
		c.Capabilities.Add = []corev1.Capability{"DAC_OVERRIDE", "FOWNER"}
	}
	return c
}

// Annotations say whose an object is, and bring its events to the controller.
func Annotations(i v1.Instance) map[string]string {
	return map[string]string{
		v1.AnnotationClaimKind:      i.Kind,
		v1.AnnotationClaimNamespace: i.Namespace,
		v1.AnnotationClaimName:      i.Name,
	}
}
