package finalize

import (
	"encoding/json"
	"path"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// archiveName of a backup, in its record's folder.
const archiveName = "data.tar.zst"

// annotationPruned of a prune Job lists the records whose folders it removes, as
// JSON. It is read back once the Job is complete.
const annotationPruned = v1.Group + "/pruned"

// Places inside a Job's pod.
const (
	program    = "/controller"
	dataPath   = "/data"
	backupPath = "/backup"
)

// serverUID is the uid and gid of the server in the official images of MySQL and
// of MongoDB.
const serverUID int64 = 999

// backupJob archives the data of a stopped server.
func backupJob(s *instance.State, image string) *batchv1.Job {
	command := []string{
		program, "backup",
		"--volume=" + dataPath,
		"--directory=" + v1.DataDirectory,
		"--archive=" + path.Join(backupPath, s.Life.RecordName(), archiveName),
		"--record=" + s.Life.RecordName(),
		"--xr=" + string(s.Life.XR),
		"--kind=" + s.Life.Kind,
		"--namespace=" + s.Life.Namespace,
		"--namespace-uid=" + string(s.NamespaceUID()),
		"--name=" + s.Life.Name,
		"--image=" + serverImage(s),
	}
	if v := serverVersion(s); v != "" {
		command = append(command, "--source-version="+v)
	}
	if !s.Lost && !knownData(s) && s.Life.Kind == v1.KindMySQL { // Only there the first start's end leaves a trace.
		command = append(command, "--never-served")
	}
	return job(s, image, s.Place().BackupJob, v1.ComponentBackup, command, data(s), backups(s))
}

// wipeJob empties the folder of a hostPath volume.
func wipeJob(s *instance.State, image string) *batchv1.Job {
	return job(s, image, s.Place().WipeJob, v1.ComponentWipe, []string{program, "wipe", "--volume=" + dataPath}, data(s))
}

// pruneJob removes the folders of records.
func pruneJob(s *instance.State, image string, records []client.Object) *batchv1.Job {
	names := make([]string, 0, len(records))
	command := append(make([]string, 0, len(records)+3), program, "prune", "--volume="+backupPath)
	for _, r := range records {
		names = append(names, r.GetName())
		command = append(command, "--folder="+r.GetName())
	}
	j := job(s, image, s.Place().PruneJob, v1.ComponentPrune, command, backups(s))
	list, _ := json.Marshal(names) //nolint:errchkjson // Strings only.
	j.Annotations[annotationPruned] = string(list)
	return j
}

// job of the agent. It runs once: the controller tries again, and says why.
func job(s *instance.State, image, name, component string, command []string, volumes ...corev1.Volume) *batchv1.Job {
	labels := s.Life.Labels()
	labels[v1.LabelComponent] = component
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Place().Namespace, Name: name, Labels: labels, Annotations: claimAnnotations(s.Life),
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:         new(int32(0)),
			PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       pod(s, image, component, command, volumes),
			},
		},
	}
}

// pod of the agent: no API credentials, no password.
func pod(s *instance.State, image, component string, command []string, volumes []corev1.Volume) corev1.PodSpec {
	c := corev1.Container{
		Name:                     component,
		Image:                    image,
		Command:                  command,
		SecurityContext:          containerSecurity(s),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}},
	}
	for _, v := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext:              podSecurity(s),
		Containers:                   []corev1.Container{c},
		Volumes:                      volumes,
	}
}

func data(s *instance.State) corev1.Volume { return volume("data", s.Place().Data) }

func backups(s *instance.State) corev1.Volume { return volume("backup", s.Place().Backup) }

func volume(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// podSecurity is the server's: the uid that owns the files, or root in a folder
// that the kubelet made for root.
func podSecurity(s *instance.State) *corev1.PodSecurityContext {
	seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	if s.HostPath() {
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

func containerSecurity(s *instance.State) *corev1.SecurityContext {
	c := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if s.HostPath() {
		c.Capabilities.Add = []corev1.Capability{"DAC_OVERRIDE", "FOWNER"}
	}
	return c
}

// claimAnnotations say whose an object is, and bring its events here.
func claimAnnotations(i v1.Instance) map[string]string {
	return map[string]string{
		v1.AnnotationClaimKind:      i.Kind,
		v1.AnnotationClaimNamespace: i.Namespace,
		v1.AnnotationClaimName:      i.Name,
	}
}

// serverImage that wrote the data.
func serverImage(s *instance.State) string {
	if s.XR.Status.Image != "" {
		return s.XR.Status.Image
	}
	return annotation(s, v1.AnnotationImage)
}

// serverVersion that the server gave as its own; empty where it never answered.
func serverVersion(s *instance.State) string { return annotation(s, v1.AnnotationVersion) }

// annotation of the data's claim or volume.
func annotation(s *instance.State, key string) string {
	if s.DataClaim != nil && s.DataClaim.Annotations[key] != "" {
		return s.DataClaim.Annotations[key]
	}
	if s.DataVolume != nil {
		return s.DataVolume.Annotations[key]
	}
	return ""
}

// identity of a data volume: what must be known of it when claim and XR are gone.
func identity(s *instance.State) map[string]string {
	a := claimAnnotations(s.Life)
	a[v1.AnnotationImage] = serverImage(s)
	a[v1.AnnotationNamespaceUID] = string(s.NamespaceUID())
	a[v1.AnnotationDeletionPolicy] = string(s.XR.Spec.DeletionPolicy)
	if v := serverVersion(s); v != "" {
		a[v1.AnnotationVersion] = v
	}
	return a
}
