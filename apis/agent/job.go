// Package agent is what function, controller and Jobs agree on: how a Job of the
// product looks, how little its pods may do, and where they find their program.
package agent

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	// Program of the agent in its own image.
	Program = "/controller"
	// Memory that is reserved for the agent, which never needs all of it.
	Memory = "128Mi"
	// cpu that is reserved for it. It uses what there is.
	cpu = "50m"
)

// NewJob for one XR of an instance. It runs once: who made it tries again, and says
// why. Its pod has no API credentials and no password, and asks for what the platform says;
// nil is the usual.
func NewJob(i v1.Instance, namespace, name, component string, resources *corev1.ResourceRequirements, pod corev1.PodSpec) *batchv1.Job {
	labels := i.Labels()
	labels[v1.LabelComponent] = component
	setResources(pod.InitContainers, resources)
	setResources(pod.Containers, resources)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.AutomountServiceAccountToken = new(false)
	pod.EnableServiceLinks = new(false)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: Annotations(i)},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)),
			// Never two pods on the same files.
			PodReplacementPolicy: new(batchv1.Failed),
			Template:             corev1.PodTemplateSpec{ObjectMeta: outOfMeshes(labels), Spec: pod},
		},
	}
}

// A VolumeJob runs one command of the agent beside volumes, each mounted under its name in the
// root, to be read only where the volume says so.
type VolumeJob struct {
	Of                                v1.Instance
	Namespace, Name, Component, Image string
	// Resources that the platform wants; nil is the usual.
	Resources *corev1.ResourceRequirements
	// Nodes that it runs on if it can; nil for any.
	Nodes *v1.NodePlacement
	// OnNode is true if a volume is a folder of a node.
	OnNode  bool
	Command []string
	Volumes []corev1.Volume
	// Before are containers that run first, and Beside the volumes that only they mount.
	Before []corev1.Container
	Beside []corev1.Volume
}

// Job of it.
func (v VolumeJob) Job() *batchv1.Job {
	mounts := make([]corev1.VolumeMount, 0, len(v.Volumes))
	for _, of := range v.Volumes {
		pvc := of.PersistentVolumeClaim
		mounts = append(mounts, corev1.VolumeMount{Name: of.Name, MountPath: "/" + of.Name, ReadOnly: pvc != nil && pvc.ReadOnly})
	}
	pod := corev1.PodSpec{
		SecurityContext: PodSecurity(v.OnNode),
		InitContainers:  v.Before,
		Containers:      []corev1.Container{Container(v.Component, v.Image, Memory, FileSecurity(v.OnNode), mounts, v.Command...)},
		Volumes:         append(v.Beside, v.Volumes...),
	}
	v.Nodes.Prefer(&pod)
	return NewJob(v.Of, v.Namespace, v.Name, v.Component, v.Resources, pod)
}

// outOfMeshes are the labels and annotations by which service meshes leave a pod alone: Istio's, Linkerd's,
// Consul's and Kuma's, in the words of their documentation. The pod speaks with nobody, and a
// proxy beside its container would keep the Job from ending.
func outOfMeshes(labels map[string]string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Labels: map[string]string{"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"},
		Annotations: map[string]string{
			"sidecar.istio.io/inject":             "false",
			"linkerd.io/inject":                   "disabled",
			"consul.hashicorp.com/connect-inject": "false",
		},
	}
	maps.Copy(out.Labels, labels)
	return out
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
		Resources:                requests(memory),
		VolumeMounts:             mounts,
	}
}

// Annotations say whose an object is, and bring its events to the controller.
func Annotations(i v1.Instance) map[string]string {
	return map[string]string{
		v1.AnnotationClaimKind:      i.Kind,
		v1.AnnotationClaimNamespace: i.Namespace,
		v1.AnnotationClaimName:      i.Name,
	}
}
