package agent

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// ExporterName is the name of the container in the server's pod that serves metrics, and of its volume.
const ExporterName = "exporter"

// Paths in the container of the exporter. The server's socket is at this path in the official images of MySQL and
// MariaDB.
const (
	accountDir = "/" + ExporterName
	SocketDir  = "/var/run/mysqld"
	SocketFile = SocketDir + "/mysqld.sock"
)

// exporterUID is the UID and GID of the exporter. It differs from ServerUID. The
// containers of the server's pod share a process namespace, in which processes of the same user can open each other's
// files.
const exporterUID int64 = 65534

// ExporterContainer returns the container that serves the metrics of the server in the same pod. socket is the mount
// of the directory with the server's socket. A pod is not ready while one of its containers is not running. The
// program of this product therefore runs the exporter as its child, and starts it again when it exits. The container
// has no probes for the same reason.
func ExporterContainer(image string, socket corev1.VolumeMount) corev1.Container {
	tools, account := ToolsMount(), corev1.VolumeMount{Name: ExporterName, MountPath: accountDir, ReadOnly: true}
	tools.ReadOnly, socket.ReadOnly = true, true
	security := Security()
	security.RunAsUser, security.RunAsGroup, security.RunAsNonRoot = new(exporterUID), new(exporterUID), new(true)
	c := Container(ExporterName, image, Memory, security, []corev1.VolumeMount{tools, account, socket},
		ExportMetrics(accountDir+"/"+v1.MetricsKey, v1.MetricsPort)...)
	c.Ports = []corev1.ContainerPort{
		{Name: v1.MetricsPortName, ContainerPort: v1.MetricsPort, Protocol: corev1.ProtocolTCP}}
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("96Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
	return c
}

// ExporterVolume returns the volume with the account of the exporter. The Secret is optional, so that the server
// starts without it. The controller creates the Secret, and the kubelet then updates the volume.
func ExporterVolume(secret string) corev1.Volume {
	v := secretVolume(ExporterName, secret, 0o444)
	v.Secret.Optional = new(true)
	v.Secret.Items = []corev1.KeyToPath{{Key: v1.MetricsKey, Path: v1.MetricsKey}}
	return v
}
