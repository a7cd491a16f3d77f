package compose

import (
	"crypto/sha256"
	"encoding/hex"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// rootPassword is what the first start brings into the server, and whether there may
// be one. It is ignored later.
// What it was started with stays, so that somebody always knows what the server
// was given: the controller brings later changes into the running server. Where
// the data goes with the pod, the next pod's start is a first one again.
func (p *plan) rootPassword() *corev1.Secret {
	password := []byte(p.password)
	if o := p.Observed.RootPassword; o != nil && len(o.Data[v1.PasswordKey]) > 0 && (p.started() && !p.ephemeral() || p.password == "") {
		password = o.Data[v1.PasswordKey]
	}
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: p.meta(p.instance.RootSecretName(), nil),
		Data:       map[string][]byte{v1.PasswordKey: password},
		Type:       corev1.SecretTypeOpaque,
	}
	if p.mayInitialize() {
		s.Data[v1.InitializeKey] = []byte("true")
	}
	return s
}

func (p *plan) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: p.meta(p.instance.ConfigMapName(), nil),
		Data:       map[string]string{v1.ConfigKey: p.config},
	}
}

// deployment of one server. With Recreate a rollout never has two servers on the
// same files. A pod that is evicted or deleted may live on beside its
// successor: then it is InnoDB's own lock on them that keeps the second out.
func (p *plan) deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: p.meta(p.instance.DeploymentName(), p.instance.ServerSelector()),
		Spec: appsv1.DeploymentSpec{
			Replicas:             new(p.start.replicas),
			RevisionHistoryLimit: new(int32(1)),
			Strategy:             appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector:             &metav1.LabelSelector{MatchLabels: p.instance.ServerSelector()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: p.labels(p.instance.ServerSelector())},
				Spec:       p.serverPod(),
			},
		},
	}
	if p.engine.config != "" {
		d.Spec.Template.Annotations = map[string]string{v1.AnnotationConfigHash: digest(p.config)}
	}
	if p.start.replicas > 0 || p.started() {
		d.Annotations = map[string]string{v1.AnnotationStarted: p.startedMark()}
	}
	return d
}

// serverPod shares its processes' namespace: as the first process of its own,
// the image's entrypoint would not hear the signal to stop before the server has
// taken its place, and a deletion in that minute would wait for the whole grace
// period.
func (p *plan) serverPod() corev1.PodSpec {
	pod := corev1.PodSpec{
		ShareProcessNamespace:         new(true),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(gracePeriod),
		SecurityContext:               p.podSecurity(),
		Containers:                    []corev1.Container{p.serverContainer()},
	}
	for _, v := range p.volumes() {
		pod.Volumes = append(pod.Volumes, v.Volume)
	}
	if p.engine.password {
		pod.InitContainers = p.initContainers()
		pod.Volumes = append(pod.Volumes, p.initVolumes()...)
	}
	return pod
}

// serverContainer has no liveness probe: the kubelet restarts a server that
// exits, and killing a busy one would turn a slow database into a broken one.
// The probes open a TCP connection, which needs no shell in the image and no
// password; my.cnf has skip_name_resolve so that they do not block their host.
func (p *plan) serverContainer() corev1.Container {
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(p.engine.portName)}}
	c := corev1.Container{
		Name:            p.engine.name,
		Image:           p.image,
		Env:             p.environment(),
		Ports:           []corev1.ContainerPort{{Name: p.engine.portName, ContainerPort: p.engine.port, Protocol: corev1.ProtocolTCP}},
		StartupProbe:    &corev1.Probe{ProbeHandler: tcp, PeriodSeconds: 1, FailureThreshold: startupProbes},
		ReadinessProbe:  &corev1.Probe{ProbeHandler: tcp, PeriodSeconds: 5, FailureThreshold: 3},
		SecurityContext: p.containerSecurity(),
		Resources:       p.serverResources,
	}
	for _, v := range p.volumes() {
		v.mount.Name = v.Name
		c.VolumeMounts = append(c.VolumeMounts, v.mount)
	}
	return c
}

// service is the one address of the server in all its lives.
func (p *plan) service() *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: p.meta(p.instance.ServiceName(), map[string]string{v1.LabelApp: p.instance.AppLabel()}),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceType(p.spec.Service.Type),
			Selector: p.instance.ServerSelector(),
			Ports: []corev1.ServicePort{{
				Name: p.engine.portName, Port: p.engine.port, TargetPort: intstr.FromString(p.engine.portName), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
	s.Annotations = p.spec.Service.Annotations
	if p.spec.Service.Type == v1.ServiceHeadless {
		s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone
	}
	return s
}

// checkService refuses what the API server would refuse for ever: a Service's
// address cannot come or go.
func (p *plan) checkService() error {
	s := p.Observed.Service
	if s == nil || s.Spec.ClusterIP == "" {
		return nil
	}
	was, wants := s.Spec.ClusterIP == corev1.ClusterIPNone, p.spec.Service.Type == v1.ServiceHeadless
	if was == wants {
		return nil
	}
	return refuse(v1.ReasonInvalid, "spec.service.type: a Service cannot become Headless or stop being so: set it back, or delete the claim (a backup is taken) and create it again")
}

// digest of text, short enough to read.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
