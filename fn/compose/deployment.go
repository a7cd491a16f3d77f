package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/durability"
)

const (
	// gracePeriod is the time in seconds that InnoDB has to flush its buffer pool before the kubelet kills the server.
	// MySQL cannot upgrade the backup of a server that was killed.
	gracePeriod int64 = 600
	// startupProbes is the maximum number of startup probes. With one probe per second, the server has a day to start.
	// Recovery of a large redo log can take long, and a restart would begin it again.
	startupProbes int32 = 86400
)

// usualDisk is the amount of the node's disk that a server may use for temporary files, or for data without a volume.
var usualDisk = resource.MustParse("20Gi")

// deployment returns the Deployment of one server. With the strategy Recreate, a rollout never runs two servers on
// the same files. The pod of an evicted or deleted server can still run when its successor starts. InnoDB's lock on
// the files stops the second server in this case.
func deployment(s *serverInput, begin start, rev revision) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: s.meta(s.instance.DeploymentName(), s.instance.ServerSelector()),
		Spec: appsv1.DeploymentSpec{
			Replicas:             new(begin.replicas),
			MinReadySeconds:      minReadySeconds,
			RevisionHistoryLimit: new(int32(1)),
			Strategy:             appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector:             &metav1.LabelSelector{MatchLabels: s.instance.ServerSelector()},
			Template:             rev.template,
		},
	}
	d.Annotations = map[string]string{v1.AnnotationRevision: rev.mark}
	if begin.replicas > 0 || s.started {
		d.Annotations[v1.AnnotationStarted] = startedMark(s.instance)
	}
	return d
}

// serverTemplate returns the server's pod template, as this release of the function creates it.
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

// serverPod returns the server's pod, whose containers share a process namespace. Otherwise the image's entrypoint
// would be the first process, and would ignore SIGTERM until the server replaces it. A deletion during this time
// would wait for the whole grace period.
func serverPod(s *serverInput) corev1.PodSpec {
	pod := corev1.PodSpec{
		ShareProcessNamespace:         new(true),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(gracePeriod),
		SecurityContext:               agent.PodSecurity(false),
		Containers:                    []corev1.Container{serverContainer(s)},
		ImagePullSecrets:              v1.PodPullSecrets(s.templateInput.ImagePullSecrets),
	}
	schedule(s, &pod)
	for _, v := range serverVolumes(s) {
		pod.Volumes = append(pod.Volumes, v.Volume)
	}
	if s.hasExporter() {
		pod.Containers = append(pod.Containers, agent.ExporterContainer(s.platform.ExporterImage, socketMount(s)))
		pod.Volumes = append(pod.Volumes, agent.ExporterVolume(s.instance.MetricsSecretName()))
	}
	if s.engine.password {
		pod.InitContainers = initContainers(s)
		pod.Volumes = append(pod.Volumes, initVolumes(s)...)
	}
	return pod
}

// hasExporter reports whether the exporter runs in the server's pod. It needs a server with accounts.
func (s *serverInput) hasExporter() bool { return s.templateInput.Metrics && s.engine.password }

// socketMount returns the mount of the directory with the server's socket.
func socketMount(s *serverInput) corev1.VolumeMount {
	mounts := scratchMounts(s).mounts
	return mounts[slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == agent.SocketDir })]
}

// serverContainer returns the server's container without a liveness probe. The kubelet restarts a server that exits,
// and killing a busy server would only make it worse. The probes open a TCP connection, which requires neither a
// shell in the image nor a password. my.cnf sets skip_name_resolve, so that the server does not block the probes.
func serverContainer(s *serverInput) corev1.Container {
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(s.engine.portName)}}
	c := corev1.Container{
		Name:  s.engine.name,
		Image: s.templateInput.Image,
		Args:  serverArguments(s),
		Env:   serverEnvironment(s),
		Ports: []corev1.ContainerPort{
			{Name: s.engine.portName, ContainerPort: s.engine.port, Protocol: corev1.ProtocolTCP}},
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

// serverArguments returns the arguments of mysqld. Only the server of the instance has them. The servers of the init
// container and of Jobs must not wait for the BackupStore.
func serverArguments(s *serverInput) []string {
	if !s.engine.password || s.templateInput.Durability == "" {
		return nil
	}
	return durability.Arguments(s.templateInput.Image)
}

// serverEnvironment returns empty values for the password variables of the image. Without a password, the image's
// entrypoint exits with an error if the data directory is empty, instead of initializing a database.
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

// A mounted volume is a volume of the server's pod with its mounts.
type mounted struct {
	corev1.Volume

	mounts []corev1.VolumeMount
}

// serverVolumes returns the volumes of the server's container, the data first.
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

// configMount returns the volume with the my.cnf and its mount in the server's container.
func configMount(s *serverInput) mounted {
	return mounted{
		corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.instance.ConfigMapName()},
		}}},
		[]corev1.VolumeMount{{Name: "config", MountPath: s.engine.config, ReadOnly: true}},
	}
}

// scratchMounts returns the volume for the server's socket and temporary files, with a mount for each directory.
func scratchMounts(s *serverInput) mounted {
	out := mounted{Volume: agent.EmptyVolume("scratch", diskOf(s))}
	for _, f := range s.engine.scratch {
		out.mounts = append(out.mounts, corev1.VolumeMount{Name: "scratch", MountPath: f.path, SubPath: f.name})
	}
	return out
}

// dataMount mounts the data directory, which is a subdirectory of the volume. An ephemeral volume has the same
// layout.
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

// diskOf returns how much of the node's disk a pod may use. A pod that uses more is evicted before the disk is full.
// The amount does not depend on the size of the data, which can grow while the server runs.
func diskOf(s *serverInput) resource.Quantity {
	if limit, ok := s.resources.Limits[corev1.ResourceEphemeralStorage]; ok {
		return limit
	}
	return usualDisk
}

// digest returns a short digest of a string.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
