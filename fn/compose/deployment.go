package compose

import (
	"crypto/sha256"
	"encoding/hex"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	// gracePeriod in seconds in which InnoDB writes its buffer pool out. A server
	// that is killed cannot be upgraded from its backup.
	gracePeriod int64 = 600
	// startupProbes is the number of probes, a second apart, that a start may
	// take: a day. Recovering a large redo log takes as long as it takes, and a
	// restart would begin it anew.
	startupProbes int32 = 86400
)

// usualDisk of its node is for the temporary files of a server, and for the data of one without a
// volume.
var usualDisk = resource.MustParse("20Gi")

// deployment of one server. With Recreate a rollout never has two servers on the
// same files. A pod that is evicted or deleted may live on beside its
// successor: then it is InnoDB's own lock on them that keeps the second out.
func deployment(s *serverInput, begin start, of revision) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: s.meta(s.instance.DeploymentName(), s.instance.ServerSelector()),
		Spec: appsv1.DeploymentSpec{
			Replicas:             new(begin.replicas),
			MinReadySeconds:      minReadySeconds,
			RevisionHistoryLimit: new(int32(1)),
			Strategy:             appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector:             &metav1.LabelSelector{MatchLabels: s.instance.ServerSelector()},
			Template:             of.template,
		},
	}
	d.Annotations = map[string]string{v1.AnnotationRevision: of.mark}
	if begin.replicas > 0 || s.started {
		d.Annotations[v1.AnnotationStarted] = startedMark(s.instance)
	}
	return d
}

// serverTemplate as this release makes it.
func serverTemplate(s *serverInput) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: s.labels(s.instance.ServerSelector())},
		Spec:       serverPod(s),
	}
	if s.engine.config != "" {
		t.Annotations = map[string]string{v1.AnnotationConfigHash: digest(s.config)}
	}
	return t
}

// serverPod shares its processes' namespace: as the first process of its own,
// the image's entrypoint would not hear the signal to stop before the server has
// taken its place, and a deletion in that minute would wait for the whole grace
// period.
func serverPod(s *serverInput) corev1.PodSpec {
	pod := corev1.PodSpec{
		ShareProcessNamespace:         new(true),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(gracePeriod),
		SecurityContext:               agent.PodSecurity(false),
		Containers:                    []corev1.Container{serverContainer(s)},
	}
	schedule(s, &pod)
	for _, v := range serverVolumes(s) {
		pod.Volumes = append(pod.Volumes, v.Volume)
	}
	if s.engine.password {
		pod.InitContainers = initContainers(s)
		pod.Volumes = append(pod.Volumes, initVolumes(s)...)
	}
	return pod
}

// serverContainer has no liveness probe: the kubelet restarts a server that
// exits, and killing a busy one would turn a slow database into a broken one.
// The probes open a TCP connection, which needs no shell in the image and no
// password; my.cnf has skip_name_resolve so that they do not block their host.
func serverContainer(s *serverInput) corev1.Container {
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(s.engine.portName)}}
	c := corev1.Container{
		Name:            s.engine.name,
		Image:           s.wish.Image,
		Env:             serverEnvironment(s),
		Ports:           []corev1.ContainerPort{{Name: s.engine.portName, ContainerPort: s.engine.port, Protocol: corev1.ProtocolTCP}},
		StartupProbe:    &corev1.Probe{ProbeHandler: tcp, PeriodSeconds: 1, FailureThreshold: startupProbes},
		ReadinessProbe:  &corev1.Probe{ProbeHandler: tcp, PeriodSeconds: 5, FailureThreshold: 3},
		SecurityContext: agent.ServerSecurity(),
		Resources:       s.resources,
	}
	for _, v := range serverVolumes(s) {
		c.VolumeMounts = append(c.VolumeMounts, v.mounts...)
	}
	return c
}

// serverEnvironment: nothing in it says how a new database is to
// be made, so that the image's entrypoint makes none: one that finds its folder empty
// ends with an error. What the image itself says of it is taken back.
func serverEnvironment(s *serverInput) []corev1.EnvVar {
	if !s.engine.password {
		return nil
	}
	var env []corev1.EnvVar
	for _, name := range agent.PasswordVariables() {
		env = append(env, corev1.EnvVar{Name: name})
	}
	return env
}

// A mounted volume of the server's pod, and where it is.
type mounted struct {
	corev1.Volume

	mounts []corev1.VolumeMount
}

// serverVolumes are those that the server's container mounts, the data first.
func serverVolumes(s *serverInput) []mounted {
	out := []mounted{dataMount(s), scratchMounts(s)}
	if s.engine.config != "" {
		out = append(out, configMount(s))
	}
	if isCertified(s) {
		out = append(out, tlsMount(s))
	}
	return out
}

// configMount is the my.cnf.
func configMount(s *serverInput) mounted {
	return mounted{
		corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.instance.ConfigMapName()},
		}}},
		[]corev1.VolumeMount{{Name: "config", MountPath: s.engine.config, ReadOnly: true}},
	}
}

// scratchMounts are the folders in which the server makes its socket and its temporary
// files.
func scratchMounts(s *serverInput) mounted {
	out := mounted{Volume: agent.EmptyVolume("scratch", diskOf(s))}
	for _, f := range s.engine.scratch {
		out.mounts = append(out.mounts, corev1.VolumeMount{Name: "scratch", MountPath: f.path, SubPath: f.name})
	}
	return out
}

// dataMount is the data directory, and not the root of its volume. What goes with
// the pod has the same layout where a database is made in it.
func dataMount(s *serverInput) mounted {
	mount := corev1.VolumeMount{Name: "data", MountPath: s.engine.data, SubPath: v1.DataDirectory}
	if !s.ephemeral {
		return mounted{agent.PVCVolume("data", s.instance.DataPVCName()), []corev1.VolumeMount{mount}}
	}
	if !s.engine.password {
		mount.SubPath = ""
	}
	return mounted{agent.EmptyVolume("data", diskOf(s)), []corev1.VolumeMount{mount}}
}

// diskOf its node that a pod may write to: a pod that writes more is evicted before it fills
// the disk. It does not follow the size of the data, which may grow while the server runs.
func diskOf(s *serverInput) resource.Quantity {
	if limit, ok := s.resources.Limits[corev1.ResourceEphemeralStorage]; ok {
		return limit
	}
	return usualDisk
}

// digest of text, short enough to read.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
