package admission

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// An attackBy modifies an object that the controller creates, so that it becomes dangerous. The policies must refuse
// it.
type attackBy[T any] struct {
	reason, message string
	change          func(T)
}

// inPod applies a change to the pod template of a Job, and inContainer to its first container.
func inPod(change func(*corev1.PodSpec)) func(*batchv1.Job) {
	return func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }
}

func inContainer(change func(*corev1.Container)) func(*batchv1.Job) {
	return inPod(func(p *corev1.PodSpec) { change(&p.Containers[0]) })
}

func withVolume(source corev1.VolumeSource) func(*batchv1.Job) {
	return inPod(func(p *corev1.PodSpec) {
		p.Volumes = append(p.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
	})
}

// attacksByJob returns modified backup Jobs. Each would give a stolen controller token access that the controller
// does not need.
func attacksByJob() map[string]attackBy[*batchv1.Job] {
	return map[string]attackBy[*batchv1.Job]{
		"Token": {"A ServiceAccount of the namespace may do what it may.", "may not have a ServiceAccount token",
			inPod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = new(true) })},
		"TokenByDefault": {"It is mounted where nobody says so.", "may not have a ServiceAccount token",
			inPod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil })},
		"ServiceAccount": {"One that a policy lets do more.", "may not have a ServiceAccount token",
			inPod(func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" })},
		"PullSecrets": {"All Secrets of the namespace, for any image.", "image pull Secrets",
			inPod(func(p *corev1.PodSpec) { p.ImagePullSecrets = make([]corev1.LocalObjectReference, 6) })},
		"Projected": {"A token by another way.", "volumes of instances",
			withVolume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}})},
		"HostPath": {"The node's root.", "volumes of instances",
			withVolume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})},
		"Secret": {"Of the namespace.", "volumes of instances",
			withVolume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "theirs"}})},
		"OtherAccess": {"The way to what somebody restores.", "volumes of instances",
			withVolume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "db-restore-access"}})},
		"RescueName": {"A Secret of the namespace that is called as a way, but for its end.", "volumes of instances",
			withVolume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "access-theirs"}})},
		"ConfigMap": {"Of the namespace.", "volumes of instances",
			withVolume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}})},
		"CSI": {"A driver that hands secrets out.", "volumes of instances",
			withVolume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"}})},
		"NFS": {"Any server.", "volumes of instances",
			withVolume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "a", Path: "/"}})},
		"OthersPVC": {"Data of others.", "volumes of instances",
			withVolume(corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "theirs"}})},
		"Ephemeral": {"A class of somebody else.", "volumes of instances",
			withVolume(corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}})},
		"Clone": {"A copy of what lies on another one.", "volumes of instances", func(j *batchv1.Job) {
			j.Name = "restoretest-db-job"
			withVolume(corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{
						DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "theirs"}},
				}}})(j)
		}},
		"HostNetwork": {"The node's addresses.", "may not use namespaces of its node", inPod(func(p *corev1.PodSpec) { p.HostNetwork = true })},
		"HostPID":     {"The node's processes.", "may not use namespaces of its node", inPod(func(p *corev1.PodSpec) { p.HostPID = true })},
		"HostIPC":     {"The node's memory.", "may not use namespaces of its node", inPod(func(p *corev1.PodSpec) { p.HostIPC = true })},
		"Node": {"A control plane's node.", "may not use namespaces of its node",
			inPod(func(p *corev1.PodSpec) { p.NodeName = "control-plane" })},
		"Toleration": {"The same.", "may not use namespaces of its node",
			inPod(func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })},
		"Role": {"The same, by its taint.", "may not use namespaces of its node", inPod(func(p *corev1.PodSpec) {
			p.Tolerations = []corev1.Toleration{{Key: "databases", Operator: corev1.TolerationOpExists},
				{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}}
		})},
		"Priority": {"The place of others.", "may not use namespaces of its node",
			inPod(func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" })},
		"Group": {"The files of others.", "must run as",
			inPod(func(p *corev1.PodSpec) { p.SecurityContext.SupplementalGroups = []int64{0} })},
		"User": {"Somebody else's.", "must run as",
			inPod(func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(1)) })},
		"Unconfined": {"All system calls.", "must run as",
			inPod(func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined })},
		"NoContext": {"The image decides.", "must run as", inPod(func(p *corev1.PodSpec) { p.SecurityContext = nil })},
		"Privileged": {"All of the node.", "may only have the capabilities",
			inContainer(func(c *corev1.Container) { c.SecurityContext.Privileged = new(true) })},
		"Escalation": {"By a setuid file.", "may only have the capabilities",
			inContainer(func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = nil })},
		"Capability": {"It mounts what it likes.", "may only have the capabilities",
			inContainer(func(c *corev1.Container) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} })},
		"Kept": {"Those that the runtime gives.", "may only have the capabilities",
			inContainer(func(c *corev1.Container) { c.SecurityContext.Capabilities.Drop = nil })},
		"InitContainer": {"The first of two.", "may only have the capabilities", inPod(func(p *corev1.PodSpec) {
			c := p.Containers[0].DeepCopy()
			c.Name, c.SecurityContext = "first", nil
			p.InitContainers = append(p.InitContainers, *c)
		})},
		"Env": {"A Secret of the namespace.", "may not have environment variables", inContainer(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A",
				ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "a"}}}}
		})},
		"EnvFrom": {"All of it.", "may not have environment variables", inContainer(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		})},
		"HostPort": {"The node's port.", "may not have environment variables, ports",
			inContainer(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}} })},
		"Device": {"A disk as it is.", "block devices",
			inContainer(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "a"}} })},
		"Many": {"As many as the cluster has room for.", "one pod",
			func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(1000)) }},
		"Nobodys": {"Nobody finds it.", "labels of an instance", func(j *batchv1.Job) { j.Labels = nil }},
		"Name":    {"It is no work of ours.", "back up, wipe", func(j *batchv1.Job) { j.Name = "miner" }},
	}
}

// attacksByVolume returns modified volumes. Creating such a volume would give access to other data of the node.
func attacksByVolume() map[string]attackBy[*corev1.PersistentVolume] {
	return map[string]attackBy[*corev1.PersistentVolume]{
		"Root": {"All of the node.", "that has the volume's name", func(v *corev1.PersistentVolume) { v.Spec.HostPath.Path = "/" }},
		"Dots": {"The same.", "that has the volume's name", func(v *corev1.PersistentVolume) {
			v.Spec.HostPath.Path = "/x/../etc/" + v.Name
		}},
		"Socket": {"The container runtime's.", "that has the volume's name",
			func(v *corev1.PersistentVolume) { v.Spec.HostPath.Type = new(corev1.HostPathSocket) }},
		"Name": {"A folder that is there.", "that has the volume's name",
			func(v *corev1.PersistentVolume) { v.Name, v.Spec.HostPath.Path = "kubernetes", "/etc/kubernetes" }},
		"NFS": {"Another server.", "that has the volume's name", func(v *corev1.PersistentVolume) {
			v.Spec.HostPath, v.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "a", Path: "/"}
		}},
	}
}

// attacksOnVolumes returns attacks that change an existing volume.
func attacksOnVolumes() map[string]attackBy[*corev1.PersistentVolume] {
	return map[string]attackBy[*corev1.PersistentVolume]{
		"Moved": {"To a namespace of the attacker's.", "in the namespace of its instance",
			func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "attacker" }},
		"Renamed": {"To a PVC that a pod of others mounts.", "in the namespace of its instance",
			func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Name = "theirs" }},
		"Owned": {"Before it is moved.", "may not change the instance of a volume", func(v *corev1.PersistentVolume) {
			v.Annotations["crossplane-mysql.io/claim-namespace"] = "attacker"
		}},
	}
}
