package compose

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// Places inside the pods in which the agent runs.
const (
	dataPath    = "/data"
	archivePath = "/backup"

	passwordPath = "/etc/mysql-root"
	socketsPath  = agent.ToolsPath + "/sockets"
)

// withResources of the platform for Jobs, where it says any.
func withResources(r *resolved, containers ...corev1.Container) []corev1.Container {
	if r.Settings.JobResources == nil {
		return containers
	}
	for i := range containers {
		containers[i].Resources = r.jobResources
	}
	return containers
}
