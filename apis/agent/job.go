// Package agent contains code that the function, the controller and the Jobs share. It builds the Jobs of this
// product: the commands of their containers, and the security contexts of their pods.
package agent

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	// Program is the path of the agent in its image. The agent is the controller's binary, which also runs the commands
	// of Jobs and init containers.
	Program = "/controller"
	// Memory is the memory request of a container that runs the agent, which never uses all of it.
	Memory = "128Mi"
	// cpu is the CPU request of a container that runs the agent, which uses all CPU time that it can get.
	cpu = "50m"
)

// NewJob returns a Job for one XR of an instance. The Job runs once, unless its creator sets a number of retries. Its
// pod has no API credentials and no password. resources are the platform's resources for Jobs, or nil for the
// default. A Job outside of the instance's namespace cannot use its pull secrets, so it gets none.
func NewJob(i v1.Instance, namespace, name, component string, resources *corev1.ResourceRequirements,
	pull []v1.ImagePullSecret, pod corev1.PodSpec) *batchv1.Job {
	labels := i.Labels()
	labels[v1.LabelComponent] = component
	setResources(pod.InitContainers, resources)
	setResources(pod.Containers, resources)
	if namespace == i.Namespace {
		pod.ImagePullSecrets = v1.PodPullSecrets(pull)
	}
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.AutomountServiceAccountToken = new(false)
	pod.EnableServiceLinks = new(false)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: Annotations(i)},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)),
			// Two pods must never use the same files.
			PodReplacementPolicy: new(batchv1.Failed),
			Template:             corev1.PodTemplateSpec{ObjectMeta: outOfMeshes(labels), Spec: pod},
		},
	}
}

// A VolumeJob runs one command of the agent with volumes. Each volume is mounted at its name in the root directory,
// read-only if its PVC is read-only.
type VolumeJob struct {
	Of                                v1.Instance
	Namespace, Name, Component, Image string
	// Resources are the resources that the Platform sets for the containers of Jobs, or nil for the default.
	Resources *corev1.ResourceRequirements
	// Nodes are the nodes that the pod prefers, or nil if it has no preference.
	Nodes *v1.NodePlacement
	// PullSecrets are the pull secrets of the instance. If they are nil, the pod has the pull secrets of the default
	// ServiceAccount in its namespace.
	PullSecrets []v1.ImagePullSecret
	// OnNode is true if a volume is a hostPath directory of a node. The pod then runs as root.
	OnNode  bool
	Command []string
	Volumes []corev1.Volume
	// Before are init containers of the pod. MountedAlongside are the volumes that only these containers mount.
	Before           []corev1.Container
	MountedAlongside []corev1.Volume
}

// Job returns a Job whose pod runs Command with Volumes, after the init containers in Before.
func (v VolumeJob) Job() *batchv1.Job {
	mounts := make([]corev1.VolumeMount, 0, len(v.Volumes))
	for _, volume := range v.Volumes {
		pvc := volume.PersistentVolumeClaim
		mounts = append(mounts, corev1.VolumeMount{Name: volume.Name, MountPath: "/" + volume.Name,
			ReadOnly: pvc != nil && pvc.ReadOnly})
	}
	pod := corev1.PodSpec{
		SecurityContext: PodSecurity(v.OnNode),
		InitContainers:  v.Before,
		Containers: []corev1.Container{
			Container(v.Component, v.Image, Memory, FileSecurity(v.OnNode), mounts, v.Command...)},
		Volumes: append(v.MountedAlongside, v.Volumes...),
	}
	v.Nodes.Prefer(&pod)
	return NewJob(v.Of, v.Namespace, v.Name, v.Component, v.Resources, v.PullSecrets, pod)
}

// outOfMeshes returns the labels and annotations that exclude a pod from service meshes: Istio, Linkerd, Consul and
// Kuma, according to their documentation. The proxy of a mesh would prevent the Job from completing.
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

// Container returns a container of a Job with the given memory request. It can write only to its mounts.
func Container(name, image, memory string, security *corev1.SecurityContext, mounts []corev1.VolumeMount,
	command ...string) corev1.Container {
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

// Annotations returns the annotations that identify the instance of an object, so that the object's events cause a
// reconcile of the instance.
func Annotations(i v1.Instance) map[string]string {
	return map[string]string{
		v1.AnnotationClaimKind:      i.Kind,
		v1.AnnotationClaimNamespace: i.Namespace,
		v1.AnnotationClaimName:      i.Name,
	}
}
